"""The project's own published runs and measured tables, each row with its source; a missing figure is None."""

import csv
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from service.catalog.schemas import Precision
from service.estimator.collectives import Sharding
from service.estimator.compute import Recompute

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(gt=0, lt=1)]
Slug = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Text = Annotated[str, Meta(min_length=1)]
Scaling = Literal["strong", "weak"]
# What a reported share of effective time counts as lost. Failures: checkpoints, lost work and restarts. Billed:
# everything that was paid for or waited for, evaluation and ramp-up too.
RatioBasis = Literal["failures", "billed"]
# What stopped a run. Allocations: the ends of a scheduler's time slices, mostly no failures.
StopKind = Literal["all", "unexpected", "hardware", "allocations"]
# Billed: what was paid for. Expected: the authors' plan. Benchmark: start to stop. Logged and ideal: steps alone.
HoursBasis = Literal["billed", "expected", "benchmark", "logged", "ideal"]


class Cluster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of node that was measured: the catalogue knows the accelerator, this row the network."""

    id: Slug
    accelerator_id: Slug
    network_gbps_per_gpu: Positive
    gpus_per_node: Count
    source: Text


class ThroughputRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measured throughput with everything that was run. `source_id` is what is left out as a whole; `assumed`
    names what the paper does not print; `reason` is why a miss was to be expected."""

    id: Slug
    source_id: Slug
    dataset: Slug
    cluster_id: Slug
    gpu_count: Count
    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    ffn_hidden: Count
    ffn_matrices: Literal[2, 3]
    vocabulary: Count
    sequence_tokens: Count
    global_batch_sequences: Count
    microbatch_sequences: Count
    tensor: Count
    pipeline: Count
    interleave: Count
    sharding: Sharding
    recompute: Recompute
    sequence_parallel: bool
    flash_attention: bool
    tensor_overlap: bool
    data_overlap: bool
    fused: bool
    gradient_bytes: Literal[2, 4]
    tokens_per_second_per_gpu: Positive
    series: Slug | None
    scaling: Scaling | None
    assumed: Text | None
    reason: Text | None
    source: Text


class ScalingRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured point of a series whose layout is not known."""

    series: Slug
    source_id: Slug
    scaling: Scaling
    accelerator_count: Count
    throughput_per_accelerator: Positive
    throughput_unit: Text
    note: Text | None
    source: Text


class HeldOutRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the step model says of a ThroughputRow when its constants are fitted to the other sources only; beside it
    what the constants said that were shipped at the time."""

    id: Slug
    source_id: Slug
    held_out_tokens_per_second_per_gpu: Positive
    shipped_tokens_per_second_per_gpu: Positive
    fitted_on: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    source: Text


class LayoutlessRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measured throughput whose layout is not published, or not all of it. The shape is the catalogue's, else the
    row's own; `fused` and `recompute` are None where the source does not say."""

    id: Slug
    source_id: Slug
    model_id: Slug | None
    layers: Count | None
    hidden: Count | None
    heads: Count | None
    ffn_hidden: Count | None
    vocabulary: Count | None
    accelerator_id: Slug
    gpu_count: Count
    sequence_tokens: Count
    global_batch_sequences: Count
    precision: Precision
    recompute: Recompute | None
    fused: bool | None
    tokens_per_second_per_gpu: Positive
    assumed: Text | None
    reason: Text | None
    source: Text


class ReliabilityRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a run, or one node, stopped, and what share of its time was effective. Counts are of accelerators;
    `includes` says in words what the share is of, `ratio_is_bound` that more than it was reached."""

    id: Slug
    name: Text
    source_id: Slug
    accelerator: Text | None
    accelerator_count: Count
    accelerators_per_node: Count
    duration_days: Positive | None
    failures: Count | None
    mttf_hours: Positive | None
    stops: StopKind | None
    effective_time_ratio: Share | None
    ratio_is_bound: bool | None
    basis: RatioBasis | None
    includes: Text | None
    checkpoint_interval_hours: Positive | None
    checkpoint_seconds: Positive | None
    restart_minutes: Positive | None
    reason: Text | None
    source: Text


class PublishedRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training run and what it took. `model_id` is its shape in the catalogue. Shares are of the dense peak at its
    precision; `peak_tflops` stands in where the catalogue has no such accelerator."""

    id: Slug
    name: Text
    source_id: Slug
    year: Annotated[int, Meta(ge=2017)]
    model_id: Slug | None
    architecture: Literal["dense", "moe", "other"]
    parameters: Count
    active_parameters: Count
    trained_tokens: Count
    sequence_tokens: Count | None
    layers: Count | None
    hidden: Count | None
    global_batch_sequences: Count | None
    accelerator_id: Slug | None
    peak_tflops: Positive | None
    accelerator_count: Count | None
    precision: Precision
    recompute: Recompute | None
    stated_mfu_share: Share | None
    stated_hfu_share: Share | None
    mfu_counts_attention: bool | None
    reported_gpu_hours: Positive
    hours_basis: HoursBasis
    quality_tier: Literal["A", "B"]
    assumed: Text | None
    reason: Text | None
    source: Text


Row = TypeVar("Row", bound=Struct)


@cache
def load_clusters() -> tuple[Cluster, ...]:
    """Every kind of node, in the file's order."""
    return _read("clusters.csv", Cluster)


@cache
def load_throughput() -> tuple[ThroughputRow, ...]:
    """Every measured throughput with its layout, in the file's order."""
    return _read("throughput.csv", ThroughputRow)


@cache
def load_held_out() -> tuple[HeldOutRow, ...]:
    """Every ThroughputRow by constants fitted without its source, in the order of the measured ones."""
    return _read("held_out.csv", HeldOutRow)


@cache
def load_layoutless() -> tuple[LayoutlessRow, ...]:
    """Every measured throughput without its layout, in the file's order."""
    return _read("layoutless.csv", LayoutlessRow)


@cache
def load_reliability() -> tuple[ReliabilityRow, ...]:
    """Every run or node whose failures or effective time are published, in the file's order."""
    return _read("reliability.csv", ReliabilityRow)


@cache
def load_scaling() -> tuple[ScalingRow, ...]:
    """Every point of the series without a layout: by series, ascending in accelerators."""
    return _read("scaling.csv", ScalingRow)


@cache
def load_published_runs() -> tuple[PublishedRun, ...]:
    """Every published run, in the file's order."""
    return _read("published_runs.csv", PublishedRun)


def _read(name: str, kind: type[Row]) -> tuple[Row, ...]:
    """The rows of one file; an empty cell is None, and text that is no such figure is refused."""
    text = (files("service.backtest") / "data" / name).read_text(encoding="utf-8")
    lines = csv.DictReader(text.splitlines(), strict=True)
    table = [{field: cell or None for field, cell in row.items()} for row in lines]
    return msgspec.convert(table, type=tuple[kind, ...], strict=False)  # type: ignore[valid-type]
