"""Tables over HTTP for tests that read them: made, revised, and a run whose price stands in one."""

from typing import Any

import httpx

from tests.support.bills import a_run

ESTIMATES = "/v1/estimates"
DAY = "2026-11-30"


async def stock(api: httpx.AsyncClient, name: str, *rates: dict[str, Any], currency: str = "USD") -> None:
    """A table and its first revision."""
    made = await api.put(f"/v1/price-tables/{name}", json={"currency": currency})
    assert made.status_code == 201, made.text
    await revise(api, name, *rates)


async def revise(api: httpx.AsyncClient, name: str, *rates: dict[str, Any]) -> None:
    """Another revision."""
    made = await api.post(f"/v1/price-tables/{name}/revisions", json={"rates": rates})
    assert made.status_code == 201, made.text


def by_table(gpu_count: int = 8, hours: float = 100, **price: Any) -> dict[str, Any]:
    """A run of nothing but GPU time, at the price of a table on a day of its own."""
    return a_run(hours, gpu_count, price={"kind": "table", "as_of": DAY, **price})


async def answered(api: httpx.AsyncClient, body: dict[str, Any], **query: Any) -> dict[str, Any]:
    """The answer over HTTP."""
    answer = await api.post(ESTIMATES, json=body, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def refusal(api: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, str]:
    """Where and why it is refused: the first fault's pointer, and the problem in words."""
    answer = await api.post(ESTIMATES, json=body)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    return problem["errors"][0]["pointer"], problem["detail"]
