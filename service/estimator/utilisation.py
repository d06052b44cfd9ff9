"""How fast a run will be where nobody measured it, and how sure that is; and from a step to a bill.

Measured points come first, then one point with the shape of the step model, then the step model with the layout
given or searched, then what is usual for the accelerator's family. Each has the spread that it showed on published
runs; what was never checked against published runs widens it, by an assumption that has a name here.
"""

import math
from typing import Literal

from msgspec import Struct

from service.estimator.constants import (
    SIGMA_LN_LAYOUT_GIVEN,
    SIGMA_LN_LAYOUT_SEARCHED,
    SIGMA_LN_ONE_POINT,
    KernelEfficiency,
)
from service.estimator.flops import (
    MOE_MFU_HIGH,
    MOE_MFU_LOW,
    MOE_MFU_RACK_SCALE_HIGH,
    MOE_MFU_RACK_SCALE_LOW,
    QLORA_MFU_HIGH,
    QLORA_MFU_LOW,
)

Method = Literal[
    "mfu_given",
    "hfu_given",
    "throughput_given",
    "measured_points",
    "one_point",
    "layout_given",
    "layout_searched",
    "family_prior",
]
Family = Literal["a100", "h100", "blackwell", "tpu", "other"]
Regime = Literal[
    "accelerator_unvalidated",
    "mixture_of_experts",
    "low_precision",
    "wide_precision",
    "slow_network",
    "long_sequence",
    "context_parallel",
    "adapters",
    "quantized_adapters",
]

# P90 of a lognormal is its median times e^(1.2816 sigma).
P90_SIGMAS = 1.2815515655446004

# One step-to-bill rule: evaluation, ramp-up and hangs add 10 % to the productive hours, rework comes by cause.
OVERHEAD_PERCENT = 10.0
# Billed over step MFU of published runs is 0.75 to 0.95; taken as P10 and P90.
SIGMA_LN_STEP_TO_BILL = math.log(0.95 / 0.75) / (2 * P90_SIGMAS)

# A GPU family's step MFU, P10, P50 and P90, against its BF16 peak, all attention counted: 85 published rows of at
# least 64 GPUs and 7B parameters (the Megatron-LM README, arXiv 2104.04473, llm-foundry, torchtitan, MegaScale).
PRIOR_MFU: dict[Family, tuple[float, float, float]] = {"a100": (0.34, 0.44, 0.58), "h100": (0.36, 0.42, 0.47)}
# The same within one node.
PRIOR_MFU_ONE_NODE: dict[Family, tuple[float, float, float]] = {
    "a100": (0.43, 0.53, 0.60),
    "h100": (0.35, 0.40, 0.45),
}
# Elsewhere the usual 30, 40 and 50 %, assumed.
ASSUMED_MFU = (0.30, 0.40, 0.50)

# FP8 over BF16 in PyTorch: 1.27 to 1.45 (torchtitan), their geometric mean; MLPerf v5.0 measured 1.77.
LOW_PRECISION_FACTOR = math.sqrt(1.27 * 1.45)
SIGMA_LN_LOW_PRECISION = math.log(1.77 / 1.27) / (2 * P90_SIGMAS)
MOE_FACTOR = math.sqrt(MOE_MFU_LOW * MOE_MFU_HIGH)
SIGMA_LN_MOE = math.log(MOE_MFU_HIGH / MOE_MFU_LOW) / (2 * P90_SIGMAS)
MOE_RACK_SCALE_FACTOR = math.sqrt(MOE_MFU_RACK_SCALE_LOW * MOE_MFU_RACK_SCALE_HIGH)
QLORA_FACTOR = math.sqrt(QLORA_MFU_LOW * QLORA_MFU_HIGH)

# How much each regime that no published table covers widens the spread, as a standard deviation of the logarithm.
# Assumed, but for experts, narrow precisions and quantized adapters, whose published factors are above.
REGIME_SIGMAS: dict[Regime, float] = {
    "accelerator_unvalidated": 0.20,
    "mixture_of_experts": SIGMA_LN_MOE,
    "low_precision": SIGMA_LN_LOW_PRECISION,
    "wide_precision": 0.20,
    "slow_network": 0.20,
    "long_sequence": 0.20,
    "context_parallel": 0.10,
    "adapters": 0.10,
    "quantized_adapters": math.log(QLORA_MFU_HIGH / QLORA_MFU_LOW) / (2 * P90_SIGMAS),
}
# Where the step model was checked.
LEAST_NETWORK_GBPS = 100.0
LONGEST_SEQUENCE = 32_768

_METHOD_SIGMAS: dict[Method, float] = {
    "mfu_given": 0.0,
    "hfu_given": 0.0,
    "throughput_given": 0.0,
    "one_point": SIGMA_LN_ONE_POINT,
    "layout_given": SIGMA_LN_LAYOUT_GIVEN,
    "layout_searched": SIGMA_LN_LAYOUT_SEARCHED,
}
_FAMILIES: dict[Family, tuple[str, ...]] = {
    "a100": ("a100", "a800"),
    "h100": ("h100", "h200", "h800"),
    "blackwell": ("b200", "b300", "gb"),
    "tpu": ("tpu",),
}


class Prior(Struct, frozen=True):
    """A usual MFU against the BF16 peak, 0 to 1, and the standard deviation of its logarithm."""

    mfu: float
    sigma_ln: float


def family_of(accelerator_id: str) -> Family:
    """The generation of an accelerator: parts of one die are one family."""
    return next((kind for kind, starts in _FAMILIES.items() if accelerator_id.startswith(starts)), "other")


def family_prior(family: Family, one_node: bool = False) -> Prior:
    """What is usual for the family: the median, and a spread from P10 to P90."""
    known = PRIOR_MFU_ONE_NODE if one_node else PRIOR_MFU
    low, middle, high = known.get(family, ASSUMED_MFU)
    return Prior(middle, math.log(high / low) / (2 * P90_SIGMAS))


def mixture_factor(family: Family) -> float:
    """What experts leave of a dense model's MFU (see MOE_MFU_LOW): more where one link joins a whole rack."""
    return MOE_RACK_SCALE_FACTOR if family == "blackwell" else MOE_FACTOR


def is_validated(kernels: KernelEfficiency | None) -> bool:
    """Whether the step model was fitted to published throughput of this accelerator."""
    return kernels is not None and kernels.basis == "fitted"


def spread(method: Method, regimes: tuple[Regime, ...], own_sigma_ln: float | None = None) -> float:
    """Standard deviation of ln(real / predicted): the method's, or the one given, widened by every regime."""
    base = _METHOD_SIGMAS[method] if own_sigma_ln is None else own_sigma_ln
    return math.hypot(base, *(REGIME_SIGMAS[regime] for regime in regimes))


def quantile_factors(sigma_ln: float) -> tuple[float, float]:
    """What P10 and P90 are of the median."""
    return math.exp(-P90_SIGMAS * sigma_ln), math.exp(P90_SIGMAS * sigma_ln)
