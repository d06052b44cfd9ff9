"""What a request says of uncertainty: how many draws, from which seed, and how far each input may be off."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

UncertainInput = Literal[
    "throughput", "scaling", "overhead", "price", "failure_rate", "restart", "checkpoint", "spot_rate"
]
DEFAULT_SAMPLES = 20_000


class TriangularSpread(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="triangular", tag_field="kind"
):
    """Between two bounds, most often as estimated."""

    low_percent: Annotated[
        float, Meta(ge=1, le=100, description="The least, in percent of the estimate.", examples=[75.0])
    ]
    high_percent: Annotated[
        float, Meta(ge=100, le=10_000, description="The most, in percent of the estimate.", examples=[120.0])
    ]


class LognormalSpread(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="lognormal", tag_field="kind"
):
    """Half the time above the estimate, half below, by a factor."""

    sigma: Annotated[float, Meta(ge=0, le=3, description="Standard deviation of the logarithm.", examples=[0.11])]


class CertainSpread(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, tag="certain", tag_field="kind"
):
    """Exactly as estimated."""


Spread = TriangularSpread | LognormalSpread | CertainSpread


class Spreads(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """How far each input may be off. An input that is left out has the spread of where it came from: none where it
    was given, a published one where it was predicted or a default. A spread of an input that the run does not have
    (failures of a typed rework percent, spot without spot) is not drawn, and a note says so."""

    throughput: Annotated[Spread | UnsetType, Meta(description="Utilisation, or tokens a second.")] = UNSET
    scaling: Annotated[Spread | UnsetType, Meta(description="Scaling efficiency.")] = UNSET
    overhead: Annotated[Spread | UnsetType, Meta(description="Evaluation, ramp-up and hangs.")] = UNSET
    price: Annotated[Spread | UnsetType, Meta(description="Price of a GPU-hour.")] = UNSET
    failure_rate: Annotated[Spread | UnsetType, Meta(description="Hardware and software failures.")] = UNSET
    restart: Annotated[Spread | UnsetType, Meta(description="Time of a restart.")] = UNSET
    checkpoint: Annotated[Spread | UnsetType, Meta(description="Time of a checkpoint.")] = UNSET
    spot_rate: Annotated[Spread | UnsetType, Meta(description="Interruptions of spot capacity.")] = UNSET


class Uncertainty(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Ask for the distribution of cost and time: a seeded simulation. The same request gets the same bytes."""

    samples: Annotated[int, Meta(ge=1000, le=200_000, description="Draws.", examples=[20000])] = DEFAULT_SAMPLES
    seed: Annotated[int, Meta(ge=0, le=2**53 - 1, description="Another seed gets other draws.")] = 0
    spreads: Spreads = Spreads()
