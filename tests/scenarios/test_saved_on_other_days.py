"""A save that finds what is stored leaves no trace, also where only the day of the look at the prices is another."""

import datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.prices.rates import row
from tests.prices.stock import revise
from tests.support.bills import a_run

URL = "/v1/scenarios/nightly"
TIER = {"kind": "storage", "storage_class": "object_storage", "provider": "aws", "source": "a test", "tier_from_gb": 0}
READ: dict[str, Any] = a_run(
    price={"kind": "table", "table": "ours"},
    storage={"kind": "metered", "dataset_gb": 1000, "from_table": {"table": "ours", "provider": "aws"}},
)


def on(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    """From now on it is this day."""
    noon = datetime.datetime.fromisoformat(f"{day}T12:00:00+00:00")
    clock = SimpleNamespace(datetime=SimpleNamespace(now=lambda _: noon), UTC=datetime.UTC)
    monkeypatch.setattr("service.estimates.operations.datetime", clock)


def rates(amount: str, **fields: Any) -> list[dict[str, Any]]:
    return [row(amount, seen_on="2027-01-01", **fields), {**TIER, "price_per_gb_month": "0.1", "seen_on": "2027-01-02"}]


async def save(api: httpx.AsyncClient, request: dict[str, Any]) -> dict[str, Any]:
    headers = {"If-Match": "*"} if (await api.get(URL)).status_code == 200 else {}
    answer = await api.put(URL, json={"request": request}, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
async def stocked(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    assert (await stored_api.put("/v1/price-tables/ours", json={"currency": "USD"})).status_code == 201
    await revise(stored_api, "ours", *rates("2.00"))
    return stored_api


async def test_the_same_prices_on_another_day_make_no_revision_and_leave_it_approved(
    stocked: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, "2027-01-04")
    first = await save(stocked, READ)
    assert first["estimate"]["prices"]["price"]["age_days"] == 3
    approved = await stocked.post(f"{URL}/approve", headers={"If-Match": "*"})
    for day in ("2027-01-05", "2027-09-01"):  # by then the prices are old, and a note says so
        on(monkeypatch, day)
        again = await save(stocked, READ)
        assert (again["revision"], again["version"], again["status"]) == (1, 2, "approved")
        assert again["estimate"] == first["estimate"]
    assert (await stocked.get(URL)).headers["etag"] == approved.headers["etag"]


async def test_a_price_that_changes_with_the_day_makes_a_revision(
    stocked: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = row("3.00", seen_on="2027-01-01", valid_from="2027-02-01")
    await revise(stocked, "ours", *rates("2.00", valid_from="2027-01-01"), later)
    for day, number in (("2027-01-04", 1), ("2027-01-31", 1), ("2027-02-01", 2)):
        on(monkeypatch, day)
        assert (await save(stocked, READ))["revision"] == number


async def test_the_same_price_in_a_newer_revision_of_the_table_makes_a_revision(
    stocked: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, "2027-01-04")
    await save(stocked, READ)
    await revise(stocked, "ours", *rates("2.00"), row("1.00", accelerator_id="a100-sxm-80gb"))
    on(monkeypatch, "2027-01-05")
    assert (await save(stocked, READ))["revision"] == 2


async def test_a_day_that_is_asked_for_is_another_request(
    stocked: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, "2027-01-04")
    await save(stocked, READ)
    price = {**READ["price"], "as_of": "2027-01-04"}
    assert (await save(stocked, {**READ, "price": price}))["revision"] == 2


async def test_new_prices_that_are_saved_at_the_same_prices_make_no_revision(
    stocked: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, "2027-01-04")
    await save(stocked, READ)
    on(monkeypatch, "2027-01-05")
    saved = await stocked.post(f"{URL}/reprice", json={}, params={"save": "true"}, headers={"If-Match": "*"})
    assert (saved.status_code, saved.json()["saved"], saved.json()["saved_revision"]) == (200, False, None)
    assert saved.headers["etag"] == (await stocked.get(URL)).headers["etag"]
