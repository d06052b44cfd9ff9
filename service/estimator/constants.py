"""The constants of the step-time model, each with what it rests on, and how fast each accelerator's kernels are.

"Fitted" means: chosen so that the whole model agrees with published throughput (the Megatron-LM README, arXiv
2104.04473, 2205.05198, 2402.15627 and 2407.21783, llm-foundry, torchtitan, vTrain). On the 317 rows of nine sources
that the back-test has, the median error of these values is 5.6 %; fitted again without the row's own source it is
12.0 % (6.7 and 9.9 % as the mean of the sources' medians; `python -m bench.refit`, 2026-11-30). "Derived" means:
counted from the algorithm. "Assumed" means neither, and an answer that leans on it says so.
"""

from typing import Literal

from msgspec import Struct

Basis = Literal["fitted", "derived", "assumed"]


class StepConstants(Struct, frozen=True, kw_only=True):
    """Everything in the model that is neither hardware, nor the model trained, nor its layout."""

    fused_elementwise_bytes: float
    eager_elementwise_bytes: float
    logit_bytes: float
    softmax_bytes: float
    optimizer_bytes: float
    memory_efficiency: float
    link_efficiency: float
    network_efficiency: float
    data_overlap: float
    tensor_overlap: float


class Origin(Struct, frozen=True):
    """What one constant means, what it rests on, and where it was read."""

    meaning: str
    basis: Basis
    source: str


class KernelEfficiency(Struct, frozen=True):
    """The shares of the peak that matrix products and fused attention reach, and what that rests on."""

    gemm: float
    attention: float
    basis: Basis
    source: str


SHIPPED = StepConstants(
    fused_elementwise_bytes=45.0,
    eager_elementwise_bytes=80.0,
    logit_bytes=32.0,
    softmax_bytes=12.0,
    optimizer_bytes=30.0,
    memory_efficiency=0.80,
    link_efficiency=0.65,
    network_efficiency=0.80,
    data_overlap=0.65,
    tensor_overlap=0.40,
)

ORIGINS: dict[str, Origin] = {
    "fused_elementwise_bytes": Origin(
        "memory traffic of norms, activations and residuals per token and hidden unit, fused or compiled",
        "fitted",
        "Megatron-LM README and arXiv 2104.04473 (fused kernels), torchtitan (compiled)",
    ),
    "eager_elementwise_bytes": Origin(
        "the same in eager PyTorch", "fitted", "llm-foundry scripts/train/benchmarking/README.md"
    ),
    "logit_bytes": Origin(
        "memory traffic of the loss per token and word of the vocabulary, forward and backward",
        "assumed",
        "held at a round value while the others were fitted; without it the median error is 7.6 %, not 7.0 %",
    ),
    "softmax_bytes": Origin(
        "memory traffic per attention score without a fused kernel: six passes over 2-byte scores",
        "derived",
        "arXiv 2205.05198 section 4.1: softmax, its dropout and the product after it, each read and written",
    ),
    "optimizer_bytes": Origin(
        "memory traffic of Adam per parameter: master, two moments (read and written), gradient, BF16 copy",
        "derived",
        "arXiv 1910.02054 section 3.1: 3 x 4 bytes read and written, 4 read, 2 written",
    ),
    "memory_efficiency": Origin("share of the memory's bandwidth that is reached", "assumed", "a round value"),
    "link_efficiency": Origin("share of the bandwidth in a node that a collective reaches", "assumed", "a round value"),
    "network_efficiency": Origin(
        "share of the bandwidth between nodes that a collective reaches", "assumed", "a round value"
    ),
    "data_overlap": Origin("share of the gradients' exchange that can hide behind compute", "assumed", "a round value"),
    "tensor_overlap": Origin(
        "share of the tensor-parallel and pipeline exchange that overlap hides", "assumed", "a round value"
    ),
}

# What is left over when the model is compared with published runs whose source was left out of the fit: the sigma of
# ln(measured / predicted) at which P10 to P90 holds 80 % of the rows, every source weighing the same, rounded up
# (`python -m bench.refit`; decided on 2026-11-30). Not the standard deviation: six rows of ZeRO-3 of 2021 decide that,
# 0.20 or 0.13 with the layout given, and from one point 0.23 or 0.02. Rows with a known reason to miss count, for
# nobody knows whether the next run has one. 317 rows of nine sources with the layout given or searched, 30 of five from
# one point. By the sigma of all other sources, a source's own interval holds 78, 80 and 82 % in the mean. Rows counted
# alike, that of a given layout holds 72 %: most of them are one source's, the only one with eager kernels.
SIGMA_LN_LAYOUT_GIVEN = 0.16
SIGMA_LN_ONE_POINT = 0.031
# The search recomputes as little as fits, which not all authors did: told whether they do, it would be 0.15.
SIGMA_LN_LAYOUT_SEARCHED = 0.32
# A searched layout is better than the one that the authors had; assumed, a round value.
SEARCHED_THROUGHPUT_FACTOR = 0.9

# e_gemm over MAMF is 0.71 / 0.869 = 0.82 on the A100 and 0.62 / 0.803 = 0.77 on the H100. Assumed elsewhere.
GEMM_OVER_MAMF = 0.8
# The lower of the two fitted values. Assumed elsewhere.
ASSUMED_ATTENTION = 0.18

_FIT = "fitted to published throughput"
_SAME_DIE = "the same die as the {0}, whose values were fitted"
_MAMF_SOURCE = "0.8 x MAMF (stas00/ml-engineering, compute/accelerator/README.md, BF16); attention as on the H100"

# Maximum achievable matrix-product FLOPS over the theoretical ones, BF16, by catalogue id: the table in
# stas00/ml-engineering, compute/accelerator/README.md. A part that is not in it is unknown.
_MAMF: dict[str, float] = {
    "a100-pcie-40gb": 0.811,
    "a100-pcie-80gb": 0.811,
    "gh200-144gb": 0.838,
    "b200-sxm-180gb": 0.776,
    "b300-sxm-288gb": 0.786,
    "gb200-186gb": 0.729,
    "mi300x-192gb": 0.514,
    "mi325x-256gb": 0.604,
    "mi355x-288gb": 0.680,
    "gaudi2-96gb": 0.969,
    "gaudi3-128gb": 0.741,
}


def assumed_kernels(best_gemm: float, source: str) -> KernelEfficiency:
    """Kernels of an accelerator of which only the best matrix product is known, as a share of the peak."""
    return KernelEfficiency(GEMM_OVER_MAMF * best_gemm, ASSUMED_ATTENTION, "assumed", source)


_KERNELS: dict[str, KernelEfficiency] = {
    "a100-sxm-40gb": KernelEfficiency(0.71, 0.32, "fitted", _FIT),
    "a100-sxm-80gb": KernelEfficiency(0.71, 0.32, "fitted", _FIT),
    "h100-sxm-80gb": KernelEfficiency(0.62, 0.18, "fitted", _FIT),
    "a800-sxm-80gb": KernelEfficiency(0.71, 0.32, "assumed", _SAME_DIE.format("A100")),
    "h800-sxm-80gb": KernelEfficiency(0.62, 0.18, "assumed", _SAME_DIE.format("H100")),
    "h200-sxm-141gb": KernelEfficiency(0.62, 0.18, "assumed", _SAME_DIE.format("H100")),
} | {accelerator_id: assumed_kernels(mamf, _MAMF_SOURCE) for accelerator_id, mamf in _MAMF.items()}

_KNOWN_PRECISIONS = frozenset({"bf16", "fp16"})


def find_kernel_efficiency(accelerator_id: str, precision: str) -> KernelEfficiency | None:
    """How fast this accelerator's kernels are at this precision; None where nothing is known of it.

    FP8 is unknown everywhere: what it gains over BF16 depends on the software more than on the part
    (`utilisation.LOW_PRECISION_BY_SOURCE`). None is for the caller to say, and to widen.
    """
    return _KERNELS.get(accelerator_id) if precision in _KNOWN_PRECISIONS else None
