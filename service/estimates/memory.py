"""Whether a request's model fits its accelerators: by its layout, by the one found, or with everything shared out."""

import math
from functools import lru_cache
from typing import Literal

from msgspec import Struct, structs

from service.errors import BrokenRule
from service.estimates.chips import Chip
from service.estimates.record import Record
from service.estimates.subject import Subject
from service.estimator import advice
from service.estimator.answers import Memory
from service.estimator.compute import Recompute
from service.estimator.memory import (
    GRADIENT_BYTES,
    NF4_BYTES,
    OPTIMIZER_BYTES,
    WEIGHT_BYTES,
    GpuMemory,
    MemoryPlan,
    fits,
    in_whole_nodes,
    memory_per_gpu,
    minimum_gpu_count,
    reserve_bytes,
)
from service.estimator.parallelism import (
    Layout,
    Workload,
    fits_heads,
    fits_width,
    splits_evenly,
    workload_of,
)
from service.estimator.search import RECOMPUTE_LEAST_FIRST
from service.estimator.shapes import ModelShape
from service.units import PERCENT

_GB = 1e9
_MOST_STAGES = 64
_MOST_TRIED = 5
_MOST_GPUS = 1_000_000
_Basis = Literal["layout_given", "layout_searched", "fully_sharded", "parameters_only"]


class Site(Struct, frozen=True):
    """Where it runs."""

    chip: Chip
    gpu_count: int
    gpus_per_node: int


def plan_of(subject: Subject, layout: Layout, data: int, expert: int = 1) -> MemoryPlan:
    """The layout as far as memory depends on it."""
    return MemoryPlan(
        layout=layout,
        data=data,
        sequence_length=subject.sequence_length,
        expert=expert,
        training=subject.training,
        lora_parameters=subject.lora_parameters,
    )


def fits_in(subject: Subject, shape: ModelShape, chip: Chip, plan: MemoryPlan) -> bool:
    """Whether one GPU can hold it, the reserve included."""
    return fits(memory_per_gpu(shape, plan, chip.memory_bytes), chip.memory_bytes)


def memory_of_layout(
    record: Record, subject: Subject, shape: ModelShape, site: Site, plan: MemoryPlan, searched: bool
) -> Memory:
    """The memory of one layout. A given one that seems not to fit is said to, for activations are counted within
    15 %; it is refused only if weights, gradients and optimizer alone are too much."""
    held, smallest = _held_and_smallest(shape, plan, site.chip.memory_bytes, site.gpus_per_node)
    states = held.weights_bytes + held.gradients_bytes + held.optimizer_bytes
    if states > site.chip.memory_bytes:
        raise BrokenRule.at(
            "/work/layout",
            f"Weights, gradients and optimizer take {states / _GB:,.1f} GB of each GPU, and {site.chip.name} has "
            f"{site.chip.memory_bytes / _GB:g}: {_what_would_work(plan, smallest)}",
        )
    reason = None
    if not fits(held, site.chip.memory_bytes):
        reason = f"{_too_much(held, site.chip)}: {_what_would_work(plan, smallest)}."
        record.note(advice.does_not_fit(reason))
    return _memory(subject, held, site, plan, "layout_searched" if searched else "layout_given", smallest, reason)


def memory_fully_sharded(
    record: Record, subject: Subject, shape: ModelShape, site: Site, recompute: Recompute | None
) -> Memory:
    """The memory with everything shared over all GPUs (FSDP), one sequence at a time, and as little recompute as fits
    unless it is said; a layer is split within a node, and experts are shared out, as little as fits. BrokenRule if not
    even weights, gradients and optimizer fit."""
    modes = RECOMPUTE_LEAST_FIRST if recompute is None else (recompute,)
    plans = [
        plan_of(
            subject,
            Layout(sharding="zero3", recompute=mode, tensor=tensor, sequence_parallel=tensor > 1),
            max(1, site.gpu_count // tensor),
            expert,
        )
        for mode in modes
        for tensor in _tensor_degrees(shape, site.gpus_per_node)
        for expert in _expert_degrees(shape)
    ]
    here = [plan for plan in plans if site.gpu_count % (plan.layout.tensor * plan.expert) == 0]
    plan = next((plan for plan in here if fits_in(subject, shape, site.chip, plan)), here[-1])
    held, _ = _held_and_smallest(shape, plan, site.chip.memory_bytes, site.gpus_per_node)
    counts = (
        _held_and_smallest(shape, other, site.chip.memory_bytes, site.gpus_per_node)[1]
        for other in plans
        if other.layout.recompute == plan.layout.recompute
    )
    smallest = min((count for count in counts if count is not None), default=None)
    for degree, value in (("tensor", plan.layout.tensor), ("expert", plan.expert)):
        if value > 1:
            record.say(f"work.layout.{degree}", value, "derived", "the least that fits; for memory only")
    states = held.weights_bytes + held.gradients_bytes + held.optimizer_bytes
    if states > site.chip.memory_bytes:
        raise _no_room(states, site, smallest)
    reason = None
    if not fits(held, site.chip.memory_bytes):
        more = "a context degree that splits a sequence may" if smallest is None else f"{smallest} GPUs would"
        reason = f"{_too_much(held, site.chip)}: {more}."
        record.note(advice.does_not_fit(reason))
    return _memory(subject, held, site, plan, "fully_sharded", smallest, reason)


def memory_by_parameters(record: Record, subject: Subject, site: Site) -> Memory:
    """The memory of weights, gradients and optimizer shared over all GPUs; activations are unknown without a shape."""
    per_weight = NF4_BYTES if subject.training == "qlora" else float(WEIGHT_BYTES)
    full = subject.training == "full"
    gradients, optimizer = (float(GRADIENT_BYTES), float(OPTIMIZER_BYTES)) if full else (0.0, 0.0)
    weights, gradients, optimizer = (
        subject.parameters * part / site.gpu_count for part in (per_weight, gradients, optimizer)
    )
    states, reserve = weights + gradients + optimizer, float(reserve_bytes(site.chip.memory_bytes))
    room = site.chip.memory_bytes - reserve
    smallest = None
    if room > 0:
        smallest = in_whole_nodes(math.ceil(states * site.gpu_count / room), site.gpus_per_node)
    if states > site.chip.memory_bytes:
        raise _no_room(states, site, smallest)
    reason = None
    if states > room:
        more = "accelerators with more memory would" if smallest is None else f"{smallest} GPUs would"
        reason = (
            f"{states / _GB:,.1f} GB of weights, gradients and optimizer leave no reserve of {reserve / _GB:.1f} GB: "
            f"{more}."
        )
        record.note(advice.does_not_fit(reason))
    return Memory(
        fits=reason is None,
        reason=reason,
        basis="parameters_only",
        capacity_bytes=site.chip.memory_bytes,
        weights_bytes=math.ceil(weights),
        gradients_bytes=math.ceil(gradients),
        optimizer_bytes=math.ceil(optimizer),
        activations_bytes=None,
        logits_bytes=None,
        reserve_bytes=math.ceil(reserve),
        total_bytes=math.ceil(states + reserve),
        used_percent=PERCENT * (states + reserve) / site.chip.memory_bytes,
        recompute=None,
        smallest_gpu_count=smallest,
        checkpoint_bytes=subject.checkpoint_bytes,
    )


def counts_that_may_fit(
    subject: Subject, shape: ModelShape, site: Site, workload: Workload, recompute: Recompute
) -> list[int]:
    """Larger counts at which some layout has the memory, fewest first, and doublings of this one; whether the batch
    divides is not asked."""
    degrees = [2**power for power in range(_MOST_STAGES.bit_length())]
    counts = set()
    for tensor in (degree for degree in degrees if site.gpus_per_node % degree == 0):
        if not fits_heads(workload, tensor) or not fits_width(workload, tensor):
            continue
        for stages in (stages for stages in degrees if splits_evenly(shape.layers, stages)):
            layout = Layout(
                tensor=tensor,
                pipeline=stages,
                sharding="zero3" if stages == 1 else "zero1",
                recompute=recompute,
                sequence_parallel=tensor > 1,
            )
            counts.add(
                minimum_gpu_count(shape, plan_of(subject, layout, 1), site.chip.memory_bytes, site.gpus_per_node)
            )
    fewest = sorted(count for count in counts if count is not None and count > site.gpu_count)
    doubled = [site.gpu_count * 2**power for power in range(1, 8)]
    return fewest[:_MOST_TRIED] + [count for count in doubled if fewest and fewest[0] < count <= _MOST_GPUS]


def cannot_fit(site: Site, recompute: Recompute, smallest: int | None) -> BrokenRule:
    """That no layout of this many GPUs fits, and how many would."""
    more = "a shorter sequence or accelerators with more memory may" if smallest is None else f"{smallest} GPUs would"
    if recompute != "full":
        more = f"{more}, or recompute full may"
    return BrokenRule.at(
        "/cluster/gpu_count",
        f"No layout of {site.gpu_count} {site.chip.name} fits this model with its batch and recompute mode; {more}",
    )


def _tensor_degrees(shape: ModelShape, gpus_per_node: int) -> list[int]:
    """Degrees within a node that split its heads and its dense block: powers of two, 8 at most."""
    workload = workload_of(shape, 1, 1)
    return [
        degree
        for degree in (1, 2, 4, 8)
        if gpus_per_node % degree == 0 and fits_heads(workload, degree) and fits_width(workload, degree)
    ]


def _expert_degrees(shape: ModelShape) -> list[int]:
    """Degrees that share out experts evenly: powers of two, and one expert for each GPU."""
    if shape.moe is None:
        return [1]
    experts = shape.moe.experts
    powers = [2**power for power in range(experts.bit_length()) if experts % 2**power == 0]
    return powers if powers[-1] == experts else [*powers, experts]


@lru_cache(1024)
def _held_and_smallest(
    shape: ModelShape, plan: MemoryPlan, capacity_bytes: float, gpus_per_node: int
) -> tuple[GpuMemory, int | None]:
    """What a GPU holds, and the fewest GPUs that could; kept, for many runs differ in neither."""
    return memory_per_gpu(shape, plan, capacity_bytes), minimum_gpu_count(shape, plan, capacity_bytes, gpus_per_node)


def _memory(
    subject: Subject,
    held: GpuMemory,
    site: Site,
    plan: MemoryPlan,
    basis: _Basis,
    smallest: int | None,
    reason: str | None,
) -> Memory:
    return Memory(
        fits=reason is None,
        reason=reason,
        basis=basis,
        capacity_bytes=site.chip.memory_bytes,
        **{field: getattr(held, field) for field in structs.asdict(held)},
        used_percent=PERCENT * held.total_bytes / site.chip.memory_bytes,
        recompute=plan.layout.recompute,
        smallest_gpu_count=smallest,
        checkpoint_bytes=subject.checkpoint_bytes,
    )


def _too_much(held: GpuMemory, chip: Chip) -> str:
    return (
        f"{held.total_bytes / _GB:,.1f} GB a GPU, {held.activations_bytes / _GB:,.1f} of them activations and "
        f"{held.reserve_bytes / _GB:,.1f} a reserve, are more than the {chip.memory_bytes / _GB:g} GB of {chip.name}"
    )


def _what_would_work(plan: MemoryPlan, smallest: int | None) -> str:
    ways = []
    if smallest is not None:
        ways.append(f"{smallest} GPUs")
    if plan.layout.recompute != "full":
        ways.append("more recompute")
    if plan.layout.sharding != "zero3":
        ways.append("sharding zero3")
    if plan.layout.microbatch > 1:
        ways.append("a smaller microbatch")
    ways.append("higher tensor or pipeline degrees")
    return f"{' or '.join(ways)} would"


def _no_room(states: float, site: Site, smallest: int | None) -> BrokenRule:
    more = "accelerators with more memory would" if smallest is None else f"{smallest} GPUs would do"
    return BrokenRule.at(
        "/cluster/gpu_count",
        f"Weights, gradients and optimizer, shared over {site.gpu_count} GPUs, take {states / _GB:,.1f} GB of each, "
        f"and {site.chip.name} has {site.chip.memory_bytes / _GB:g}: {more}",
    )
