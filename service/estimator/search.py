"""The fastest layout that fits: every split that divides, cheapest first, until none left can be faster.

Two laws of the step model make that short. A layout cannot be faster than its microbatches and its bubble with
the least recompute, before any exchange between replicas: that is its bound, and candidates are taken in its
order. And recompute never makes a step faster, so that the first recompute that fits is the best one.
Candidates that differ only in their chunks are taken apart when the bound of all of them comes up.

`fits` must be monotone as memory is: what does not fit with the most recompute fits with no larger microbatch, and
what does not fit in one chunk a stage fits in no more of them, and what does not fit with sequences split in parts
fits in no fewer of them.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf

from msgspec import Struct, structs

from service.errors import BrokenRule
from service.estimator.collectives import Sharding
from service.estimator.compute import Recompute
from service.estimator.constants import SEARCHED_THROUGHPUT_FACTOR, SHIPPED, StepConstants
from service.estimator.parallelism import (
    Layout,
    Workload,
    context_degrees,
    divisible_batch,
    divisors,
    even_pieces,
    fits_heads,
    fits_width,
    microbatches,
    nearest_of,
    splits_evenly,
    usual_batch_sequences,
)
from service.estimator.pipeline import pipeline_seconds
from service.estimator.step import (
    Machine,
    StepSeconds,
    handed_on,
    microbatch_seconds,
    stage_seconds,
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


class _Bundle(Struct, frozen=True):
    """Splits that differ only in their chunks, without their sharding; and what one microbatch costs a stage."""

    layout: Layout
    interleaves: tuple[int, ...]
    stage: tuple[float, float]


def find_fastest_layout(
    workload: Workload,
    machine: Machine,
    gpu_count: int,
    fits: Fits,
    choices: Choices = FREE,
    constants: StepConstants = SHIPPED,
) -> Found | None:
    """The fastest layout that fits, the same one every time; None if none fits, BrokenRule if none divides.

    Sequences are split only where nothing fits without, unless a context degree is given, and in as few parts as fit:
    what context-parallel ranks exchange is no part of the model.
    """
    found = _fastest(workload, machine, gpu_count, fits, choices, constants)
    if found is not None or choices.given.context > 1:
        return found
    for context in _contexts_that_fit(workload, machine, gpu_count, fits, choices):
        given = structs.replace(choices.given, context=context)
        found = _fastest(workload, machine, gpu_count, fits, structs.replace(choices, given=given), constants)
        if found is not None:
            return found
    return None


def searched_tokens_per_second_per_gpu(workload: Workload, found: Found, gpu_count: int) -> float:
    """What to expect of a layout that was searched: less than the model says, as the authors chose worse ones.

    See `constants.SEARCHED_THROUGHPUT_FACTOR`.
    """
    modelled = tokens_per_second_per_gpu(workload, found.step.total_seconds, gpu_count)
    return SEARCHED_THROUGHPUT_FACTOR * modelled


def _fastest(
    workload: Workload,
    machine: Machine,
    gpu_count: int,
    fits: Fits,
    choices: Choices,
    constants: StepConstants,
) -> Found | None:
    """The same with the context degree given."""
    # By bound, and of equal ones in the order of the choices; a bundle comes before its own.
    waiting: list[tuple[float, int, int, _Bundle | Layout]] = [
        (_least_bound_seconds(workload, bundle, gpu_count), number, -1, bundle)
        for number, bundle in enumerate(_bundles(workload, machine, gpu_count, choices, constants))
    ]
    if not waiting:
        raise _no_split(workload, machine, gpu_count, choices)
    heapify(waiting)
    best: Found | None = None
    room = _Room(fits, choices.recompute)
    while waiting:
        bound_seconds, number, _, candidate = heappop(waiting)
        if best is not None and bound_seconds >= best.step.total_seconds:
            break
        if isinstance(candidate, _Bundle):
            if any(room.may_hold(candidate.layout, sharding) for sharding in _shardings(candidate.layout, choices)):
                for place, interleave in enumerate(candidate.interleaves):
                    layout = structs.replace(candidate.layout, interleave=interleave)
                    microbatch = handed_on(candidate.stage, workload, machine, layout, constants)
                    bound_seconds = _bound_seconds(workload, layout, gpu_count, microbatch.total_seconds)
                    heappush(waiting, (bound_seconds, number, place, layout))
            continue
        for layout in _that_fit(candidate, choices, room):
            microbatch = microbatch_seconds(workload, machine, layout, constants)
            step = whole_step_seconds(microbatch, workload, machine, layout, gpu_count, constants)
            if best is None or step.total_seconds < best.step.total_seconds:
                best = Found(layout, step)
    return best


def _bound_seconds(workload: Workload, layout: Layout, gpu_count: int, microbatch_seconds: float) -> float:
    """The least that a step of this split can take."""
    per_replica = microbatches(workload, layout, gpu_count)
    return pipeline_seconds(layout.pipeline, layout.interleave, per_replica, microbatch_seconds)


def _least_bound_seconds(workload: Workload, bundle: _Bundle, gpu_count: int) -> float:
    """The least of a bundle: the shortest bubble of them, and nothing handed on."""
    layout = structs.replace(bundle.layout, interleave=max(bundle.interleaves))
    return _bound_seconds(workload, layout, gpu_count, sum(bundle.stage))


def _shardings(split: Layout, choices: Choices) -> tuple[Sharding, ...]:
    return choices.sharding or (SHARDING_LEAST_FIRST if split.pipeline == 1 else SHARDING_LEAST_FIRST[:1])


def _that_fit(split: Layout, choices: Choices, room: "_Room") -> Iterator[Layout]:
    """For each sharding, the layout with the least recompute that fits, if one does."""
    for sharding in _shardings(split, choices):
        layouts = (
            structs.replace(split, sharding=sharding, recompute=recompute)
            for recompute in sorted(choices.recompute, key=RECOMPUTE_LEAST_FIRST.index)
        )
        layout = next((layout for layout in layouts if room.holds(layout)), None)
        if layout is not None:
            yield layout


class _Room:
    """`fits`, asked no more than its laws leave open."""

    def __init__(self, fits: Fits, recompute: tuple[Recompute, ...]) -> None:
        self._fits = fits
        self._most = max(recompute, key=RECOMPUTE_LEAST_FIRST.index)
        self._too_large: dict[tuple[int, int, int, Sharding], float] = {}
        self._roomiest: dict[tuple[int, int, Sharding], bool] = {}

    def holds(self, layout: Layout) -> bool:
        """Whether it fits; where a smaller microbatch, or one chunk, did not with the most recompute, it does not."""
        key = (layout.tensor, layout.pipeline, layout.interleave, layout.sharding)
        plain = (layout.tensor, layout.pipeline, 1, layout.sharding)
        if layout.microbatch >= self._too_large.get(key, inf) or layout.microbatch >= self._too_large.get(plain, inf):
            return False
        answer = self._fits(layout)
        if not answer and layout.recompute == self._most:
            self._too_large[key] = layout.microbatch
        return answer

    def may_hold(self, split: Layout, sharding: Sharding) -> bool:
        """Whether it may fit in some number of chunks: in one it does, and so does the smallest microbatch."""
        plain = structs.replace(split, sharding=sharding, recompute=self._most, interleave=1)
        key = (split.tensor, split.pipeline, sharding)
        if key not in self._roomiest:
            self._roomiest[key] = self._fits(structs.replace(plain, microbatch=1))
        return self._roomiest[key] and self.holds(plain)


def _contexts_that_fit(
    workload: Workload, machine: Machine, gpu_count: int, fits: Fits, choices: Choices
) -> Iterator[int]:
    """Degrees that split a sequence with which some split fits, fewest first. What the largest degree of a split leaves
    no room for, none does."""
    most = max(choices.recompute, key=RECOMPUTE_LEAST_FIRST.index)
    batch, contexts = workload.global_batch_sequences, context_degrees(workload.sequence_length)[1:]

    def least(tensor: int, pipeline: int, context: int) -> Layout:
        split = structs.replace(choices.given, tensor=tensor, pipeline=pipeline, context=context, recompute=most)
        sharding = _shardings(split, choices)[-1]
        microbatch = min(choices.microbatch or (1,))
        return structs.replace(split, sharding=sharding, microbatch=microbatch, sequence_parallel=tensor > 1)

    rooms: dict[int, list[Layout]] = {}
    for tensor, pipeline in _replicas(workload, machine, choices):
        replicas = [tensor * pipeline * context for context in contexts]
        divides = [
            context
            for context, replica in zip(contexts, replicas, strict=True)
            if gpu_count % replica == 0 and batch % (gpu_count // replica) == 0
        ]
        if divides and fits(least(tensor, pipeline, divides[-1])):
            for context in divides:
                rooms.setdefault(context, []).append(least(tensor, pipeline, context))
    for context in sorted(rooms):
        if any(fits(layout) for layout in rooms[context]):
            yield context


def _bundles(
    workload: Workload, machine: Machine, gpu_count: int, choices: Choices, constants: StepConstants
) -> Iterator[_Bundle]:
    """Every split that divides, with the least recompute and the sharding still to be chosen."""
    least = min(choices.recompute, key=RECOMPUTE_LEAST_FIRST.index)
    batch = workload.global_batch_sequences
    for tensor, pipeline in _replicas(workload, machine, choices):
        replica = tensor * pipeline * choices.given.context
        if gpu_count % replica or batch % (gpu_count // replica):
            continue
        per_replica = batch // (gpu_count // replica)
        for microbatch in _microbatches(per_replica, choices):
            interleaves = tuple(_interleaves(workload.layers, pipeline, per_replica // microbatch, choices))
            if interleaves:
                split = structs.replace(
                    choices.given,
                    tensor=tensor,
                    pipeline=pipeline,
                    interleave=interleaves[0],
                    microbatch=microbatch,
                    recompute=least,
                    sequence_parallel=tensor > 1,
                )
                yield _Bundle(split, interleaves, stage_seconds(workload, machine, split, constants))


def _replicas(workload: Workload, machine: Machine, choices: Choices) -> Iterator[tuple[int, int]]:
    """Tensor and pipeline degrees that the model allows; tensor parallelism stays in a node unless it is given."""
    tensors = choices.tensor or divisors(machine.gpus_per_node)
    pipelines = choices.pipeline or even_pieces(workload.layers)
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
        values = tuple(pieces // pipeline for pieces in even_pieces(layers) if pieces % pipeline == 0)
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
    usual = divisible_batch(usual_batch_sequences(workload.sequence_length, gpu_count), gpu_count)
    replicas = {tensor * pipeline * choices.given.context for tensor, pipeline in _replicas(workload, machine, choices)}
    divides = any(gpu_count % size == 0 and usual % (gpu_count // size) == 0 for size in replicas)
    or_batch = f", or a batch of {usual} sequences, as is usual for so many" if divides else ""
    return BrokenRule.at(
        "/cluster/gpu_count",
        f"No layout of those allowed uses {gpu_count} GPUs for a batch of {batch} sequences; "
        f"{nearest_of(counts, gpu_count)} would work{or_batch}",
    )
