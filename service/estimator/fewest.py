"""The fewest GPUs that can hold a model: with one split, and with the best of all splits that there are.

What a GPU holds is of two kinds: a share of what all of them have together, and what it has of its own whatever their
number. So the fewest are what is shared over the room that the rest leaves.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from service.estimator.compute import Recompute
from service.estimator.memory import (
    MINIMUM_STATE_BYTES,
    OVERHEAD_BYTES,
    SPLIT_PARTS,
    USABLE_SHARE,
    MemoryPlan,
    activations_and_logits,
    model_parallel,
    reserve_bytes,
    trained_parameters,
    weights_held,
)
from service.estimator.parallelism import (
    MOST_TENSOR,
    Layout,
    context_degrees,
    divisors,
    even_pieces,
    fits_heads,
    fits_width,
    workload_of,
)
from service.estimator.shapes import ModelShape

MOST_GPUS = 1_000_000
# Weights, gradients and optimizer are each rounded up to a byte.
ROUNDING_BYTES = 3


class Need(Struct, frozen=True):
    """What all GPUs share between them, and what each has of its own beside its share; in bytes, without reserve."""

    shared_bytes: float
    own_bytes: float


class Fewest(Struct, frozen=True):
    """The fewest GPUs, a multiple of `step`; the plan that they are laid out by, and what it needs."""

    gpu_count: int
    step: int
    plan: MemoryPlan
    need: Need


# ------------------------------------------------------------------------------------------- of one split


def fewest_of_plan(
    shape: ModelShape, plan: MemoryPlan, capacity_bytes: float, gpus_per_node: int, most: int = MOST_GPUS
) -> Fewest | None:
    """The fewest GPUs on which this plan fits whatever its `data`, in whole replicas; None if even `most` of them are
    too few, because more GPUs split no more than ZeRO's stage allows."""
    replica = model_parallel(plan) * plan.layout.context
    unit = math.lcm(replica, model_parallel(plan) * plan.expert)
    left = capacity_bytes - math.ceil(reserve_bytes(capacity_bytes)) - ROUNDING_BYTES
    least = None
    for need in _needs(shape, plan):
        if need.own_bytes >= left:
            continue
        count, step = in_whole_nodes(need.shared_bytes / (left - need.own_bytes), gpus_per_node, unit)
        if count <= most and (least is None or count < least.gpu_count):
            least = Fewest(count, step, replace(plan, data=count // replica), need)
    return least


def minimum_gpu_count(
    shape: ModelShape, plan: MemoryPlan, capacity_bytes: float, gpus_per_node: int, most: int = MOST_GPUS
) -> int | None:
    """The number alone."""
    found = fewest_of_plan(shape, plan, capacity_bytes, gpus_per_node, most)
    return None if found is None else found.gpu_count


def minimum_fsdp_gpu_count(
    parameters: float,
    capacity_bytes: float,
    activation_bytes: float = 0.0,
    overhead_bytes: float = OVERHEAD_BYTES,
    bytes_per_parameter: float = MINIMUM_STATE_BYTES,
) -> int | None:
    """By parameters alone, everything split over all GPUs: 16*N / (0.9*HBM - 3 GB - activations), rounded up;
    None where the activations alone are too much."""
    left = USABLE_SHARE * capacity_bytes - overhead_bytes - activation_bytes
    return math.ceil(bytes_per_parameter * parameters / left) if left > 0 else None


def in_whole_nodes(needed: float, gpus_per_node: int, unit: int = 1) -> tuple[int, int]:
    """So many GPUs or the next more that make whole units, and beyond one node whole nodes too; and what the count is
    a multiple of."""
    within = math.ceil(max(1, needed) / unit) * unit
    if within <= gpus_per_node:
        return within, unit
    step = math.lcm(unit, gpus_per_node)
    return math.ceil(max(1, needed) / step) * step, step


def _needs(shape: ModelShape, plan: MemoryPlan) -> Iterator[Need]:
    """What the plan takes; under ZeRO-3 weights are shared, or each GPU has those of its rank if that is less."""
    split = SPLIT_PARTS[plan.layout.sharding]
    trained, trained_here = trained_parameters(shape, plan)
    unsplit, in_all, gathered = weights_held(shape, plan)
    shared, own = 0.0, float(sum(math.ceil(part) for part in activations_and_logits(shape, plan)))
    adapters = 0 if plan.training == "full" else plan.numbers.weight
    for part, size in (
        ("weights", adapters),
        ("gradients", plan.layout.gradient_bytes),
        ("optimizer", plan.numbers.optimizer),
    ):
        if part in split:
            shared += size * trained
        else:
            own += size * trained_here
    if "weights" in split:
        yield Need(shared + in_all, own + gathered)
    yield Need(shared, own + unsplit)


# ------------------------------------------------------------------------------------------- of all splits


class Split(Struct, frozen=True):
    """Degrees of a split. The rest is as a search has it: one sequence at a time; everything shared by the replicas, or
    optimizer states alone where there are stages."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1

    @property
    def gpu_count(self) -> int:
        """What every count of it is a multiple of."""
        return self.tensor * self.pipeline * math.lcm(self.context, self.expert)

    def plan(self, like: MemoryPlan, recompute: Recompute, gpu_count: int) -> MemoryPlan:
        """This split of so many GPUs, with the training of that plan."""
        layout = Layout(
            tensor=self.tensor,
            pipeline=self.pipeline,
            context=self.context,
            sharding="zero3" if self.pipeline == 1 else "zero1",
            recompute=recompute,
            sequence_parallel=self.tensor > 1,
        )
        data = max(1, gpu_count // (self.tensor * self.pipeline * self.context))
        return replace(like, layout=layout, data=data, expert=self.expert)


def tensor_degrees(shape: ModelShape, gpus_per_node: int) -> list[int]:
    """Degrees within a node that split its heads and its dense block."""
    workload = workload_of(shape, 1, 1)
    return [
        degree
        for degree in divisors(gpus_per_node)
        if degree <= MOST_TENSOR and fits_heads(workload, degree) and fits_width(workload, degree)
    ]


def expert_degrees(shape: ModelShape) -> list[int]:
    """Degrees that share out experts evenly: powers of two, and one expert for each GPU."""
    if shape.moe is None:
        return [1]
    experts = shape.moe.experts
    powers = [2**power for power in range(experts.bit_length()) if experts % 2**power == 0]
    return powers if powers[-1] == experts else [*powers, experts]


def splits(shape: ModelShape, sequence_length: int, gpus_per_node: int, gpu_count: int) -> Iterator[Split]:
    """Every split of so many GPUs: without stages and without a context degree first, and the least degrees of each."""
    for pipeline in even_pieces(shape.layers):
        for context in context_degrees(sequence_length):
            for tensor in tensor_degrees(shape, gpus_per_node):
                for expert in expert_degrees(shape):
                    split = Split(tensor, pipeline, context, expert)
                    if gpu_count % split.gpu_count == 0:
                        yield split


@lru_cache(1024)
def fewest_gpus(
    shape: ModelShape, like: MemoryPlan, capacity_bytes: float, gpus_per_node: int, recompute: Recompute | None
) -> Fewest | None:
    """The fewest GPUs on which any split fits, with that recompute mode or, without one, with what keeps least; None if
    none does. What is trained is as in the plan given, whose layout does not matter. Kept, for the GPU count, the batch
    and the tokens of a run change nothing of it.

    A smaller tensor degree is tried with whole sequences and experts only: twice of it and half of theirs takes as many
    GPUs, and a layer gathered for its turn is split further.
    """
    best: Fewest | None = None
    enough = _no_fewer_than(shape, like, capacity_bytes, gpus_per_node)
    tensors = tensor_degrees(shape, gpus_per_node)
    modes = {tensor: recompute or _keeps_least(shape, like, tensor) for tensor in reversed(tensors)}
    pairs = _contexts_and_experts(context_degrees(like.sequence_length), tuple(expert_degrees(shape)))
    for pipeline in even_pieces(shape.layers):
        for tensor, mode in modes.items():
            for context, expert in pairs[:1] if 2 * tensor in modes else pairs:
                split = Split(tensor, pipeline, context, expert)
                if best is not None and split.gpu_count >= best.gpu_count:
                    break
                found = fewest_of_plan(shape, split.plan(like, mode, 1), capacity_bytes, gpus_per_node)
                if found is not None and (best is None or found.gpu_count < best.gpu_count):
                    best = found
                    if best.gpu_count <= enough:
                        return best
    return best


@lru_cache(64)
def _contexts_and_experts(contexts: tuple[int, ...], experts: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Degrees of both, by how many GPUs they take; of those that take as many, which split both no less."""
    pairs = {(context, expert) for context in contexts for expert in experts}

    def is_outdone(one: tuple[int, int]) -> bool:
        return any(
            other != one and math.lcm(*other) == math.lcm(*one) and other[0] >= one[0] and other[1] >= one[1]
            for other in pairs
        )

    return tuple(sorted((pair for pair in pairs if not is_outdone(pair)), key=lambda pair: (math.lcm(*pair), pair)))


def _no_fewer_than(shape: ModelShape, like: MemoryPlan, capacity_bytes: float, gpus_per_node: int) -> int:
    """What it takes to hold all states and nothing else: no split takes fewer."""
    everything = next(_needs(shape, Split().plan(like, "full", 1))).shared_bytes
    left = capacity_bytes - reserve_bytes(capacity_bytes)
    return in_whole_nodes(everything / left, gpus_per_node)[0] if left > 0 else MOST_GPUS


def _keeps_least(shape: ModelShape, like: MemoryPlan, tensor: int) -> Recompute:
    """All is recomputed, but for a model of so few layers that the one at work counts for more."""
    full, none = (sum(activations_and_logits(shape, Split(tensor).plan(like, mode, 1))) for mode in ("full", "none"))
    return "full" if full <= none else "none"
