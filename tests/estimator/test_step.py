"""One step: the worked examples, published throughput, and laws that hold for every layout."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from service.catalog.gpus import load_gpus
from service.estimator.constants import ORIGINS, SHIPPED, StepConstants, find_kernel_efficiency
from service.estimator.parallelism import Layout, Workload, layer_weights, microbatches
from service.estimator.pipeline import bubble_fraction
from service.estimator.step import (
    Machine,
    StepSeconds,
    microbatch_seconds,
    step_seconds,
    tokens_per_second_per_gpu,
)
from tests.support.layouts import (
    A100,
    GPT3_175B,
    GPT3_175B_LAYOUT,
    GPT_7_5B,
    GPT_7_5B_LAYOUT,
    H100,
    LLAMA3_405B,
    LLAMA3_405B_LAYOUT,
    MEGATRON_177B,
    MEGATRON_177B_LAYOUT,
    MPT_7B,
    MPT_7B_LAYOUT,
    a_workload,
)

SAME = 1 + 1e-12  # room for the order of additions


class Example(NamedTuple):
    """A worked example: what is run, the seconds of each part, and tokens per second per GPU."""

    workload: Workload
    machine: Machine
    layout: Layout
    gpu_count: int
    seconds: StepSeconds
    tokens_per_second_per_gpu: float

    def predicted(self) -> float:
        seconds = step_seconds(self.workload, self.machine, self.layout, self.gpu_count).total_seconds
        return tokens_per_second_per_gpu(self.workload, seconds, self.gpu_count)


# The model's own worked examples, calculated by a second, independent implementation of it.
EXAMPLES = {
    "175B on 1,024 A100": Example(
        GPT3_175B,
        A100,
        GPT3_175B_LAYOUT,
        1024,
        StepSeconds(
            compute_seconds=8.826857913904476,
            tensor_communication_seconds=1.0407036140307693,
            pipeline_communication_seconds=0.1811939328,
            bubble_seconds=0.24424058411509275,
            exposed_data_parallel_seconds=1.023823872,
            optimizer_seconds=0.05021205846002943,
            total_seconds=11.367031975310367,
        ),
        135.12762199809515,
    ),
    "177B on 4,608 H100": Example(
        MEGATRON_177B,
        H100,
        MEGATRON_177B_LAYOUT,
        4608,
        StepSeconds(
            compute_seconds=2.0152769350938167,
            tensor_communication_seconds=0.27752096374153845,
            pipeline_communication_seconds=0.07247757312,
            bubble_seconds=0.06159571541550404,
            exposed_data_parallel_seconds=0.345793934670387,
            optimizer_seconds=0.0004264730746268657,
            total_seconds=2.7730915951158734,
        ),
        369.26295611855267,
    ),
    "7B FSDP on 128 H100": Example(
        MPT_7B,
        H100,
        MPT_7B_LAYOUT,
        128,
        StepSeconds(
            compute_seconds=1.080389960988025,
            tensor_communication_seconds=0.0,
            pipeline_communication_seconds=0.0,
            bubble_seconds=0.0,
            exposed_data_parallel_seconds=0.06314899683555555,
            optimizer_seconds=0.0005814562388059702,
            total_seconds=1.1441204140623866,
        ),
        10740.12826706714,
    ),
    "Llama 3 405B on 16,384 H100": Example(
        LLAMA3_405B,
        H100,
        LLAMA3_405B_LAYOUT,
        16384,
        StepSeconds(
            compute_seconds=4.832595852575763,
            tensor_communication_seconds=0.8094361442461538,
            pipeline_communication_seconds=0.2147483648,
            bubble_seconds=0.6863414486275684,
            exposed_data_parallel_seconds=0.16430597568000002,
            optimizer_seconds=0.00027585241791044777,
            total_seconds=6.707703638347396,
        ),
        152.6602925844659,
    ),
    "7.5B with full recompute on 128 A100": Example(
        GPT_7_5B,
        A100,
        GPT_7_5B_LAYOUT,
        128,
        StepSeconds(
            compute_seconds=3.279643517440445,
            tensor_communication_seconds=0.44601583458461547,
            pipeline_communication_seconds=0.0,
            bubble_seconds=0.0,
            exposed_data_parallel_seconds=0.1806106624,
            optimizer_seconds=0.034288280922020596,
            total_seconds=3.9405582953470804,
        ),
        2078.8932394866288,
    ),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_worked_examples(example: Example) -> None:
    seconds = step_seconds(example.workload, example.machine, example.layout, example.gpu_count)
    assert structs.asdict(seconds) == pytest.approx(structs.asdict(example.seconds), rel=1e-9, abs=0)
    assert example.predicted() == pytest.approx(example.tokens_per_second_per_gpu, rel=1e-9, abs=0)


# FLOPs of one token, 6 (L W + V h) + 12 L h s, as each source counts them (arXiv 2104.04473, equation 3).
FLOPS_177B = 1_111_322_787_840
FLOPS_405B = 2_625_424_588_800
# The same with the forward pass counted again, as that paper's table 1 does: 96 L h^2 (1 + s/6h + V/16Lh).
HARDWARE_FLOPS_7_5B = 64_072_187_904

# The published figure, what turns our tokens per second per GPU into its unit, and the agreement asked for. The
# errors are the model's: +4.3, -0.3, +2.5, +0.2 and -6.2 %.
PUBLISHED = {
    "MegaScale (arXiv 2402.15627) table 2, Megatron-LM at batch 768: 132.7k tokens/s": (
        "175B on 1,024 A100",
        132.7e3 / 1024,
        1.0,
        0.05,
    ),
    "Megatron-LM README, strong scaling: MFU 41.60 %": (
        "177B on 4,608 H100",
        0.4160,
        FLOPS_177B / 989.4e12,
        0.005,
    ),
    "llm-foundry scripts/train/benchmarking/README.md: tokens/s/GPU": ("7B FSDP on 128 H100", 10_475, 1.0, 0.03),
    "Llama 3 (arXiv 2407.21783) table 4: 400 TFLOPS": ("Llama 3 405B on 16,384 H100", 400, FLOPS_405B / 1e12, 0.005),
    "Narayanan et al. (arXiv 2104.04473) table 1: 142 TFLOPS of hardware": (
        "7.5B with full recompute on 128 A100",
        142,
        HARDWARE_FLOPS_7_5B / 1e12,
        0.07,
    ),
}


@pytest.mark.parametrize(("name", "published", "unit", "tolerance"), PUBLISHED.values(), ids=PUBLISHED)
def test_published_throughput(name: str, published: float, unit: float, tolerance: float) -> None:
    assert EXAMPLES[name].predicted() * unit == pytest.approx(published, rel=tolerance)


# Megatron-LM README (2024), images/strong_scaling.png, digitised: 177B, batch 1152, TFLOPS per GPU. One point,
# at 96 GPUs, is given to the model; the rest must follow within 5 % (the last is 4.4 % too low).
STRONG_SCALING = {144: 460.42, 288: 457.51, 576: 454.31, 1152: 446.51, 2304: 432.8, 3072: 422.85, 4608: 411.63}


@pytest.mark.parametrize(("gpu_count", "measured"), STRONG_SCALING.items())
def test_strong_scaling_from_one_point(gpu_count: int, measured: float) -> None:
    def modelled(count: int) -> float:
        seconds = step_seconds(MEGATRON_177B, H100, MEGATRON_177B_LAYOUT, count).total_seconds
        return tokens_per_second_per_gpu(MEGATRON_177B, seconds, count)

    assert 460.89 * modelled(gpu_count) / modelled(96) == pytest.approx(measured, rel=0.05)


# ------------------------------------------------------------------------------------------- laws

degrees = st.sampled_from([1, 2, 4, 8])
layouts = st.builds(
    Layout,
    tensor=degrees,
    pipeline=degrees,
    context=st.sampled_from([1, 2]),
    microbatch=st.sampled_from([1, 2, 4]),
    sharding=st.sampled_from(["ddp", "zero1", "zero2", "zero3"]),
    sequence_parallel=st.booleans(),
    recompute=st.sampled_from(["none", "selective", "full"]),
    flash_attention=st.booleans(),
    tensor_overlap=st.booleans(),
    data_overlap=st.booleans(),
    gradient_bytes=st.sampled_from([2, 4]),
    fused=st.booleans(),
)
machines = st.sampled_from([A100, H100])


class Case(NamedTuple):
    """A run that can be: its batch is a whole number of microbatches for every replica."""

    workload: Workload
    machine: Machine
    layout: Layout
    gpu_count: int

    def seconds(self, layout: dict[str, Any] | None = None, machine: dict[str, Any] | None = None) -> StepSeconds:
        """The step with some of the layout or of the machine changed."""
        return step_seconds(
            self.workload,
            structs.replace(self.machine, **(machine or {})),
            structs.replace(self.layout, **(layout or {})),
            self.gpu_count,
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    layout = draw(layouts)
    replicas = draw(st.sampled_from([1, 2, 3, 8, 64]))
    workload = a_workload(
        layers=8 * draw(st.integers(1, 12)),
        hidden=1024 * draw(st.integers(1, 12)),
        sequence_length=draw(st.sampled_from([512, 2048, 32768])),
        global_batch_sequences=replicas * layout.microbatch * draw(st.integers(1, 40)),
    )
    return Case(workload, draw(machines), layout, replicas * layout.tensor * layout.pipeline * layout.context)


@given(cases())
def test_no_step_is_faster_than_the_peak(case: Case) -> None:
    workload = case.workload
    weights = workload.layers * layer_weights(workload) + workload.vocabulary * workload.hidden
    # Causal attention, forward and twice that backward: 6 x s x width for each layer and token.
    attention = 6 * workload.layers * workload.sequence_length * workload.heads * workload.head_dim
    flops = workload.global_batch_sequences * workload.sequence_length * (6 * weights + attention)
    assert case.seconds().total_seconds >= flops / (case.gpu_count * case.machine.peak_flops_per_second)


@given(cases())
def test_the_total_is_the_sum_of_the_parts(case: Case) -> None:
    *parts, total = structs.astuple(case.seconds())
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(total, rel=1e-12)


@given(cases(), st.floats(1, 100))
@pytest.mark.parametrize(
    "rate",
    ["peak_flops_per_second", "memory_bytes_per_second", "link_bytes_per_second", "network_bytes_per_second"],
)
def test_a_faster_machine_is_never_slower(rate: str, case: Case, factor: float) -> None:
    faster = {rate: getattr(case.machine, rate) * factor}
    assert case.seconds(machine=faster).total_seconds <= case.seconds().total_seconds * SAME


@given(cases())
def test_recompute_never_saves_time(case: Case) -> None:
    none, selective, full = (case.seconds({"recompute": recompute}) for recompute in ("none", "selective", "full"))
    assert none.compute_seconds < selective.compute_seconds < full.compute_seconds
    # It may still cost nothing: where the gradients' exchange lasts longer, it hides behind what is computed again.
    assert none.total_seconds <= selective.total_seconds * SAME
    assert selective.total_seconds <= full.total_seconds * SAME


@given(cases())
def test_full_recompute_is_one_more_forward_pass_and_its_all_reduces(case: Case) -> None:
    """The forward pass is what is left when attention's longer backward pass is taken out of a third."""
    none, selective, full = (case.seconds({"recompute": recompute}) for recompute in ("none", "selective", "full"))
    attention = selective.compute_seconds - none.compute_seconds
    backward_over_forward = 2.5 if case.layout.flash_attention else 2.0
    logits_apart = none.compute_seconds - _logit_seconds(case)
    forward = (logits_apart - (1 + backward_over_forward) * attention) / 3 + attention
    assert full.compute_seconds - none.compute_seconds == pytest.approx(forward, rel=1e-6)
    assert full.tensor_communication_seconds == pytest.approx(none.tensor_communication_seconds * 1.5, rel=1e-12)


def _logit_seconds(case: Case) -> float:
    """What a vocabulary adds to the step: twice of it less once of it."""
    twice = structs.replace(case.workload, vocabulary=2 * case.workload.vocabulary)
    with_twice = step_seconds(twice, case.machine, structs.replace(case.layout, recompute="none"), case.gpu_count)
    return with_twice.compute_seconds - case.seconds({"recompute": "none"}).compute_seconds


@given(cases())
@pytest.mark.parametrize("overlap", ["tensor_overlap", "data_overlap"])
def test_overlap_never_costs_time(overlap: str, case: Case) -> None:
    on, off = (case.seconds({overlap: value}).total_seconds for value in (True, False))
    assert on <= off * SAME


def test_overlap_hides_what_the_constants_say() -> None:
    case = Case(MEGATRON_177B, H100, MEGATRON_177B_LAYOUT, 4608)
    off = case.seconds({"tensor_overlap": False})
    assert case.seconds().tensor_communication_seconds == pytest.approx(0.6 * off.tensor_communication_seconds)
    assert case.seconds().pipeline_communication_seconds == pytest.approx(0.6 * off.pipeline_communication_seconds)


def test_eager_kernels_move_more_than_fused_ones() -> None:
    case = Case(MPT_7B, H100, MPT_7B_LAYOUT, 128)
    # 80 - 45 bytes a token and unit, three times, in 32 layers: 12,288 tokens in one microbatch, at 2.68 TB/s.
    expected = 35 * 3 * 32 * 12_288 * 4096 / 2.68e12
    assert case.seconds().compute_seconds - case.seconds({"fused": True}).compute_seconds == pytest.approx(expected)


@given(cases())
def test_the_bubble_vanishes_as_microbatches_grow(case: Case) -> None:
    def share(batches: int) -> float:
        larger = structs.replace(case.workload, global_batch_sequences=batches * case.workload.global_batch_sequences)
        seconds = step_seconds(larger, case.machine, case.layout, case.gpu_count)
        return seconds.bubble_seconds / seconds.total_seconds

    if case.layout.pipeline == 1:
        assert share(1) == 0
    else:
        assert share(1) > share(10) > share(100) > 0
        assert share(100_000) < 1e-4


@given(cases())
def test_the_bubble_is_its_fraction_of_the_busy_time(case: Case) -> None:
    seconds, layout = case.seconds(), case.layout
    busy = seconds.compute_seconds + seconds.tensor_communication_seconds + seconds.pipeline_communication_seconds
    count = microbatches(case.workload, layout, case.gpu_count)
    fraction = bubble_fraction(layout.pipeline, layout.interleave, count)
    assert seconds.bubble_seconds == pytest.approx(fraction * busy, rel=1e-9, abs=0)


@given(cases())
def test_a_step_of_one_microbatch_is_its_microbatch_and_what_comes_after(case: Case) -> None:
    replicas = case.gpu_count // (case.layout.tensor * case.layout.pipeline * case.layout.context)
    one = structs.replace(case.workload, global_batch_sequences=replicas * case.layout.microbatch)
    seconds = step_seconds(one, case.machine, case.layout, case.gpu_count)
    microbatch = microbatch_seconds(one, case.machine, case.layout)
    assert seconds.compute_seconds == microbatch.compute_seconds
    assert seconds.tensor_communication_seconds == microbatch.tensor_communication_seconds
    assert seconds.pipeline_communication_seconds == microbatch.pipeline_communication_seconds


def test_only_plain_data_parallelism_updates_every_parameter_everywhere() -> None:
    case = Case(GPT_7_5B, A100, GPT_7_5B_LAYOUT, 128)  # 32 replicas
    plain = case.seconds().optimizer_seconds
    for sharding in ("zero1", "zero2", "zero3"):
        assert case.seconds({"sharding": sharding}).optimizer_seconds == pytest.approx(plain / 32, rel=1e-12)


def test_tokens_are_counted_for_one_gpu() -> None:
    workload = a_workload(global_batch_sequences=64, sequence_length=2048)
    assert tokens_per_second_per_gpu(workload, 2.0, 16) == 4096


# ------------------------------------------------------------------------------------------- constants


def test_every_constant_has_an_origin() -> None:
    assert list(ORIGINS) == list(StepConstants.__struct_fields__)
    assert all(origin.meaning and origin.source for origin in ORIGINS.values())


@pytest.mark.parametrize("constant", StepConstants.__struct_fields__)
def test_every_constant_matters(constant: str) -> None:
    changed = structs.replace(SHIPPED, **{constant: getattr(SHIPPED, constant) * 0.9})
    differs = [
        step_seconds(example.workload, example.machine, example.layout, example.gpu_count, changed)
        != step_seconds(example.workload, example.machine, example.layout, example.gpu_count)
        for example in EXAMPLES.values()
    ]
    assert any(differs)


# Fitted, or of the same die as a fitted part; else 0.8 x the BF16 column of the MAMF table (stas00/ml-engineering,
# compute/accelerator/README.md).
KERNELS = {
    "a100-sxm-40gb": (0.71, 0.32, "fitted"),
    "a100-sxm-80gb": (0.71, 0.32, "fitted"),
    "h100-sxm-80gb": (0.62, 0.18, "fitted"),
    "a800-sxm-80gb": (0.71, 0.32, "assumed"),
    "h800-sxm-80gb": (0.62, 0.18, "assumed"),
    "h200-sxm-141gb": (0.62, 0.18, "assumed"),
    "a100-pcie-40gb": (0.8 * 0.811, 0.18, "assumed"),
    "a100-pcie-80gb": (0.8 * 0.811, 0.18, "assumed"),
    "gh200-144gb": (0.8 * 0.838, 0.18, "assumed"),
    "b200-sxm-180gb": (0.8 * 0.776, 0.18, "assumed"),
    "b300-sxm-288gb": (0.8 * 0.786, 0.18, "assumed"),
    "gb200-186gb": (0.8 * 0.729, 0.18, "assumed"),
    "mi300x-192gb": (0.8 * 0.514, 0.18, "assumed"),
    "mi325x-256gb": (0.8 * 0.604, 0.18, "assumed"),
    "mi355x-288gb": (0.8 * 0.680, 0.18, "assumed"),
    "gaudi2-96gb": (0.8 * 0.969, 0.18, "assumed"),
    "gaudi3-128gb": (0.8 * 0.741, 0.18, "assumed"),
}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(("accelerator_id", "expected"), KERNELS.items())
def test_kernel_efficiency_and_what_it_rests_on(
    accelerator_id: str, expected: tuple[float, float, str], precision: str
) -> None:
    efficiency = find_kernel_efficiency(accelerator_id, precision)
    assert efficiency is not None
    assert efficiency.source
    gemm, attention, basis = expected
    assert efficiency.gemm == pytest.approx(gemm, rel=1e-12)
    assert (efficiency.attention, efficiency.basis) == (attention, basis)


def test_kernel_efficiency_is_known_of_parts_in_the_catalogue() -> None:
    assert {gpu.id for gpu in load_gpus() if find_kernel_efficiency(gpu.id, "bf16")} == KERNELS.keys()


@pytest.mark.parametrize(
    ("accelerator_id", "precision"), [("tpu-v5p", "bf16"), ("l40s-48gb", "bf16"), ("h100-sxm-80gb", "fp8")]
)
def test_what_nobody_measured_is_unknown(accelerator_id: str, precision: str) -> None:
    assert find_kernel_efficiency(accelerator_id, precision) is None
