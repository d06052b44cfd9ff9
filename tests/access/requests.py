"""Every operation of the document as a request that could be answered: paths, bodies and queries filled in."""

from typing import Any

import httpx
from msgspec import Struct

from service.app import create_app, create_document
from service.settings import Settings

DOCUMENT = create_document()


class Operation(Struct, frozen=True):
    """One operation, and the scope that its handler asks for."""

    id: str
    method: str
    path: str
    scope: str
    document: dict[str, Any]


def _scopes() -> dict[str, str]:
    app: Any = create_app(Settings(auth="on"))
    return {
        handler.operation_id: handler.opt.get("scope", "none")
        for route in app.routes
        for handler in route.route_handlers
        if isinstance(handler.operation_id, str)
    }


_SCOPES = _scopes()
OPERATIONS = [
    Operation(document["operationId"], method.upper(), path, _SCOPES[document["operationId"]], document)
    for path, item in DOCUMENT["paths"].items()
    for method, document in item.items()
]

# What stands in a path, by operation's path and parameter; by parameter alone where it is the same everywhere.
PLACES: dict[str, str] = {
    "name": "thing",
    "number": "1",
    "revision_id": "1",
    "share_id": "1",
    "link": "x" * 43,
    "period": "2027-01-01..2027-02-01",
    "key_id": "abcdefghij12",
    "gpu_id": "h100-sxm-80gb",
    "model_id": "llama-3.1-70b",
    "code": "not-found",
}
RATE = {
    "kind": "accelerator",
    "accelerator_id": "h100-sxm-80gb",
    "provider": "aws",
    "purchase": "on_demand",
    "gpu_count": 8,
    "source": "a test",
    "price_per_gpu_hour": "2.00",
}
CSV = "kind,provider\naccelerator,aws\n"
# A body for each operation that takes one and whose document shows none.
BODIES: dict[str, Any] = {
    "createEstimate": {},
    "patchScenario": {"description": "changed by another"},
    "patchPriceTable": {"description": "changed by another"},
    "createPriceRevision": {"rates": [{**RATE, "price_per_gpu_hour": "9.99"}]},
    "rotateApiKey": {},
}
QUERIES: dict[str, dict[str, str]] = {"chooseRate": {"gpu": "h100-sxm-80gb", "gpu_count": "8"}}


async def ask(
    api: httpx.AsyncClient,
    operation: Operation,
    *,
    places: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    """Send it, with these things in its path."""
    path = operation.path
    for name, value in {**PLACES, **(places or {})}.items():
        path = path.replace(f"{{{name}}}", value)
    sent: dict[str, Any] = {"headers": dict(headers or {}), "params": QUERIES.get(operation.id, {})}
    content = operation.document.get("requestBody", {}).get("content", {})
    if "text/csv" in content:
        sent["content"] = CSV.encode()
        sent["headers"]["Content-Type"] = "text/csv"
    elif content:
        examples = [example["value"] for one in content.values() for example in one.get("examples", {}).values()]
        body = BODIES[operation.id] if operation.id in BODIES else examples[0]
        sent["json"] = body
    if "428" in operation.document["responses"]:
        sent["headers"].setdefault("If-Match", "*")
    return await api.request(operation.method, path, **sent)
