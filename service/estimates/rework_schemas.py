"""Rework of a request by its causes: hardware, spot, training instability, people."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from service.money import Money

PresetName = Literal["hyperscale_automated", "on_call", "no_spares"]
DEFAULT_PRESET: PresetName = "on_call"
DEFAULT_WAIT_HOURS = 0.5

RestartMinutes = Annotated[
    float,
    Meta(ge=0, le=100_000, description="From the stop to the next step: found, replaced, loaded.", examples=[15.0]),
]


class HardwareFailures(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """How often nodes fail, and how long a restart takes. What is not said is the preset's."""

    failures_per_node_day: (
        Annotated[float, Meta(ge=0, le=1000, description="Failures of one node in a day.", examples=[0.005])]
        | UnsetType
    ) = UNSET
    node_mtbf_hours: (
        Annotated[
            float,
            Meta(
                ge=0.01,
                le=1e9,
                description="Mean time between failures of one node, instead of the rate.",
                examples=[4800.0],
            ),
        ]
        | UnsetType
    ) = UNSET
    software_failures_per_node_day: (
        Annotated[
            float,
            Meta(
                ge=0, le=1000, description="Stops by software and users, which grow with the job; 0 with a given rate."
            ),
        ]
        | UnsetType
    ) = UNSET
    new_cluster: Annotated[bool, Meta(description="In its first 30 days a cluster fails three times as often.")] = False
    restart_minutes: RestartMinutes | UnsetType = UNSET


class Checkpointing(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """How long a checkpoint stops the run, and how often. The interval is the optimal one unless it is given."""

    seconds: (
        Annotated[
            float, Meta(ge=0.001, le=1e6, description="Time that one checkpoint blocks the run.", examples=[60.0])
        ]
        | UnsetType
    ) = UNSET
    size_gb: (
        Annotated[
            float,
            Meta(
                ge=0.001,
                le=1e9,
                description="Its size, decimal GB; with a bandwidth, and derived from the model where it is left out.",
                examples=[988.0],
            ),
        ]
        | UnsetType
    ) = UNSET
    bandwidth_gb_s: (
        Annotated[float, Meta(ge=0.001, le=1e6, description="Speed at which it is written, in GB/s.", examples=[20.0])]
        | UnsetType
    ) = UNSET
    interval_minutes: (
        Annotated[float, Meta(ge=0.01, le=1e6, description="Work between checkpoints.", examples=[30.0])] | UnsetType
    ) = UNSET


class SpotInterruptions(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Interruptions of spot capacity. Those that fall back get on-demand nodes at once, for as long as spot capacity
    is away; the others wait, and the survivors with them."""

    interruptions_per_node_hour: (
        Annotated[float, Meta(ge=0, le=100, description="Of one node, in an hour.", examples=[0.02])] | UnsetType
    ) = UNSET
    wait_hours: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=10_000,
                description="Until capacity is back, for each interruption.",
                examples=[1.0],
                extra_json_schema={"default": DEFAULT_WAIT_HOURS},
            ),
        ]
        | UnsetType
    ) = UNSET
    survivors_billed: Annotated[bool, Meta(description="The other nodes are billed while they wait.")] = True
    fallback_percent: Annotated[
        float, Meta(ge=0, le=100, description="Interruptions that fall back to on-demand nodes.", examples=[40.0])
    ] = 0.0
    on_demand_amount: (
        Annotated[
            Money,
            Meta(description="On-demand price of a GPU-hour; needed where something falls back.", examples=["3.29"]),
        ]
        | UnsetType
    ) = UNSET
    restart_minutes: RestartMinutes | UnsetType = UNSET


class FailuresRework(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="failures", tag_field="kind"
):
    """Rework derived from what goes wrong, each cause a line of its own."""

    preset: Annotated[
        PresetName | UnsetType,
        Meta(
            extra_json_schema={"default": DEFAULT_PRESET},
            description="What is not said is as in this kind of operation: automated restarts as at hyperscalers, an "
            "operator on call, or no spare nodes and manual recovery.",
        ),
    ] = UNSET
    hardware: HardwareFailures | UnsetType = UNSET
    checkpoint: Checkpointing | UnsetType = UNSET
    spot: Annotated[SpotInterruptions | UnsetType, Meta(description="Given: the run is on spot capacity.")] = UNSET
    instability_percent: (
        Annotated[
            float,
            Meta(ge=0, le=1000, description="Work done again after loss spikes and roll-backs, percent of the work."),
        ]
        | UnsetType
    ) = UNSET
    people_percent: (
        Annotated[
            float,
            Meta(ge=0, le=1000, description="Work lost to bad settings and tuning crashes, percent of the work."),
        ]
        | UnsetType
    ) = UNSET
