"""A table of another project prices no estimate and no scenario, whichever way the request goes."""

import httpx
import pytest

from tests.conftest import client_of
from tests.prices.rates import row
from tests.prices.stock import by_table, revise, stock
from tests.support.keys import bearer, make_key, make_project
from tests.support.server import Server

NAME = "contract-prices"


async def prepared(url: str) -> tuple[dict[str, str], dict[str, str]]:
    """Two projects' keys; only the first project has the table."""
    await make_project(url, "other")
    ours, theirs = bearer(await make_key(url)), bearer(await make_key(url, project="other"))
    async with client_of(url, auth="on") as api:
        api.headers.update(ours)
        await stock(api, NAME, row("2.00"))
        await revise(api, NAME, row("3.00"))
    return ours, theirs


@pytest.mark.parametrize("revision", [{}, {"revision": 1}], ids=["newest", "older"])
async def test_another_projects_table_is_none(database_url: str, revision: dict[str, int]) -> None:
    ours, theirs = await prepared(database_url)
    body = by_table(table=NAME, **revision)
    async with client_of(database_url, auth="on") as api:
        assert (await api.post("/v1/estimates", json=body, headers=ours)).status_code == 200
        refused = await api.post("/v1/estimates", json=body, headers=theirs)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"].startswith("/price/")
        stored = await api.put("/v1/scenarios/mine", json={"request": body}, headers=theirs)
        assert stored.status_code == 422


async def test_nor_is_it_on_the_straight_way(database_url: str) -> None:
    ours, theirs = await prepared(database_url)
    with Server(database_url, auth="on") as server:
        async with httpx.AsyncClient(base_url=server.base, trust_env=False) as api:
            for _ in range(2):  # the second time it is in memory
                priced = await api.post("/v1/estimates", json=by_table(table=NAME), headers=ours)
                assert priced.json()["prices"]["price"]["revision"]["table"] == NAME
                refused = await api.post("/v1/estimates", json=by_table(table=NAME), headers=theirs)
                assert refused.status_code == 422
