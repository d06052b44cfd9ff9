"""Floating-point operations of training, each formula once, for single numbers and for NumPy arrays alike.

A multiplication with an addition counts as two operations. Model FLOPs are what the mathematics needs;
hardware FLOPs include what is computed a second time to save memory. `causal_factor` is the share of the
attention matrix that is counted: 1, the convention of PaLM, Megatron-LM and Llama 3, or 0.5, which counts only
what a causal mask leaves. Any utilization derived from these must say which one it used.

Integers stay exact where the formula has no quotient; arrays should be of floats, for these products pass the
range of 64-bit integers.
"""

import math
from typing import Literal

from msgspec import Struct

from service.estimator.compute import Recompute
from service.estimator.cost import Number
from service.estimator.parameters import active_layers_parameters, active_parameters
from service.estimator.shapes import ModelShape, head_dim_of
from service.units import HOURS_PER_DAY

Training = Literal["full", "lora", "qlora"]

FULL_ATTENTION = 1
CAUSAL_ATTENTION = 0.5

# Dequantizing the frozen weights is work that no FLOP count sees: QLoRA reaches this share of the MFU of LoRA.
# Assumed: no published table was found.
QLORA_MFU_LOW, QLORA_MFU_HIGH = 0.7, 0.9

# A mixture of experts reaches this share of a dense model's MFU: NVIDIA-NeMo/Megatron-Bridge@067f987
# docs/performance-summary-archive.md, H100: DeepSeek-V3 338, Qwen3-235B 178-233, Qwen3-30B 121-241 against 727-731
# TFLOPS of a dense 70B; GB200 and GB300: 1,276-1,670 against 1,976-2,646 of a dense 405B.
MOE_MFU_LOW, MOE_MFU_HIGH = 0.25, 0.5
MOE_MFU_RACK_SCALE_LOW, MOE_MFU_RACK_SCALE_HIGH = 0.6, 0.8

# Repeated tokens: Muennighoff et al. 2023 (arXiv 2305.16264), fitted R*, and what the paper says of epochs.
REPETITION_CONSTANT = 15.387756
EPOCHS_LIKE_FRESH_DATA = 4
EPOCHS_ADVISED_AGAINST = 16

_SECONDS_PER_HOUR = 3600


class ScalingLaw(Struct, frozen=True):
    """Loss after training: E + A / N^alpha + B / D^beta (Hoffmann et al. 2022, equation 2)."""

    irreducible: float
    parameter_scale: float
    token_scale: float
    parameter_exponent: float
    token_exponent: float


# Besiroglu et al. 2024 (arXiv 2404.10102), the refit of Hoffmann's own data.
BESIROGLU = ScalingLaw(1.8172, 482.01, 2085.43, 0.3478, 0.3658)
# The constants as Hoffmann et al. 2022 print them: rounded, and inconsistent with their own rule of 20 tokens a
# parameter. To compare with; not to plan by.
HOFFMANN_AS_PRINTED = ScalingLaw(1.69, 406.4, 410.7, 0.34, 0.28)
TOKENS_PER_PARAMETER_RULE = 20


# ------------------------------------------------------------------------------------------- dense and MoE


def six_nd_flops(parameters: Number, tokens: Number) -> Number:
    """Training by parameters alone: 6*N*D (Kaplan et al. 2020, Hoffmann et al. 2022); for s << 6*h, and with the
    active parameters of a mixture of experts."""
    return 6 * parameters * tokens


def attention_flops_per_token(shape: ModelShape, sequence_length: Number, causal_factor: Number) -> Number:
    """Scores and their product with the values, forward and backward: 12*L*a*d*s*c (PaLM, App. B)."""
    return 12 * shape.layers * shape.heads * head_dim_of(shape) * sequence_length * causal_factor


def flops_per_token(shape: ModelShape, sequence_length: Number, causal_factor: Number) -> Number:
    """Model FLOPs of one token, forward and backward: 6*(L*W + V*h) + 12*L*a*d*s*c, experts only if active
    (NVIDIA-NeMo/Megatron-Bridge@067f987 src/megatron/bridge/training/utils/flop_utils.py, for c = 0.5)."""
    return 6 * active_parameters(shape) + attention_flops_per_token(shape, sequence_length, causal_factor)


# ------------------------------------------------------------------------------------------- fine-tuning


def lora_flops_per_token(
    shape: ModelShape, active_lora_parameters: Number, sequence_length: Number, causal_factor: Number
) -> Number:
    """Model FLOPs of one token with frozen weights and adapters: 4*(L*W + V*h) + 6*N_lora + attention. Frozen
    weights need no gradient of their own (Megatron-Bridge@067f987 flop_utils: frozen * 2/3 + unfrozen).
    QLoRA has the same FLOPs; what it loses is in `QLORA_MFU_LOW` and `QLORA_MFU_HIGH`."""
    attention = attention_flops_per_token(shape, sequence_length, causal_factor)
    return 4 * active_parameters(shape) + 6 * active_lora_parameters + attention


def training_flops_per_token(
    shape: ModelShape,
    sequence_length: Number,
    causal_factor: Number,
    training: Training = "full",
    active_lora_parameters: Number = 0,
) -> Number:
    """Model FLOPs of one token for this kind of training."""
    if training == "full":
        return flops_per_token(shape, sequence_length, causal_factor)
    return lora_flops_per_token(shape, active_lora_parameters, sequence_length, causal_factor)


# ------------------------------------------------------------------------------------------- recomputing


def recomputed_flops_per_token(
    shape: ModelShape, sequence_length: Number, causal_factor: Number, recompute: Recompute
) -> Number:
    """What one token computes twice: nothing, the attention core's forward pass (selective), or that of every
    layer, logits not among them (full); Korthikanti et al. 2022 (arXiv 2205.05198), section 5.

    The paper's own formula for selective counts that core twice: see `korthikanti_selective_flops`.
    """
    if recompute == "none":
        return 0
    core = 4 * shape.layers * shape.heads * head_dim_of(shape) * sequence_length * causal_factor
    return core if recompute == "selective" else core + 2 * active_layers_parameters(shape)


def hardware_flops_per_token(
    shape: ModelShape, sequence_length: Number, causal_factor: Number, recompute: Recompute
) -> Number:
    """Model FLOPs of one token and what is recomputed."""
    model = flops_per_token(shape, sequence_length, causal_factor)
    return model + recomputed_flops_per_token(shape, sequence_length, causal_factor, recompute)


def recompute_multiplier(
    shape: ModelShape, sequence_length: Number, causal_factor: Number, recompute: Recompute
) -> Number:
    """Hardware FLOPs over model FLOPs: 1; just above 1 (selective); 4/3 on layers and 1 on logits (full)."""
    hardware = hardware_flops_per_token(shape, sequence_length, causal_factor, recompute)
    return hardware / flops_per_token(shape, sequence_length, causal_factor)


# ------------------------------------------------------------------------------------------- published forms


def narayanan_hardware_flops(
    batch: Number, sequence_length: Number, layers: Number, hidden: Number, vocabulary: Number
) -> Number:
    """Hardware FLOPs of one iteration of a GPT (f = 4*h) with full recompute, `batch` in sequences:
    96*B*s*L*h^2 * (1 + s/(6*h) + V/(16*L*h)) (Narayanan et al. 2021, arXiv 2104.04473, section 5)."""
    rest = 1 + sequence_length / (6 * hidden) + vocabulary / (16 * layers * hidden)
    return 96 * batch * sequence_length * layers * hidden * hidden * rest


def korthikanti_model_flops(
    batch: Number, sequence_length: Number, layers: Number, hidden: Number, vocabulary: Number
) -> Number:
    """Model FLOPs of one iteration of a GPT: 72*B*s*L*h^2 * (1 + s/(6*h) + V/(12*L*h))
    (Korthikanti et al. 2022, arXiv 2205.05198, App. A)."""
    rest = 1 + sequence_length / (6 * hidden) + vocabulary / (12 * layers * hidden)
    return 72 * batch * sequence_length * layers * hidden * hidden * rest


def korthikanti_selective_flops(
    batch: Number, sequence_length: Number, layers: Number, hidden: Number, vocabulary: Number
) -> Number:
    """Hardware FLOPs of one iteration with selective recompute as the paper prints them, s/(3*h) for s/(6*h)
    (Korthikanti et al. 2022, App. A): it adds the attention core's forward pass three times, where it runs
    once more. Only to reproduce the paper's HFU."""
    rest = 1 + sequence_length / (3 * hidden) + vocabulary / (12 * layers * hidden)
    return 72 * batch * sequence_length * layers * hidden * hidden * rest


def shortcut_days(parameters: Number, tokens: Number, gpu_count: Number, flops_per_second: Number) -> Number:
    """Days with full recompute by parameters alone: 8*N*D / (n*X), X achieved hardware FLOPs a second on one
    GPU (Narayanan et al. 2021, section 5)."""
    seconds = 8 * parameters * tokens / (gpu_count * flops_per_second)
    return seconds / (_SECONDS_PER_HOUR * HOURS_PER_DAY)


# ------------------------------------------------------------------------------------------- utilization


def utilization(flops_per_second: Number, gpu_count: Number, peak_flops_per_second: Number) -> Number:
    """The share of the dense peak that is used, 0 to 1."""
    return flops_per_second / (gpu_count * peak_flops_per_second)


def mfu(
    tokens_per_second: Number, model_flops_per_token: Number, gpu_count: Number, peak_flops_per_second: Number
) -> Number:
    """Model FLOPs utilization, 0 to 1 (PaLM, Chowdhery et al. 2022, App. B); tokens of the whole cluster."""
    return utilization(tokens_per_second * model_flops_per_token, gpu_count, peak_flops_per_second)


def hfu(
    tokens_per_second: Number, hardware_flops_per_token: Number, gpu_count: Number, peak_flops_per_second: Number
) -> Number:
    """Hardware FLOPs utilization, 0 to 1: as MFU, what is recomputed included; never below MFU."""
    return utilization(tokens_per_second * hardware_flops_per_token, gpu_count, peak_flops_per_second)


def billed_mfu(model_flops: Number, gpu_hours: Number, peak_flops_per_second: Number) -> Number:
    """Model FLOPs of a whole run over what its billed GPU-hours could have done, 0 to 1: below the MFU of a step
    by all that is no step."""
    return utilization(model_flops / _SECONDS_PER_HOUR, gpu_hours, peak_flops_per_second)


def palm_max_tokens_per_second(
    gpu_count: Number,
    peak_flops_per_second: Number,
    parameters: Number,
    layers: Number,
    heads: Number,
    head_dim: Number,
    sequence_length: Number,
) -> Number:
    """Tokens a second of the cluster at its peak: n*P / (6*N + 12*L*H*Q*T) (PaLM, App. B); a measured rate over
    this one is the MFU. Zero heads leave attention out."""
    per_token = 6 * parameters + 12 * layers * heads * head_dim * sequence_length
    return gpu_count * peak_flops_per_second / per_token


# ------------------------------------------------------------------------------------------- data and loss


def effective_tokens(unique_tokens: Number, trained_tokens: Number) -> Number:
    """Fresh tokens worth as much as these repeated ones: D for one epoch or less, else
    U + U*R*(1 - exp(-(D/U - 1)/R)) (Muennighoff et al. 2023, arXiv 2305.16264, equation 5)."""
    over = trained_tokens - unique_tokens
    repeated = (over + abs(over)) / 2  # max(over, 0), for arrays too
    worth = unique_tokens * REPETITION_CONSTANT
    return trained_tokens - repeated + worth * (1 - math.e ** (-repeated / worth))


def training_loss(parameters: Number, tokens: Number, law: ScalingLaw = BESIROGLU) -> Number:
    """Cross-entropy, in nats a token, after training on D tokens of MassiveText: E + A/N^alpha + B/D^beta."""
    by_parameters = law.parameter_scale / parameters**law.parameter_exponent
    return law.irreducible + by_parameters + law.token_scale / tokens**law.token_exponent


def compute_optimal_parameters(flops: Number, law: ScalingLaw = BESIROGLU) -> Number:
    """The N that minimizes the loss at 6*N*D = C: G * (C/6)^(beta/(alpha+beta)), with
    G = (alpha*A/(beta*B))^(1/(alpha+beta)) (Hoffmann et al. 2022, equation 4)."""
    alpha, beta = law.parameter_exponent, law.token_exponent
    scale = (alpha * law.parameter_scale / (beta * law.token_scale)) ** (1 / (alpha + beta))
    return scale * (flops / 6) ** (beta / (alpha + beta))


def tokens_for(flops: Number, parameters: Number) -> Number:
    """The tokens that these FLOPs pay for: C / (6*N), the inverse of 6ND."""
    return flops / 6 / parameters


def rule_of_20_parameters(flops: Number) -> Number:
    """N where D = 20*N and 6*N*D = C: sqrt(C/120), the rule of thumb of Hoffmann et al. 2022."""
    return (flops / (6 * TOKENS_PER_PARAMETER_RULE)) ** 0.5
