"""The fastest layout that fits: every split that divides, cheapest first, until none left can be faster.

Two laws of the step model make that short. A layout cannot be faster than its microbatches and its bubble with
the least recompute, before any exchange between replicas: that is its bound, and candidates are taken in its
order. And recompute never makes a step faster, so that the first recompute that fits is the best one.

`fits` must be monotone as memory is: what does not fit with the most recompute fits with no larger microbatch.
"""

from collections.abc import Callable, Iterator
from math import inf

from msgspec import Struct, structs

from service.errors import BrokenRule
from service.estimator.collectives import Sharding
from service.estimator.compute import Recompute
from service.estimator.constants import SEARCHED_THROUGHPUT_FACTOR, SHIPPED, StepConstants
from service.estimator.parallelism import (
    Layout,
    Workload,
    divisors,
    fits_heads,
    fits_width,
    microbatches,
    nearest_of,
    splits_evenly,
)
from service.estimator.pipeline import pipeline_seconds
from service.estimator.step import (
    Machine,
    StepSeconds,
    microbatch_seconds,
    tokens_per_second_per_gpu,
    whole_step_seconds,
)

Fits = Callable[[Layout], bool]

RECOMPUTE_LEAST_FIRST: tuple[Recompute, ...] = ("none", "selective", "full")
SHARDING_LEAST_FIRST: tuple[Sharding, ...] = ("zero1", "zero2", "zero3")
# Larger ones gain nothing in this model but fewer ZeRO-3 exchanges.
LARGEST_MICROBATCH = 64


class Choices(Struct, frozen=True, kw_only=True):
    """What the search may choose: the values given, or None for all that divide.

    The rest is `given`. Plain data parallelism is no choice of its own: ZeRO-1 is never slower or larger.
    Pipelines shard optimizer states only, unless more is given (DeepSpeed refuses ZeRO-2 with them); tensor
    parallelism always comes with sequence parallelism, which costs nothing.
    """

    given: Layout = Layout()
    tensor: tuple[int, ...] | None = None
    pipeline: tuple[int, ...] | None = None
    interleave: tuple[int, ...] | None = None
    microbatch: tuple[int, ...] | None = None
    sharding: tuple[Sharding, ...] | None = None
    recompute: tuple[Recompute, ...] = RECOMPUTE_LEAST_FIRST


FREE = Choices()


class Found(Struct, frozen=True):
    """The fastest layout that fits, and its step."""

    layout: Layout
    step: StepSeconds


class _Candidate(Struct, frozen=True):
    """A split without its sharding, and the least that its step can take."""

    bound_seconds: float
    layout: Layout


def find_fastest_layout(
    workload: Workload,
    machine: Machine,
    gpu_count: int,
    fits: Fits,
    choices: Choices = FREE,
    constants: StepConstants = SHIPPED,
) -> Found | None:
    """The fastest layout that fits, the same one every time; None if none fits, BrokenRule if none divides."""
    candidates = [
        _Candidate(_bound_seconds(workload, machine, layout, gpu_count, constants), layout)
        for layout in _splits(workload, machine, gpu_count, choices)
    ]
    if not candidates:
        raise _no_split(workload, machine, gpu_count, choices)
    candidates.sort(key=lambda candidate: candidate.bound_seconds)
    best: Found | None = None
    remembered = _remembering_what_cannot_fit(fits, choices.recompute)
    for candidate in candidates:
        if best is not None and candidate.bound_seconds >= best.step.total_seconds:
            break
        for layout in _that_fit(candidate.layout, choices, remembered):
            microbatch = microbatch_seconds(workload, machine, layout, constants)
            step = whole_step_seconds(microbatch, workload, machine, layout, gpu_count, constants)
            if best is None or step.total_seconds < best.step.total_seconds:
                best = Found(layout, step)
    return best


def searched_tokens_per_second_per_gpu(workload: Workload, found: Found, gpu_count: int) -> float:
    """What to expect of a layout that was searched: less than the model says, as the authors chose worse ones.

    See `constants.SEARCHED_THROUGHPUT_FACTOR`.
    """
    modelled = tokens_per_second_per_gpu(workload, found.step.total_seconds, gpu_count)
    return SEARCHED_THROUGHPUT_FACTOR * modelled


def _bound_seconds(
    workload: Workload, machine: Machine, layout: Layout, gpu_count: int, constants: StepConstants
) -> float:
    """The least that a step of this split can take."""
    microbatch = microbatch_seconds(workload, machine, layout, constants)
    per_replica = microbatches(workload, layout, gpu_count)
    return pipeline_seconds(layout.pipeline, layout.interleave, per_replica, microbatch.total_seconds)


def _that_fit(split: Layout, choices: Choices, fits: Fits) -> Iterator[Layout]:
    """For each sharding, the layout with the least recompute that fits, if one does."""
    for sharding in choices.sharding or (SHARDING_LEAST_FIRST if split.pipeline == 1 else SHARDING_LEAST_FIRST[:1]):
        layouts = (
            structs.replace(split, sharding=sharding, recompute=recompute)
            for recompute in sorted(choices.recompute, key=RECOMPUTE_LEAST_FIRST.index)
        )
        layout = next((layout for layout in layouts if fits(layout)), None)
        if layout is not None:
            yield layout


def _remembering_what_cannot_fit(fits: Fits, recompute: tuple[Recompute, ...]) -> Fits:
    """`fits`, not asked again about a larger microbatch where a smaller one did not fit with the most recompute."""
    most = max(recompute, key=RECOMPUTE_LEAST_FIRST.index)
    too_large: dict[tuple[int, int, int, Sharding], float] = {}

    def remembered(layout: Layout) -> bool:
        key = (layout.tensor, layout.pipeline, layout.interleave, layout.sharding)
        if layout.microbatch >= too_large.get(key, inf):
            return False
        answer = fits(layout)
        if not answer and layout.recompute == most:
            too_large[key] = layout.microbatch
        return answer

    return remembered


def _splits(workload: Workload, machine: Machine, gpu_count: int, choices: Choices) -> Iterator[Layout]:
    """Every split that divides, with the least recompute and the sharding still to be chosen."""
    least = min(choices.recompute, key=RECOMPUTE_LEAST_FIRST.index)
    batch = workload.global_batch_sequences
    for tensor, pipeline in _replicas(workload, machine, choices):
        replica = tensor * pipeline * choices.given.context
        if gpu_count % replica or batch % (gpu_count // replica):
            continue
        per_replica = batch // (gpu_count // replica)
        for microbatch in _microbatches(per_replica, choices):
            for interleave in _interleaves(workload.layers, pipeline, per_replica // microbatch, choices):
                yield structs.replace(
                    choices.given,
                    tensor=tensor,
                    pipeline=pipeline,
                    interleave=interleave,
                    microbatch=microbatch,
                    recompute=least,
                    sequence_parallel=tensor > 1,
                )


def _replicas(workload: Workload, machine: Machine, choices: Choices) -> Iterator[tuple[int, int]]:
    """Tensor and pipeline degrees that the model allows; tensor parallelism stays in a node unless it is given."""
    tensors = choices.tensor or divisors(machine.gpus_per_node)
    pipelines = choices.pipeline or tuple(range(1, workload.layers + 3))
    for tensor in tensors:
        if fits_heads(workload, tensor) and fits_width(workload, tensor):
            for pipeline in pipelines:
                if splits_evenly(workload.layers, pipeline):
                    yield tensor, pipeline


def _microbatches(per_replica: int, choices: Choices) -> Iterator[int]:
    """Powers of two that divide a replica's sequences, or the given ones that do."""
    powers = tuple(2**power for power in range(LARGEST_MICROBATCH.bit_length()))
    return (microbatch for microbatch in choices.microbatch or powers if per_replica % microbatch == 0)


def _interleaves(layers: int, pipeline: int, count: int, choices: Choices) -> Iterator[int]:
    """Chunks per stage that the layers allow; more than one only where Megatron-LM schedules it.

    It asks for as many microbatches as stages, or a multiple (arXiv 2104.04473, section 2.2.2).
    """
    if choices.interleave is not None:
        values = choices.interleave
    elif pipeline > 1 and count % pipeline == 0:
        values = tuple(range(1, (layers + 2) // pipeline + 1))
    else:
        values = (1,)
    return (chunks for chunks in values if splits_evenly(layers, pipeline * chunks) and (pipeline > 1 or chunks == 1))


def _no_split(workload: Workload, machine: Machine, gpu_count: int, choices: Choices) -> BrokenRule:
    """That nothing divides, and the nearest GPU counts for which something does."""
    batch = workload.global_batch_sequences
    counts = {
        data * tensor * pipeline * choices.given.context
        for tensor, pipeline in _replicas(workload, machine, choices)
        for data in divisors(batch)
    }
    if not counts:
        return BrokenRule.at(
            "/work/layout",
            f"No layout of those allowed splits {workload.heads} heads, {workload.kv_heads} key-value heads, a "
            f"feed-forward width of {workload.ffn_hidden} and {workload.layers} layers; 1 always does",
        )
    return BrokenRule.at(
        "/cluster/gpu_count",
        f"No layout of those allowed uses {gpu_count} GPUs for a batch of {batch} sequences; "
        f"{nearest_of(counts, gpu_count)} would work",
    )
