"""Training FLOPs against published figures, each with its table; and their laws."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.compute import Recompute
from service.estimator.flops import (
    BESIROGLU,
    CAUSAL_ATTENTION,
    EPOCHS_LIKE_FRESH_DATA,
    FULL_ATTENTION,
    HOFFMANN_AS_PRINTED,
    ScalingLaw,
    billed_mfu,
    compute_optimal_parameters,
    effective_tokens,
    flops_per_token,
    hardware_flops_per_token,
    hfu,
    korthikanti_model_flops,
    korthikanti_selective_flops,
    lora_flops_per_token,
    mfu,
    narayanan_hardware_flops,
    palm_max_tokens_per_second,
    recompute_multiplier,
    recomputed_flops_per_token,
    rule_of_20_parameters,
    shortcut_days,
    six_nd_flops,
    tokens_for,
    training_flops_per_token,
    training_loss,
    utilization,
)
from service.estimator.parameters import active_parameters
from service.estimator.shapes import MixtureOfExperts, ModelShape

EXACT = 1e-9
A100, H100 = 312e12, 989.4e12
MODES: tuple[Recompute, ...] = ("none", "selective", "full")
SEQUENCE, VOCABULARY = 2048, 51200  # of every row of Korthikanti et al. 2022

LLAMA_3_8B = ModelShape(layers=32, hidden=4096, heads=32, kv_heads=8, ffn_hidden=14336, vocabulary=128256)
LLAMA_3_70B = ModelShape(layers=80, hidden=8192, heads=64, kv_heads=8, ffn_hidden=28672, vocabulary=128256)
LLAMA_3_405B = ModelShape(layers=126, hidden=16384, heads=128, kv_heads=8, ffn_hidden=53248, vocabulary=128256)

# Korthikanti et al. 2022 (arXiv 2205.05198): layers, hidden, heads of Table 3.
GPT = {"22B": (48, 6144, 64), "175B": (96, 12288, 96), "530B": (105, 20480, 128), "1T": (128, 25600, 160)}


def a_gpt(name: str) -> ModelShape:
    layers, hidden, heads = GPT[name]
    return ModelShape(
        layers=layers, hidden=hidden, heads=heads, ffn_hidden=4 * hidden, ffn_matrices=2, vocabulary=VOCABULARY
    )


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    """Shapes of any proportion, dense or with experts."""
    moe = None
    if draw(st.booleans()):
        experts = draw(st.integers(1, 256))
        moe = MixtureOfExperts(
            experts=experts,
            experts_per_token=draw(st.integers(1, experts)),
            expert_ffn_hidden=draw(st.integers(1, 9999)),
        )
    return ModelShape(
        layers=draw(st.integers(1, 200)),
        hidden=draw(st.integers(1, 20_000)),
        heads=draw(st.integers(1, 128)),
        head_dim=draw(st.integers(1, 256)),
        ffn_hidden=draw(st.integers(1, 50_000)),
        vocabulary=draw(st.integers(1, 300_000)),
        moe=moe,
    )


sequences = st.integers(1, 1_000_000)
causal_factors = st.sampled_from([FULL_ATTENTION, CAUSAL_ATTENTION])


# ------------------------------------------------------------------------------------------- by parameters


def test_6nd() -> None:
    assert six_nd_flops(70e9, 2e12) == pytest.approx(8.4e23, rel=EXACT)
    assert six_nd_flops(37e9, 14.8e12) == pytest.approx(3.2856e24, rel=EXACT)
    assert six_nd_flops(70 * 10**9, 2 * 10**12) == 84 * 10**22  # whole numbers stay exact


@pytest.mark.parametrize(
    ("parameters", "tokens", "gpus", "tflops", "days", "published"),
    [(175e9, 300e9, 1024, 140, 33.908420138888886, 34), (1e12, 450e9, 3072, 163, 83.2108469665985, 84)],
    ids=["175B", "1T"],
)
def test_narayanan_2021_section_5_training_days(
    parameters: float, tokens: float, gpus: int, tflops: float, days: float, published: float
) -> None:
    predicted = shortcut_days(parameters, tokens, gpus, tflops * 1e12)
    assert predicted == pytest.approx(days, rel=EXACT)
    assert predicted == pytest.approx(published, rel=0.01)


# ------------------------------------------------------------------------------------------- by shape


@pytest.mark.parametrize(
    ("shape", "full", "causal"),
    [
        (LLAMA_3_8B, 57_912_852_480, 51_470_401_536),
        (LLAMA_3_70B, 481_434_796_032, 449_222_541_312),
        (LLAMA_3_405B, 2_625_424_588_800, 2_523_955_986_432),
    ],
    ids=["8B", "70B", "405B"],
)
def test_llama_3_flops_per_token_at_8192(shape: ModelShape, full: int, causal: int) -> None:
    exact = flops_per_token(shape, 8192, FULL_ATTENTION)
    assert isinstance(exact, int)
    assert exact == full
    assert flops_per_token(shape, 8192, CAUSAL_ATTENTION) == causal


def test_narayanan_2021_equation_for_175b() -> None:
    assert narayanan_hardware_flops(1536, 2048, 96, 12288, 51200) == pytest.approx(4.5109707533231063e18, rel=EXACT)


def test_korthikanti_2022_equation_for_175b() -> None:
    assert korthikanti_model_flops(64, 2048, 96, 12288, 51200) == pytest.approx(1.4109153109947186e17, rel=EXACT)


@pytest.mark.parametrize("name", GPT)
def test_the_published_forms_are_the_general_one_for_a_gpt(name: str) -> None:
    layers, hidden, _ = GPT[name]
    tokens = 4 * SEQUENCE
    sizes = (4, SEQUENCE, layers, hidden, VOCABULARY)
    model = tokens * hardware_flops_per_token(a_gpt(name), SEQUENCE, FULL_ATTENTION, "none")
    hardware = tokens * hardware_flops_per_token(a_gpt(name), SEQUENCE, FULL_ATTENTION, "full")
    assert model == pytest.approx(korthikanti_model_flops(*sizes), rel=EXACT)
    assert hardware == pytest.approx(narayanan_hardware_flops(*sizes), rel=EXACT)


# ------------------------------------------------------------------------------------------- utilization


@pytest.mark.parametrize(
    ("name", "batch", "gpus", "seconds", "mfu_percent", "hfu_percent", "mfu_published", "hfu_published"),
    [
        ("22B", 4, 8, 1.10, 41.65067061348252, 43.81317162965035, 41.5, 43.7),
        ("175B", 64, 64, 13.75, 51.38823248086825, 52.772233131215664, 51.4, 52.8),
        ("530B", 280, 280, 37.83, 56.04618357851928, 56.963183855222766, 56.0, 57.0),
        ("1T", 512, 512, 71.49, 56.268129144861575, 57.00754914697052, 56.3, 57.0),
    ],
    ids=list(GPT),
)
def test_korthikanti_2022_table_5(
    name: str,
    batch: int,
    gpus: int,
    seconds: float,
    mfu_percent: float,
    hfu_percent: float,
    mfu_published: float,
    hfu_published: float,
) -> None:
    layers, hidden, _ = GPT[name]
    model = korthikanti_model_flops(batch, SEQUENCE, layers, hidden, VOCABULARY)
    hardware = korthikanti_selective_flops(batch, SEQUENCE, layers, hidden, VOCABULARY)
    by_model = 100 * utilization(model / seconds, gpus, A100)
    by_hardware = 100 * utilization(hardware / seconds, gpus, A100)
    assert by_model == pytest.approx(mfu_percent, rel=EXACT)
    assert by_hardware == pytest.approx(hfu_percent, rel=EXACT)
    assert by_model == pytest.approx(mfu_published, abs=0.2)
    assert by_hardware == pytest.approx(hfu_published, abs=0.2)
    per_token = flops_per_token(a_gpt(name), SEQUENCE, FULL_ATTENTION)
    assert 100 * mfu(batch * SEQUENCE / seconds, per_token, gpus, A100) == pytest.approx(by_model, rel=EXACT)


def test_palm_appendix_b() -> None:
    with_attention = palm_max_tokens_per_second(6144, 275e12, 540.35e9, 118, 48, 256, 2048)
    without = palm_max_tokens_per_second(6144, 275e12, 540.35e9, 118, 0, 256, 2048)
    assert 238.3e3 / with_attention == pytest.approx(0.4622894202513182, rel=EXACT)  # published 46.2 %
    assert 238.3e3 / without == pytest.approx(0.4572635120738636, rel=EXACT)  # published 45.7 %


@pytest.mark.parametrize(
    ("parameters", "tokens", "gpu_hours", "peak", "share"),
    [
        (6.74e9, 2e12, 184_320, A100, 0.3907),
        (13.02e9, 2e12, 368_640, A100, 0.3773),
        (68.98e9, 2e12, 1_720_320, A100, 0.4284),
        (8.03e9, 15e12, 1.3e6, H100, 0.1561),
        (70.55e9, 15e12, 6.4e6, H100, 0.2785),
        (8.03e9, 15e12, 1.46e6, H100, 0.139),
        (70.55e9, 15e12, 7.0e6, H100, 0.2547),
        (405.85e9, 15.6e12, 30.84e6, H100, 0.3458),
        (1.236e9, 9e12, 370e3, H100, 0.0506),
        (3.213e9, 9e12, 460e3, H100, 0.1059),
        (37e9, 14.8e12, 2.664e6, H100, 0.3463),
        (176.25e9, 366e9, 1_082_990, A100, 0.3182),
        (175e9, 300e9, 33 * 24 * 1024, A100, 0.3458),
        (1.1e9, 300e9, 3456, A100, 0.5101),
        (1.01e9, 300e9, 4830, A100, 0.3351),
        (17e9, 40e12, 5.0e6, H100, 0.2291),
        (17e9, 22e12, 2.38e6, H100, 0.2647),
    ],
    ids=[
        "Llama-2-7B", "Llama-2-13B", "Llama-2-70B", "Llama-3-8B", "Llama-3-70B", "Llama-3.1-8B", "Llama-3.1-70B",
        "Llama-3.1-405B", "Llama-3.2-1B", "Llama-3.2-3B", "DeepSeek-V3", "BLOOM-176B", "OPT-175B", "TinyLlama-1.1B",
        "Pythia-1.0B", "Llama-4-Scout", "Llama-4-Maverick",
    ],
)  # fmt: skip
def test_billed_mfu_of_published_runs(
    parameters: float, tokens: float, gpu_hours: float, peak: float, share: float
) -> None:
    """GPU-hours of the model cards (meta-llama/llama MODEL_CARD.md and successors), the DeepSeek-V3 report, BLOOM's
    chronicles, OPT's final update, and the READMEs of TinyLlama and Pythia; to four digits."""
    assert billed_mfu(six_nd_flops(parameters, tokens), gpu_hours, peak) == pytest.approx(share, abs=5e-5)


def test_deepseek_v3_billed_mfu_of_the_bf16_peak() -> None:
    billed = billed_mfu(six_nd_flops(37e9, 14.8e12), 2.664e6, H100)
    assert billed == pytest.approx(0.3462629801825274, rel=EXACT)


# ------------------------------------------------------------------------------------------- recompute


@pytest.mark.parametrize(
    ("name", "full", "selective", "selective_in_the_paper"),
    [
        ("22B", 1.3288263926446728, 1.0173066522444565, 1.0519199567333695),
        ("175B", 1.332164398933932, 1.0089774161874037, 1.0269322485622108),
        ("530B", 1.3326840670042852, 1.0054538371640047, 1.0163615114920141),
        ("1T", 1.3329055661071474, 1.0043803363961468, 1.0131410091884399),
    ],
)
def test_recompute_multipliers(name: str, full: float, selective: float, selective_in_the_paper: float) -> None:
    shape, (layers, hidden, _) = a_gpt(name), GPT[name]
    assert recompute_multiplier(shape, SEQUENCE, FULL_ATTENTION, "none") == 1
    assert recompute_multiplier(shape, SEQUENCE, FULL_ATTENTION, "full") == pytest.approx(full, rel=EXACT)
    assert recompute_multiplier(shape, SEQUENCE, FULL_ATTENTION, "selective") == pytest.approx(selective, rel=EXACT)
    model = korthikanti_model_flops(1, SEQUENCE, layers, hidden, VOCABULARY)
    printed = korthikanti_selective_flops(1, SEQUENCE, layers, hidden, VOCABULARY)
    assert printed / model == pytest.approx(selective_in_the_paper, rel=EXACT)


@given(shapes(), sequences, causal_factors)
def test_full_recompute_is_a_third_more_of_the_layers_and_none_of_the_logits(
    shape: ModelShape, sequence: int, causal: float
) -> None:
    logits = 6 * shape.vocabulary * shape.hidden
    layers = flops_per_token(shape, sequence, causal) - logits
    full = hardware_flops_per_token(shape, sequence, causal, "full")
    assert full - logits == pytest.approx(layers * 4 / 3, rel=EXACT)


@given(shapes(), sequences, causal_factors)
def test_more_recompute_is_never_fewer_flops(shape: ModelShape, sequence: int, causal: float) -> None:
    multipliers = [recompute_multiplier(shape, sequence, causal, mode) for mode in MODES]
    assert multipliers == sorted(multipliers)
    assert multipliers[0] == 1
    assert multipliers[-1] <= 4 / 3 + EXACT


# ------------------------------------------------------------------------------------------- fine-tuning


def test_nvidia_sft_and_lora_flops_per_token() -> None:
    """NVIDIA-NeMo/Megatron-Bridge docs/performance-summary-archive.md (26.06), Llama 3 70B on DGX H100, s = 4,096:
    SFT 710 TFLOPS at 1,638 tokens a second, LoRA 735 at 2,643."""
    sft = flops_per_token(LLAMA_3_70B, 4096, CAUSAL_ATTENTION)
    assert sft == pytest.approx(433_116_413_952, rel=EXACT)
    assert sft == pytest.approx(710e12 / 1638, rel=0.001)
    packed = lora_flops_per_token(LLAMA_3_70B, 0, 0, CAUSAL_ATTENTION)  # packed sequences: hardly any attention
    assert packed == 278_006_857_728
    assert packed == pytest.approx(735e12 / 2643, rel=0.001)
    whole = lora_flops_per_token(LLAMA_3_70B, 0, 4096, CAUSAL_ATTENTION)
    assert whole / sft == pytest.approx(0.679062200400918, rel=EXACT)


@given(shapes(), sequences, causal_factors, st.integers(0, 10**9))
def test_frozen_weights_save_up_to_a_third(shape: ModelShape, sequence: int, causal: float, adapters: int) -> None:
    full = training_flops_per_token(shape, sequence, causal)
    lora = training_flops_per_token(shape, sequence, causal, "lora", adapters)
    assert lora - 6 * adapters >= full * (2 / 3) * (1 - EXACT)
    assert lora - 6 * adapters < full
    assert training_flops_per_token(shape, sequence, causal, "qlora", adapters) == lora


# ------------------------------------------------------------------------------------------- data and loss


@pytest.mark.parametrize(
    ("epochs", "worth"),
    [(1, 100e9), (2, 196819922378.87164), (4, 372567312306.1326), (8, 662411881896.209), (16, 1058245698267.0753)],
)
def test_muennighoff_2023_equation_5(epochs: int, worth: float) -> None:
    assert effective_tokens(100e9, epochs * 100e9) == pytest.approx(worth, rel=EXACT)


@given(st.floats(1e6, 1e14), st.floats(0.01, 1000))
def test_repeated_tokens_are_worth_no_more_than_fresh_ones(unique: float, epochs: float) -> None:
    worth = effective_tokens(unique, epochs * unique)
    assert worth <= epochs * unique * (1 + EXACT)
    if epochs <= 1:
        assert worth == epochs * unique
    if epochs <= EPOCHS_LIKE_FRESH_DATA:
        assert worth >= 0.93 * epochs * unique


@pytest.mark.parametrize(
    ("law", "flops", "parameters", "tokens", "tokens_per_parameter", "loss"),
    [
        (BESIROGLU, 5.76e23, 72248702500.38242, 1328743585388.151, 18.39124495531415, 1.974441108397412),
        (BESIROGLU, 1e24, 95860654045.68231, 1738634774881.0664, 18.13710528255442, 1.9597124025641461),
        (BESIROGLU, 3.8e25, 618666481038.7842, 10237072037100.225, 16.546996404123053, 1.891707259174102),
        (HOFFMANN_AS_PRINTED, 5.76e23, 32189859151.368168, 2982305686662.804, 92.6473667573052, 1.930748101731648),
        (HOFFMANN_AS_PRINTED, 1e24, 41296702419.415146, 4035834749563.6924, 97.72777275471499, 1.911195419914262),
        (HOFFMANN_AS_PRINTED, 3.8e25, 213484343737.83075, 29666500233436.22, 138.96335306849545, 1.8165327383728338),
    ],
)
def test_compute_optimal(
    law: ScalingLaw, flops: float, parameters: float, tokens: float, tokens_per_parameter: float, loss: float
) -> None:
    optimal = compute_optimal_parameters(flops, law)
    assert optimal == pytest.approx(parameters, rel=EXACT)
    assert tokens_for(flops, optimal) == pytest.approx(tokens, rel=EXACT)
    assert tokens_for(flops, optimal) / optimal == pytest.approx(tokens_per_parameter, rel=EXACT)
    assert training_loss(optimal, tokens_for(flops, optimal), law) == pytest.approx(loss, rel=EXACT)


def test_the_loss_of_chinchilla() -> None:
    assert training_loss(70e9, 1.4e12) == pytest.approx(1.9738818631585637, rel=EXACT)
    assert training_loss(70e9, 1.4e12, HOFFMANN_AS_PRINTED) == pytest.approx(1.9366454705587173, rel=EXACT)


def test_the_rule_of_20_tokens_a_parameter() -> None:
    parameters = rule_of_20_parameters(1e24)
    assert parameters == pytest.approx(91287092917.52768, rel=EXACT)
    assert tokens_for(1e24, parameters) == pytest.approx(1825741858350.5537, rel=EXACT)


@given(st.floats(1e18, 1e27), st.floats(0.1, 10))
def test_no_other_size_has_a_lower_loss_for_the_same_flops(flops: float, factor: float) -> None:
    optimal = compute_optimal_parameters(flops)
    other = factor * optimal
    least = training_loss(optimal, tokens_for(flops, optimal))
    assert training_loss(other, tokens_for(flops, other)) >= least * (1 - EXACT)


# ------------------------------------------------------------------------------------------- laws


@given(shapes(), sequences, causal_factors, st.integers(1, 100))
def test_more_layers_never_fewer_flops(shape: ModelShape, sequence: int, causal: float, more: int) -> None:
    deeper = msgspec.structs.replace(shape, layers=shape.layers + more)
    assert flops_per_token(deeper, sequence, causal) > flops_per_token(shape, sequence, causal)


@given(shapes(), sequences, causal_factors)
def test_flops_are_at_least_six_of_the_active_parameters(shape: ModelShape, sequence: int, causal: float) -> None:
    assert flops_per_token(shape, sequence, causal) > 6 * active_parameters(shape)
    assert flops_per_token(shape, sequence, causal) <= flops_per_token(shape, sequence, FULL_ATTENTION)


@given(shapes(), sequences, st.floats(1, 1e9), st.integers(1, 100_000))
def test_hfu_is_never_below_mfu(shape: ModelShape, sequence: int, rate: float, gpus: int) -> None:
    model = flops_per_token(shape, sequence, FULL_ATTENTION)
    hardware = hardware_flops_per_token(shape, sequence, FULL_ATTENTION, "selective")
    assert hfu(rate, hardware, gpus, A100) >= mfu(rate, model, gpus, A100) > 0


def test_the_formulas_are_the_same_for_arrays() -> None:
    lengths = np.array([512.0, 8192.0, 131072.0])
    for recompute in MODES:
        by_array = hardware_flops_per_token(LLAMA_3_8B, lengths, CAUSAL_ATTENTION, recompute)
        one_by_one = [hardware_flops_per_token(LLAMA_3_8B, s, CAUSAL_ATTENTION, recompute) for s in lengths.tolist()]
        assert by_array == pytest.approx(one_by_one, rel=EXACT)
    trained = np.array([50e9, 100e9, 800e9])
    assert effective_tokens(100e9, trained) == pytest.approx([50e9, 100e9, 662411881896.209], rel=EXACT)
    flops = np.array([1e24, 3.8e25])
    assert compute_optimal_parameters(flops) == pytest.approx([95860654045.68231, 618666481038.7842], rel=EXACT)
    assert recomputed_flops_per_token(LLAMA_3_8B, lengths, FULL_ATTENTION, "none") == 0
