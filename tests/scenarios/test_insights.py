"""Scenarios side by side, at other prices, and by calendar month, over HTTP."""

from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.conftest import client_of
from tests.prices.rates import row
from tests.scenarios.test_insight_diffs import FROM_TABLE, TABLE, by_field, price, put
from tests.support.bills import a_run
from tests.support.keys import bearer, code, make_key

COMPARISONS = "/v1/scenario-comparisons"
REPRICE = "/v1/scenarios/run/reprice"
PHASING = "/v1/scenarios/run/phasing"


async def compare(api: httpx.AsyncClient, *scenarios: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = await api.post(COMPARISONS, json={"scenarios": list(scenarios), **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# ------------------------------------------------------------------------------------------- side by side


async def test_scenarios_stand_beside_the_first(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "a", a_run(hours=100, amount="2"))
    await put(stored_api, "cheap", a_run(hours=100, amount="1"))
    await put(stored_api, "fast", a_run(hours=50, gpu_count=16, amount="3"))
    found = await compare(stored_api, {"name": "a"}, {"name": "cheap"}, {"name": "fast"})
    assert (found["baseline"], found["cheapest"], found["fastest"]) == ("a", ["cheap"], ["fast"])
    deltas = {one["name"]: (one["delta"], one["delta_percent"], one["dominated"]) for one in found["scenarios"]}
    assert deltas == {"a": ("0.00", 0.0, True), "cheap": ("-800.00", -50.0, False), "fast": ("800.00", 50.0, False)}


async def test_revisions_of_one_scenario_are_told_apart(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "run", a_run(amount="2"))
    await put(stored_api, "run", a_run(amount="3"))
    found = await compare(stored_api, {"name": "run", "revision": 1}, {"name": "run"})
    assert [one["name"] for one in found["scenarios"]] == ["run@1", "run@2"]
    twice = await stored_api.post(COMPARISONS, json={"scenarios": [{"name": "run"}, {"name": "run", "revision": 2}]})
    assert (twice.status_code, twice.json()["errors"][0]["pointer"]) == (422, "/scenarios/1")


async def test_another_currency_is_compared_at_the_rate_that_is_stated(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "dollars", a_run())
    await put(stored_api, "euros", a_run(price={"kind": "hourly", "amount": "2", "currency": "EUR"}))
    both = ({"name": "dollars"}, {"name": "euros"})
    rates = {"currency": "USD", "as_of": "2027-01-04", "rates": {"EUR": "1.10"}, "source": "treasury"}
    found = await compare(stored_api, *both, rates=rates)
    assert found["scenarios"][1]["comparable_total"] == "1760.00"
    assert found["cheapest"] == ["dollars"]
    bare = await compare(stored_api, *both)
    assert (bare["scenarios"][1]["delta"], bare["cheapest"]) == (None, None)
    wrong = await stored_api.post(COMPARISONS, json={"scenarios": list(both), "rates": {**rates, "currency": "GBP"}})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/rates/currency")


async def test_one_scenario_is_no_comparison(api: httpx.AsyncClient) -> None:
    answer = await api.post(COMPARISONS, json={"scenarios": [{"name": "a"}]})
    assert (answer.status_code, code(answer)) == (422, "invalid-body")


# ------------------------------------------------------------------------------------------- other prices


async def test_newest_prices_are_shown_and_nothing_is_stored(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    await put(stored_api, "run", a_run(price=FROM_TABLE))
    before = await stored_api.get("/v1/scenarios/run")
    await price(stored_api, "2.50")
    answer = await stored_api.post(REPRICE, json={})
    found = answer.json()
    assert (found["before"]["total"], found["total"], found["saved"]) == ("1600.00", "2000.00", False)
    assert by_field(found["attribution"]) == {"price": Decimal("400.00")}
    assert (await stored_api.get("/v1/scenarios/run")).content == before.content


async def test_a_revision_and_a_day_can_be_asked_for(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    await price(stored_api, "2.50")
    await put(stored_api, "run", a_run(price=FROM_TABLE))
    answer = await stored_api.post(REPRICE, json={"revision": 1}, params={"as_of": "2027-02-01"})
    used = answer.json()["estimate"]["prices"]["price"]["revision"]
    assert (used["revision"], used["as_of"], answer.json()["total"]) == (1, "2027-02-01", "1600.00")


async def test_saving_makes_a_revision_of_what_was_seen(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    pinned = {**FROM_TABLE, "revision": 1}
    await put(stored_api, "run", a_run(price=pinned), description="kept", labels={"team": "llm"})
    await price(stored_api, "2.50")
    etag = (await stored_api.get("/v1/scenarios/run")).headers["etag"]
    save = {"save": "true"}
    assert (await stored_api.post(REPRICE, json={}, params=save)).status_code == 428
    stale = await stored_api.post(REPRICE, json={}, params=save, headers={"If-Match": '"0-0"'})
    assert stale.status_code == 412
    saved = await stored_api.post(REPRICE, json={}, params=save, headers={"If-Match": etag})
    assert (saved.status_code, saved.json()["saved_revision"]) == (200, 2)
    now = await stored_api.get("/v1/scenarios/run")
    assert now.headers["etag"] == saved.headers["etag"] != etag
    stored = now.json()
    assert (stored["estimate"], stored["description"]) == (saved.json()["estimate"], "kept")
    assert (stored["request"]["price"]["revision"], stored["labels"]) == (2, {"team": "llm"})


async def test_looking_needs_no_right_to_write_and_saving_does(database_url: str) -> None:
    async with client_of(database_url, auth="on") as api:
        reader = bearer(await make_key(database_url, "scenarios:read"))
        await api.put("/v1/scenarios/run", json={"request": a_run()}, headers=bearer(await make_key(database_url)))
        assert (await api.post(REPRICE, json={}, headers=reader)).status_code == 200
        refused = await api.post(REPRICE, json={}, params={"save": "true"}, headers={**reader, "If-Match": "*"})
        assert (refused.status_code, code(refused)) == (403, "forbidden")
        assert "scenarios:write" in refused.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("body", "params", "pointer"),
    [
        ({"revision": 1}, {}, "/revision"),
        ({"table": "ours"}, {}, "/table"),
        ({}, {"as_of": "2027-01-04"}, "as_of"),
        ({"scenario_revision": 1}, {"save": "true"}, "/scenario_revision"),
    ],
)
async def test_prices_that_the_scenario_does_not_read_are_refused(
    api: httpx.AsyncClient, body: dict[str, Any], params: dict[str, str], pointer: str
) -> None:
    await put(api, "run", a_run())
    answer = await api.post(REPRICE, json=body, params=params)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


async def test_why_other_prices_are_saved_is_kept(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    await put(stored_api, "run", a_run(price=FROM_TABLE))
    for amount, body, note in (("2.50", {"note": "renewal"}, "renewal"), ("3.00", {}, "Revision 2 at other prices")):
        await price(stored_api, amount)
        saved = await stored_api.post(REPRICE, json=body, params={"save": "true"}, headers={"If-Match": "*"})
        assert saved.status_code == 200, saved.text
        number = saved.json()["saved_revision"]
        assert (await stored_api.get(f"/v1/scenarios/run/revisions/{number}")).json()["note"] == note
    unsaved = await stored_api.post(REPRICE, json={"note": "lost"})
    assert (unsaved.status_code, unsaved.json()["errors"][0]["pointer"]) == (422, "/note")


async def test_what_is_not_new_is_not_said_to_be_saved(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    await put(stored_api, "run", a_run(price=FROM_TABLE))
    before = await stored_api.get("/v1/scenarios/run")
    again = await stored_api.post(REPRICE, json={"note": "why"}, params={"save": "true"}, headers={"If-Match": "*"})
    assert (again.status_code, again.json()["saved"], again.json()["saved_revision"]) == (200, False, None)
    assert again.headers["etag"] == before.headers["etag"]
    assert (await stored_api.get("/v1/scenarios/run")).content == before.content
    await price(stored_api, "2.50")
    saved = await stored_api.post(REPRICE, json={}, params={"save": "true"}, headers={"If-Match": "*"})
    assert (saved.json()["saved"], saved.json()["saved_revision"]) == (True, 2)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"table": "euros"}, "/table"),
        ({"table": "euros", "revision": 1}, "/table"),
        (
            {"exchange": {"from_currency": "USD", "to_currency": "EUR", "rate": "0.9", "as_of": "2027-01-04"}},
            "/exchange",
        ),
    ],
)
async def test_a_currency_that_fits_no_more_is_blamed_on_what_chose_it(
    stored_api: httpx.AsyncClient, body: dict[str, Any], pointer: str
) -> None:
    tier: dict[str, Any] = {"kind": "storage", "storage_class": "object_storage", "provider": "aws", "source": "a test"}
    tier |= {"tier_from_gb": 0, "price_per_gb_month": "0.02"}
    for name, currency in (("ours", "USD"), ("euros", "EUR"), ("pounds", "GBP")):
        url = f"/v1/price-tables/{name}"
        await stored_api.put(url, json={"currency": currency})
        assert (await stored_api.post(f"{url}/revisions", json={"rates": [row("2.00"), tier]})).status_code == 201
    table = "ours"
    fields: dict[str, Any] = {}
    if pointer == "/exchange":
        table = "pounds"
        fields = {"exchange": {"from_currency": "GBP", "to_currency": "USD", "rate": "1.3", "as_of": "2027-01-04"}}
    storage = {"kind": "metered", "dataset_gb": 1000, "from_table": {"table": table, "provider": "aws"}}
    await put(stored_api, "run", a_run(price=FROM_TABLE, storage=storage, **fields))
    answer = await stored_api.post(REPRICE, json=body)
    (found,) = answer.json()["errors"]
    assert (answer.status_code, found["in"], found["pointer"]) == (422, "body", pointer)
    assert found["message"].startswith("In the scenario, at /storage/from_table/table: The table is in ")


@pytest.mark.parametrize(
    ("body", "params", "fault"),
    [
        ({"table": "nope"}, {}, ("body", "/table")),
        ({"table": "bare"}, {}, ("body", "/table")),  # it has rates, and none of this accelerator
        ({"revision": 99}, {}, ("body", "/revision")),
        ({}, {"as_of": "2025-03-01"}, ("query", "as_of")),
        ({"exchange": {"from_currency": "GBP", "to_currency": "EUR"}}, {}, ("body", "/exchange")),
        ({"exchange": {"from_currency": "USD", "to_currency": "USD"}}, {}, ("body", "/exchange/to_currency")),
    ],
)
async def test_prices_that_are_not_there_are_named_by_what_was_sent(
    stored_api: httpx.AsyncClient, body: dict[str, Any], params: dict[str, str], fault: tuple[str, str]
) -> None:
    await stored_api.put(TABLE, json={"currency": "USD"})
    await stored_api.post(f"{TABLE}/revisions", json={"rates": [row("2.00", valid_from="2026-01-01")]})
    await stored_api.put("/v1/price-tables/bare", json={"currency": "USD"})
    other = row("2.00", accelerator_id="a100-sxm-80gb")
    await stored_api.post("/v1/price-tables/bare/revisions", json={"rates": [other]})
    await put(stored_api, "run", a_run(price=FROM_TABLE))
    if "exchange" in body:
        body = {"exchange": {"rate": "0.9", "as_of": "2027-01-04", **body["exchange"]}}
    answer = await stored_api.post(REPRICE, json=body, params=params)
    (found,) = answer.json()["errors"]
    assert (answer.status_code, found["in"], found["pointer"]) == (422, *fault)


async def test_to_choose_the_prices_one_must_be_able_to_read_them(database_url: str) -> None:
    async with client_of(database_url, auth="on") as api:
        all_of_it = bearer(await make_key(database_url))
        for name in ("ours", "theirs"):
            url = f"/v1/price-tables/{name}"
            await api.put(url, json={"currency": "USD"}, headers=all_of_it)
            await api.post(f"{url}/revisions", json={"rates": [row("2.00")]}, headers=all_of_it)
        await api.put("/v1/scenarios/run", json={"request": a_run(price=FROM_TABLE)}, headers=all_of_it)
        reader = bearer(await make_key(database_url, "scenarios:read"))
        both = bearer(await make_key(database_url, "scenarios:read", "prices:read"))
        for body in ({"table": "theirs"}, {"revision": 1}):
            refused = await api.post(REPRICE, json=body, headers=reader)
            assert (refused.status_code, code(refused)) == (403, "forbidden")
            assert "prices:read" in refused.headers["www-authenticate"]
            assert (await api.post(REPRICE, json=body, headers=both)).status_code == 200
        assert (await api.post(REPRICE, json={}, headers=reader)).status_code == 200


# ------------------------------------------------------------------------------------------- months


async def test_months_add_up_to_the_total(stored_api: httpx.AsyncClient) -> None:
    storage = {"kind": "metered", "price_per_gb_month": "0.023", "dataset_gb": 40000, "dataset_hours": 4000}
    request = a_run(hours=1000, gpu_count=64, storage=storage, start_at="2027-01-20T00:00:00Z")
    await put(stored_api, "run", request)
    found = (await stored_api.get(PHASING)).json()["phasing"]
    months = [month["month"] for month in found["months"]]
    assert months == ["2027-01", "2027-02", "2027-03", "2027-04", "2027-05", "2027-06", "2027-07"]
    assert sum(Decimal(month["amount"]) for month in found["months"]) == Decimal(found["total"])
    for line in found["lines"]:
        assert sum(map(Decimal, line["by_month"])) == Decimal(line["amount"])
    assert found["total"] == (await stored_api.get("/v1/scenarios/run")).json()["estimate"]["cost"]["total"]


async def test_the_planned_start_of_the_scenario_will_do(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "run", a_run())
    missing = await stored_api.get(PHASING)
    assert (missing.status_code, "planned_start" in missing.text) == (422, True)
    await put(stored_api, "run", a_run(), planned_start="2027-05-01T00:00:00Z")
    found = (await stored_api.get(PHASING)).json()["phasing"]
    assert [month["month"] for month in found["months"]] == ["2027-05"]


async def test_an_upfront_payment_falls_due_at_once_or_with_the_hours(stored_api: httpx.AsyncClient) -> None:
    term = {"kind": "commitment", "amount": "1", "gpu_count": 8, "term_hours": 2000, "upfront": "9000"}
    await put(stored_api, "run", a_run(hours=2000, price=term, start_at="2027-01-01T00:00:00Z"))
    paid, spread = [
        (await stored_api.get(PHASING, params={"basis": basis})).json()["phasing"] for basis in ("paid", "amortised")
    ]
    assert paid["total"] == spread["total"] == "25000.00"
    assert Decimal(paid["months"][0]["amount"]) > Decimal(spread["months"][0]["amount"])


async def test_a_rate_that_changes_is_spread_by_its_time(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    rates = [row("2.00"), row("4.00", valid_from="2027-02-01")]
    await stored_api.post(f"{TABLE}/revisions", json={"rates": rates})
    await put(stored_api, "run", a_run(hours=24 * 59, price=FROM_TABLE, start_at="2027-01-01T00:00:00Z"))
    found = (await stored_api.get(PHASING)).json()
    amounts = [Decimal(month["amount"]) for month in found["phasing"]["months"]]
    assert amounts == [Decimal(8 * 24 * 31 * 2), Decimal(8 * 24 * 28 * 4)]


async def test_a_malformed_precondition_is_refused_though_nothing_is_saved(api: httpx.AsyncClient) -> None:
    await put(api, "run", a_run())
    assert (await api.post(REPRICE, json={}, headers={"If-Match": "no tag"})).status_code == 400
