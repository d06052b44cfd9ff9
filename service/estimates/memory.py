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
from service.estimator.fewest import (
    MOST_GPUS,
    Fewest,
    Split,
    expert_degrees,
    fewest_gpus,
    fewest_of_plan,
    in_whole_nodes,
    splits,
    tensor_degrees,
)
from service.estimator.memory import (
    GRADIENT_BYTES,
    NF4_BYTES,
    OVERHEAD_BYTES,
    GpuMemory,
    MemoryPlan,
    fits,
    memory_per_gpu,
    reserve_bytes,
)
from service.estimator.parallelism import (
    Layout,
    Workload,
    context_degrees,
    fits_heads,
    fits_width,
    splits_evenly,
)
from service.estimator.search import RECOMPUTE_LEAST_FIRST
from service.estimator.shapes import ModelShape
from service.units import PERCENT

_GB = 1e9
_MOST_STAGES = 64
_MOST_TRIED = 5
SHORTER = "a shorter sequence, a higher context degree in `layout` or accelerators with more memory"
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
        numbers=subject.numbers,
    )


def fits_in(subject: Subject, shape: ModelShape, chip: Chip, plan: MemoryPlan) -> bool:
    """Whether one GPU can hold it, the reserve included."""
    return fits(memory_per_gpu(shape, plan, chip.memory_bytes), chip.memory_bytes)


def memory_of_layout(record: Record, subject: Subject, shape: ModelShape, site: Site, plan: MemoryPlan) -> Memory:
    """The memory of a layout that was given. One that seems not to fit is said to, for activations are counted within
    15 %; it is refused only if what is no activation is too much alone."""
    held = _held(shape, plan, site.chip.memory_bytes)
    smallest = smallest_of_layout(shape, plan, site)
    if _cannot_hold(held, site.chip):
        raise BrokenRule.at("/work/layout", f"{_states_too_much(held, site)}: {_what_would_share(plan, smallest)}")
    reason = None
    if not fits(held, site.chip.memory_bytes):
        reason = f"{_too_much(held, site.chip)}: {_what_would_work(plan, smallest)}."
        record.note(advice.does_not_fit(reason))
    return _memory(subject, held, site, plan, "layout_given", smallest, reason)


def memory_of_search(
    record: Record, subject: Subject, shape: ModelShape, site: Site, plan: MemoryPlan, recompute: Recompute | None
) -> Memory:
    """The memory of a layout that was searched because it fits."""
    held = _held(shape, plan, site.chip.memory_bytes)
    if plan.layout.context > 1:
        record.note(advice.context_searched(plan.layout.context))
    return _memory(subject, held, site, plan, "layout_searched", smallest_of_all(subject, shape, site, recompute), None)


def memory_fully_sharded(
    record: Record, subject: Subject, shape: ModelShape, site: Site, recompute: Recompute | None
) -> Memory:
    """The memory of `sharded_plan`; BrokenRule if not even what is no activation fits."""
    plan = sharded_plan(subject, shape, site, recompute)
    held, smallest = _held(shape, plan, site.chip.memory_bytes), smallest_of_all(subject, shape, site, recompute)
    for degree, value in _degrees_of(plan).items():
        if value > 1:
            record.say(f"work.layout.{degree}", value, "derived", "the least that fits; for memory only")
    if _cannot_hold(held, site.chip):
        raise _no_room(_states_too_much(held, site), None if smallest is None else smallest.gpu_count)
    reason = None
    if not fits(held, site.chip.memory_bytes):
        more = f"{SHORTER} may" if smallest is None else f"{smallest.gpu_count} GPUs would"
        reason = f"{_too_much(held, site.chip)}: {more}."
        record.note(advice.does_not_fit(reason))
    return _memory(subject, held, site, plan, "fully_sharded", smallest, reason)


def sharded_plan(subject: Subject, shape: ModelShape, site: Site, recompute: Recompute | None) -> MemoryPlan:
    """Everything shared over all GPUs (FSDP), one sequence at a time, and as little recompute as fits unless it is
    said; a layer is split within a node, and experts are shared out, as little as fits. Sequences are split too, and
    layers make stages, only where nothing fits without. What holds the least where nothing fits."""
    return _sharded(
        shape,
        plan_of(subject, Layout(), 1),
        site.chip.memory_bytes,
        site.gpu_count,
        site.gpus_per_node,
        recompute,
    )


def smallest_of_layout(shape: ModelShape, plan: MemoryPlan, site: Site) -> Fewest | None:
    """The fewest GPUs on which a layout fits, by the replicas that it has."""
    return _fewest_of_layout(shape, structs.replace(plan, data=1), site.chip.memory_bytes, site.gpus_per_node)


def smallest_of_all(subject: Subject, shape: ModelShape, site: Site, recompute: Recompute | None) -> Fewest | None:
    """The fewest GPUs on which the model fits with any layout that a search would try."""
    like = plan_of(subject, Layout(), 1)
    return fewest_gpus(shape, like, site.chip.memory_bytes, site.gpus_per_node, recompute)


def memory_by_parameters(record: Record, subject: Subject, site: Site) -> Memory:
    """The memory of weights, gradients and optimizer shared over all GPUs; activations are unknown without a shape."""
    per_weight = NF4_BYTES if subject.training == "qlora" else float(subject.numbers.weight)
    full = subject.training == "full"
    gradients, optimizer = (float(GRADIENT_BYTES), float(subject.numbers.optimizer)) if full else (0.0, 0.0)
    in_all = subject.parameters * (per_weight + gradients + optimizer)
    weights, gradients, optimizer = (
        subject.parameters * part / site.gpu_count for part in (per_weight, gradients, optimizer)
    )
    states, reserve = weights + gradients + optimizer, float(reserve_bytes(site.chip.memory_bytes))
    room = site.chip.memory_bytes - reserve
    smallest = None
    if room > 0:
        smallest, _ = in_whole_nodes(in_all / room, site.gpus_per_node)
    if states + OVERHEAD_BYTES > site.chip.memory_bytes:
        raise _no_room(_over(states, site), smallest)
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
        smallest_gpu_count=_or_these(smallest, site, reason),
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
            found = (
                fewest_of_plan(
                    shape,
                    Split(tensor, stages, context).plan(plan_of(subject, Layout(), 1), recompute, 1),
                    site.chip.memory_bytes,
                    site.gpus_per_node,
                )
                for context in context_degrees(subject.sequence_length)
            )
            counts.add(min((fewest.gpu_count for fewest in found if fewest is not None), default=0))
    fewest = sorted(count for count in counts if count > site.gpu_count)
    doubled = [site.gpu_count * 2**power for power in range(1, 8)]
    return fewest[:_MOST_TRIED] + [count for count in doubled if fewest and fewest[0] < count <= MOST_GPUS]


def cannot_fit(site: Site, recompute: Recompute, smallest: int | None) -> BrokenRule:
    """That no layout of this many GPUs fits, and how many would."""
    more = f"{SHORTER} may" if smallest is None else f"{smallest} GPUs would"
    if recompute != "full":
        more = f"{more}, or recompute full may"
    return BrokenRule.at(
        "/cluster/gpu_count",
        f"No layout of {site.gpu_count} {site.chip.name} fits this model with its batch and recompute mode; {more}",
    )


@lru_cache(1024)
def _held(shape: ModelShape, plan: MemoryPlan, capacity_bytes: float) -> GpuMemory:
    """What a GPU holds; kept, for many runs do not differ in it."""
    return memory_per_gpu(shape, plan, capacity_bytes)


_fewest_of_layout = lru_cache(1024)(fewest_of_plan)


@lru_cache(1024)
def _sharded(
    shape: ModelShape,
    like: MemoryPlan,
    capacity_bytes: float,
    gpu_count: int,
    gpus_per_node: int,
    recompute: Recompute | None,
) -> MemoryPlan:
    def holds(plan: MemoryPlan) -> bool:
        return fits(memory_per_gpu(shape, plan, capacity_bytes), capacity_bytes)

    modes = RECOMPUTE_LEAST_FIRST if recompute is None else (recompute,)
    plain = [
        split
        for tensor in tensor_degrees(shape, gpus_per_node)
        for expert in expert_degrees(shape)
        if gpu_count % (split := Split(tensor=tensor, expert=expert)).gpu_count == 0
    ]
    plans = (split.plan(like, mode, gpu_count) for mode in modes for split in plain)
    found = next(filter(holds, plans), None)
    if found is not None:
        return found
    fewest = fewest_gpus(shape, like, capacity_bytes, gpus_per_node, recompute)
    if fewest is not None and fewest.gpu_count <= gpu_count:
        mode = fewest.plan.layout.recompute
        others = splits(shape, like.sequence_length, gpus_per_node, gpu_count)
        found = next(filter(holds, (split.plan(like, mode, gpu_count) for split in others)), None)
    return found or plain[-1].plan(like, modes[-1], gpu_count)


def _memory(
    subject: Subject,
    held: GpuMemory,
    site: Site,
    plan: MemoryPlan,
    basis: _Basis,
    smallest: Fewest | None,
    reason: str | None,
) -> Memory:
    fewest = None if smallest is None else smallest.gpu_count
    return Memory(
        fits=reason is None,
        reason=reason,
        basis=basis,
        capacity_bytes=site.chip.memory_bytes,
        **{field: getattr(held, field) for field in structs.asdict(held)},
        used_percent=PERCENT * held.total_bytes / site.chip.memory_bytes,
        recompute=plan.layout.recompute,
        smallest_gpu_count=_or_these(fewest, site, reason),
        checkpoint_bytes=subject.checkpoint_bytes,
    )


def _or_these(fewest: int | None, site: Site, reason: str | None) -> int | None:
    """The fewest in whole nodes, or those of the run if it fits on them and they are fewer."""
    if reason is None:
        return site.gpu_count if fewest is None else min(fewest, site.gpu_count)
    return fewest


def _degrees_of(plan: MemoryPlan) -> dict[str, int]:
    layout = plan.layout
    return {
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "context": layout.context,
        "expert": plan.expert,
    }


def _cannot_hold(held: GpuMemory, chip: Chip) -> bool:
    """Whether it does not fit however far activations and fragments are off."""
    return _states_of(held) + OVERHEAD_BYTES > chip.memory_bytes


def _states_of(held: GpuMemory) -> float:
    return held.weights_bytes + held.gradients_bytes + held.optimizer_bytes


def _states_too_much(held: GpuMemory, site: Site) -> str:
    return _over(_states_of(held), site)


def _over(states: float, site: Site) -> str:
    return (
        f"Weights, gradients and optimizer take {states / _GB:,.1f} GB of each of {site.gpu_count} GPUs, context and "
        f"buffers {OVERHEAD_BYTES / _GB:g}, and {site.chip.name} has {site.chip.memory_bytes / _GB:g}"
    )


def _too_much(held: GpuMemory, chip: Chip) -> str:
    return (
        f"{held.total_bytes / _GB:,.1f} GB a GPU, {held.activations_bytes / _GB:,.1f} of them activations and "
        f"{held.reserve_bytes / _GB:,.1f} a reserve, are more than the {chip.memory_bytes / _GB:g} GB of {chip.name}"
    )


def _what_would_work(plan: MemoryPlan, smallest: Fewest | None) -> str:
    """What lessens activations or states."""
    ways = []
    if plan.layout.recompute != "full":
        ways.append("more recompute")
    if plan.layout.sharding != "zero3":
        ways.append("sharding zero3")
    if plan.layout.microbatch > 1:
        ways.append("a smaller microbatch")
    ways.append("higher tensor, pipeline or context degrees")
    return _would(ways, smallest)


def _what_would_share(plan: MemoryPlan, smallest: Fewest | None) -> str:
    """What lessens states, which neither recompute nor a smaller microbatch does."""
    ways = [] if plan.layout.sharding == "zero3" else ["sharding zero3"]
    return _would([*ways, "higher tensor or pipeline degrees"], smallest)


def _would(ways: list[str], smallest: Fewest | None) -> str:
    counted = [] if smallest is None else [f"{smallest.gpu_count} GPUs"]
    return f"{' or '.join([*counted, *ways])} would"


def _no_room(told: str, smallest: int | None) -> BrokenRule:
    more = "accelerators with more memory would" if smallest is None else f"{smallest} GPUs would do"
    return BrokenRule.at("/cluster/gpu_count", f"{told}: {more}")
