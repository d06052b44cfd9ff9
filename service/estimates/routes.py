"""GET and POST /v1/estimates: what a run will cost and when it will end."""

from litestar import Router, get, post
from litestar.di import NamedDependency, Provide
from litestar.middleware import DefineMiddleware
from litestar.params import JSONBody

from service.estimates.operations import classic_estimate, estimate
from service.estimates.schemas import ClassicQuery, EstimateRequest
from service.estimator.results import Estimate
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.requests import FastRequest, StrictBody, query_of
from service.http.responses import JSON
from service.http.straight import Straight

_EXAMPLES = {
    "classic_defaults": {"summary": "The classic calculator with its defaults: 27,950.00 USD", "value": {}},
    "seven_fields": {
        "summary": "The seven fields of the classic calculator: 821,700.00 USD",
        "value": {
            "cluster": {"gpu_count": 256},
            "work": {"kind": "gpu_hours", "hours": 500},
            "scaling": {"kind": "fixed", "efficiency_percent": 75},
            "rework": {"kind": "buffer", "rework_percent": 20},
            "price": {"kind": "hourly", "amount": "4.00"},
            "storage": {"kind": "fixed", "amount": "1500"},
            "egress": {"kind": "fixed", "amount": "1000"},
        },
    },
    "measured_scaling": {
        "summary": "A scaling efficiency fitted to three measurements of the same job",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 4096},
            "work": {"kind": "gpu_hours", "hours": 300},
            "scaling": {
                "kind": "measured",
                "points": [
                    {"gpu_count": 512, "tokens_per_second": 171268},
                    {"gpu_count": 2048, "tokens_per_second": 664274},
                    {"gpu_count": 2432, "tokens_per_second": 784333},
                ],
            },
        },
    },
    "budget_and_deadline": {
        "summary": "A price per node, an interconnect's band, a budget and a deadline",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512, "gpus_per_node": 8},
            "work": {"kind": "gpu_hours", "hours": 250000, "basis": "total"},
            "scaling": {"kind": "interconnect", "preset": "ib-ndr-400", "level": "typical"},
            "price": {"kind": "hourly", "amount": "22.40", "per": "node"},
            "start_at": "2027-01-04T09:00:00Z",
            "budget": {"amount": "1000000", "deadline": "2027-02-15T00:00:00Z"},
        },
    },
}


@get(
    "/",
    operation_id="getClassicEstimate",
    opt=About(query=ClassicQuery).as_opt(),
    dependencies={"asked": Provide(query_of(ClassicQuery), sync_to_thread=False)},
    sync_to_thread=False,
)
def get_classic_estimate(asked: NamedDependency[ClassicQuery]) -> JSON[Estimate]:
    """Estimate by the classic seven fields.

    A link that can be kept and shared: every field is optional and has the classic calculator's default.
    """
    return JSON(encoded(classic_estimate(asked)), headers=_CACHEABLE)


def _answer(request: EstimateRequest) -> bytes:
    return encoded(estimate(request))


@post(
    "/",
    middleware=[DefineMiddleware(Straight, kind=EstimateRequest, answer=_answer)],
    status_code=200,
    operation_id="createEstimate",
    opt=About(examples=_EXAMPLES).as_opt(),
    sync_to_thread=False,
)
def create_estimate(data: JSONBody[EstimateRequest]) -> JSON[Estimate]:
    """Estimate a run.

    Every section is optional; `{}` is the classic calculator. Nothing is stored. The same request gets the
    same bytes.
    """
    return JSON(_answer(data))


_CACHEABLE = ((b"cache-control", b"public, max-age=3600"),)

router = Router(
    "/v1/estimates",
    route_handlers=[get_classic_estimate, create_estimate],
    opt={"scope": "estimates:run", "rate": "estimates"},
    dto=StrictBody,
    request_class=FastRequest,
    tags=["Estimates"],
)
