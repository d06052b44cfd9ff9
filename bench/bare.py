"""What Litestar itself costs: it reads the same body into the same shape and sends an answer made before.

Everything is Litestar's ordinary way and nothing of this service's is used. Where the service has its own type
for money there are plain Decimals here, which msgspec reads by itself: the fastest ordinary reading of the
same body. No estimate is made.
"""

from decimal import Decimal

from litestar import Litestar, Response, post
from litestar.params import JSONBody
from msgspec import UNSET, Struct, UnsetType

from bench.traffic import usual_answer
from service.estimates.schemas import ClassicScaling, Cluster
from service.estimator.inputs import DEFAULT_WARN_PERCENT, BufferRework, Currency, GpuHoursWork, Instant, PricedPer


class HourlyPrice(Struct, frozen=True, forbid_unknown_fields=True, tag="hourly", tag_field="kind"):
    """As the service's, with a plain Decimal."""

    amount: Decimal
    currency: Currency | UnsetType = UNSET
    per: PricedPer | UnsetType = UNSET


class FixedAmount(Struct, frozen=True, forbid_unknown_fields=True, tag="fixed", tag_field="kind"):
    """As the service's storage and egress, with a plain Decimal."""

    amount: Decimal


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """As the service's, with a plain Decimal."""

    amount: Decimal | None = None
    deadline: Instant | None = None
    warn_percent: float = DEFAULT_WARN_PERCENT


class EstimateRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """As the service's, section by section."""

    cluster: Cluster | UnsetType = UNSET
    work: GpuHoursWork | UnsetType = UNSET
    scaling: ClassicScaling | UnsetType = UNSET
    rework: BufferRework | UnsetType = UNSET
    price: HourlyPrice | UnsetType = UNSET
    storage: FixedAmount | UnsetType = UNSET
    egress: FixedAmount | UnsetType = UNSET
    start_at: Instant | None = None
    budget: Budget | None = None


_ANSWER = usual_answer()


@post("/v1/estimates", status_code=200)
async def create_estimate(data: JSONBody[EstimateRequest]) -> Response[bytes]:
    """Read the request, answer with bytes."""
    return Response(_ANSWER, media_type="application/json")


app = Litestar([create_estimate], openapi_config=None, logging_config=None)
