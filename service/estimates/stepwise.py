"""What the step model says of a request: its layout given or searched, its batch, and what would make it wait less."""

import math
from itertools import takewhile
from typing import Literal

from msgspec import UNSET, Struct, structs

from service.errors import BrokenRule
from service.estimates.chips import Chip, machine_of
from service.estimates.memory import Site, cannot_fit, counts_that_may_fit, fits_in, plan_of
from service.estimates.record import Record
from service.estimates.subject import Subject
from service.estimates.work_schemas import ParallelLayout, TransformerWork
from service.estimator import advice
from service.estimator.compute import Recompute
from service.estimator.parallelism import (
    MOST_TENSOR,
    Layout,
    Workload,
    check_layout,
    data_parallel,
    divisible_batch,
    divisors,
    usual_batch_sequences,
    workload_of,
)
from service.estimator.search import RECOMPUTE_LEAST_FIRST, Choices, Found, find_fastest_layout
from service.estimator.shapes import ModelShape
from service.estimator.step import Machine, StepSeconds, step_seconds, tokens_per_second_per_gpu
from service.estimator.utilisation import NARROW_PRECISIONS, QLORA_FACTOR, WIDE_PRECISIONS, precision_factor
from service.units import PERCENT

# Dense peaks over BF16's, where only that of a narrow precision was given: as on every part of the catalogue.
_PEAK_OVER_BF16 = {"fp8": 2.0, "fp4": 4.0}
_BATCH_ASSUMED = "4M tokens, or 1,024 for each GPU if that is more, in equal parts; assumed"
# What is tried where much of a step is waiting: halvings of the count, and doublings of the batch up to the largest
# that was published, about that of DeepSeek-V3 (15,360 sequences of 4,096 tokens, arXiv 2412.19437).
_MOST_TRIED_GIVEN, _MOST_TRIED_SEARCHED = 4, 1  # powers of two
_NEARLY_NONE = 1e-9
_MOST_BATCH_TOKENS = 67_108_864


class Modelled(Struct, frozen=True):
    """What the step model says of one count: tokens a second of all GPUs, and how they are laid out."""

    tokens_per_second: float
    layout: Layout
    workload: Workload
    step: StepSeconds
    given: bool


class Unfit(Struct, frozen=True):
    """That no layout fits: of what, on what."""

    shape: ModelShape
    machine: Machine
    workload: Workload


def precision_gain(chip: Chip, precision: str) -> float:
    """What a narrow precision gains over BF16: as published, and never more than its peak does."""
    if precision not in NARROW_PRECISIONS:
        return 1.0
    return min(precision_factor(precision), chip.peak_flops_per_second / bf16_peak(chip, precision))


def bf16_peak(chip: Chip, precision: str) -> float:
    return chip.bf16_flops_per_second or chip.peak_flops_per_second / _PEAK_OVER_BF16[precision]


def adapter_gain(subject: Subject) -> float:
    return QLORA_FACTOR if subject.training == "qlora" else 1.0


def layout_of(given: ParallelLayout, recompute: Literal["none", "selective", "full"]) -> Layout:
    """The layout of a request as the estimator takes it."""
    fields = structs.asdict(given)
    del fields["expert"]
    if given.sequence_parallel is UNSET:
        fields["sequence_parallel"] = given.tensor > 1
    return Layout(**fields, recompute=recompute)


def modelled_at(
    work: TransformerWork, subject: Subject, site: Site, gpu_count: int, batch: int | None = None
) -> Modelled | None:
    """The step model at a count, with the layout given or the fastest that fits; None where it has no say: experts,
    latent attention, a wide precision, or an accelerator that is not known well enough. Faults of a layout are raised.
    """
    found = _modelled(work, subject, site, gpu_count, batch)
    if isinstance(found, Unfit):
        raise _cannot_fit(work, subject, site, gpu_count, found)
    return found


def modelled_if_any(
    work: TransformerWork, subject: Subject, site: Site, gpu_count: int, batch: int | None = None
) -> Modelled | None:
    """The same, and None too where no layout divides or fits."""
    try:
        found = _modelled(work, subject, site, gpu_count, batch)
    except BrokenRule:
        return None
    return None if isinstance(found, Unfit) else found


def _modelled(
    work: TransformerWork, subject: Subject, site: Site, gpu_count: int, batch: int | None
) -> "Modelled | Unfit | None":
    shape, machine = subject.shape, machine_of(site.chip, site.gpus_per_node)
    if shape is None or machine is None or work.precision in WIDE_PRECISIONS:
        return None
    if shape.moe is not None or shape.attention_parameters_per_layer is not None:
        return None
    workload = workload_at(work, subject, shape, gpu_count, batch)
    if work.layout is not UNSET:
        layout = given_layout(work)
        check_layout(workload, layout, gpu_count)
        step, given = step_seconds(workload, machine, layout, gpu_count), True
    else:
        found = _fastest(work, subject, shape, site, machine, workload, gpu_count)
        if found is None:
            return Unfit(shape, machine, workload)
        layout, step, given = found.layout, found.step, False
    speed = precision_gain(site.chip, work.precision) * adapter_gain(subject)
    if subject.training != "full":
        whole = structs.replace(subject, training="full")
        speed *= whole.flops_per_token("full") / subject.flops_per_token("full")
    rate = tokens_per_second_per_gpu(workload, step.total_seconds, gpu_count) * gpu_count * speed
    return Modelled(rate, layout, workload, step, given)


def _fastest(
    work: TransformerWork,
    subject: Subject,
    shape: ModelShape,
    site: Site,
    machine: Machine,
    workload: Workload,
    gpu_count: int,
) -> Found | None:
    """The fastest layout that fits, None if none does; BrokenRule where none divides."""
    tensor = tuple(degree for degree in divisors(site.gpus_per_node) if degree <= MOST_TENSOR)

    def fits(layout: Layout) -> bool:
        return fits_in(subject, shape, site.chip, plan_of(subject, layout, data_parallel(layout, gpu_count)))

    choices = Choices(recompute=_recompute_modes(work), tensor=tensor)
    return find_fastest_layout(workload, machine, gpu_count, fits, choices)


def _recompute_modes(work: TransformerWork) -> tuple[Recompute, ...]:
    return RECOMPUTE_LEAST_FIRST if work.recompute is UNSET else (work.recompute,)


def _cannot_fit(work: TransformerWork, subject: Subject, site: Site, gpu_count: int, unfit: Unfit) -> BrokenRule:
    """That nothing fits, and the next count at which something would."""
    shape, most = unfit.shape, _recompute_modes(work)[-1]
    here = structs.replace(site, gpu_count=gpu_count)

    def would_do(count: int) -> bool:
        workload = workload_at(work, subject, shape, count)
        try:
            return _fastest(work, subject, shape, site, unfit.machine, workload, count) is not None
        except BrokenRule:
            return False

    counts = counts_that_may_fit(subject, shape, here, unfit.workload, most)
    return cannot_fit(here, most, next(filter(would_do, counts), None))


def given_layout(work: TransformerWork) -> Layout:
    assert work.layout is not UNSET  # the caller asked
    return layout_of(work.layout, "none" if work.recompute is UNSET else work.recompute)


def say_batch(record: Record, work: TransformerWork, modelled: Modelled) -> None:
    """The batch that was assumed, if one was."""
    if work.global_batch_sequences is UNSET:
        batch = modelled.workload.global_batch_sequences
        record.say("work.global_batch_sequences", batch, "default", _BATCH_ASSUMED)
        record.note(advice.default_batch(batch, modelled.workload.sequence_length))


def workload_at(
    work: TransformerWork, subject: Subject, shape: ModelShape, gpu_count: int, batch: int | None = None
) -> Workload:
    """The shape with this batch, else the one given, else a usual one in equal parts."""
    length = subject.sequence_length
    if batch is not None:
        return workload_of(shape, length, batch)
    if work.global_batch_sequences is not UNSET:
        return workload_of(shape, length, work.global_batch_sequences)
    sequences = usual_batch_sequences(length, gpu_count)
    if work.layout is not UNSET:
        part = max(1, data_parallel(given_layout(work), gpu_count)) * work.layout.microbatch
        batch = part * max(1, round(sequences / part))
    else:
        batch = divisible_batch(sequences, gpu_count)
    return workload_of(shape, length, batch)


# ------------------------------------------------------------------------------------------- waiting


def waiting_percent(modelled: Modelled) -> float:
    """The share of a step that is neither compute nor optimizer."""
    step = modelled.step
    working = step.compute_seconds + step.optimizer_seconds
    return max(0.0, PERCENT * (1 - working / step.total_seconds))


def batch_that_waits_less(
    work: TransformerWork, subject: Subject, site: Site, modelled: Modelled, most_percent: float
) -> int | None:
    """A doubling of the batch at which no more than this share of a step is waiting; None if none is found."""
    now, most = modelled.workload.global_batch_sequences, _MOST_BATCH_TOKENS // modelled.workload.sequence_length
    doubled = (now * 2**power for power in _powers_to_try(modelled, most_percent))
    batches = takewhile(lambda batch: batch <= most, doubled)
    return next(
        (batch for batch in batches if _waits_less(work, subject, site, site.gpu_count, batch, most_percent)), None
    )


def count_that_waits_less(
    work: TransformerWork, subject: Subject, site: Site, modelled: Modelled, most_percent: float
) -> int | None:
    """A halving of the count, in whole nodes, at which the same batch waits no more; None if none is found."""
    batch = modelled.workload.global_batch_sequences
    halved = (site.gpu_count // 2**power for power in _powers_to_try(modelled, most_percent))
    counts = (count // site.gpus_per_node * site.gpus_per_node for count in halved)
    return next(
        (count for count in counts if count and _waits_less(work, subject, site, count, batch, most_percent)), None
    )


def _powers_to_try(modelled: Modelled, most_percent: float) -> range:
    """By which powers of two the waiting may become little enough: as if it stayed as it is while the work doubles, and
    the next ones, for that is only nearly so. Where no layout was given each try is a search."""
    waiting = waiting_percent(modelled)
    times = waiting / max(PERCENT - waiting, _NEARLY_NONE) / (most_percent / (PERCENT - most_percent))
    first = max(1, math.floor(math.log2(max(1.0, times))))
    return range(first, first + (_MOST_TRIED_GIVEN if modelled.given else _MOST_TRIED_SEARCHED))


def _waits_less(
    work: TransformerWork, subject: Subject, site: Site, gpu_count: int, batch: int, most_percent: float
) -> bool:
    found = modelled_if_any(work, subject, site, gpu_count, batch)
    return found is not None and waiting_percent(found) <= most_percent
