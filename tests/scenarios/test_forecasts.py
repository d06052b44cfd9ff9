"""What a forecast and a scenario say of the budget: of which figure, of whose budget, and when a run is over."""

from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.prices.rates import row
from tests.scenarios.test_insight_diffs import FROM_TABLE, TABLE, price, put
from tests.support.bills import a_run

URL = "/v1/scenarios/run"
FORECAST = f"{URL}/forecast"
START = "2027-01-01T00:00:00Z"
SEEN = {"If-Match": "*"}


async def pay(api: httpx.AsyncClient, period: str, amount: str, **figures: Any) -> None:
    answer = await api.put(f"{URL}/actuals/{period}", json={"amount": amount, **figures})
    assert answer.status_code == 201, answer.text


async def forecast(api: httpx.AsyncClient, as_of: str) -> dict[str, Any]:
    answer = await api.get(FORECAST, params={"as_of": as_of})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [note["code"] for note in found["notes"]]


# ------------------------------------------------------------------------------------------- the end of a run


async def test_a_run_that_is_over_stays_within_its_deadline(stored_api: httpx.AsyncClient) -> None:
    budget = {"amount": "210000", "deadline": "2027-02-15T00:00:00Z"}
    await put(stored_api, "run", a_run(hours=1000, gpu_count=100, start_at=START, budget=budget))
    await pay(stored_api, "2027-01-01..2027-02-12", "201000", gpu_hours=100000, productive_gpu_hours=100000)
    ended = await forecast(stored_api, "2027-02-12")
    await pay(stored_api, "2027-02-12..2027-03-01", "0", gpu_hours=0, productive_gpu_hours=0)
    await pay(stored_api, "2027-03-01..2027-04-01", "2300")
    for as_of, total in (("2027-02-12", "201000.00"), ("2027-03-01", "201000.00"), ("2027-04-01", "203300.00")):
        found = await forecast(stored_api, as_of)
        assert found["forecast"]["finish_at"] == "2027-02-12T00:00:00Z"
        assert (found["forecast"]["done_percent"], found["forecast"]["total"]) == (100, total)
        assert found["verdict"]["deadline"] == ended["verdict"]["deadline"]
        assert (found["verdict"]["status"], found["verdict"]["deadline"]["headroom_hours"]) == ("warn", 72)


# ------------------------------------------------------------------------------------------- at a quantile


def unsure(**budget: Any) -> dict[str, Any]:
    spreads = {"price": {"kind": "lognormal", "sigma": 0.2}, "scaling": {"kind": "triangular", "low_percent": 60}}
    uncertainty = {"samples": 2000, "spreads": {**spreads, "scaling": {**spreads["scaling"], "high_percent": 100}}}
    return a_run(hours=1000, gpu_count=64, start_at=START, uncertainty=uncertainty, budget=budget)


async def test_the_forecast_is_judged_on_the_quantile_that_the_budget_asks_for(stored_api: httpx.AsyncClient) -> None:
    deadline = "2027-02-20T00:00:00Z"
    await put(stored_api, "run", unsure(amount="150000", deadline=deadline, confidence_percent=80))
    await pay(stored_api, "2027-01-01..2027-01-11", "30720", gpu_hours=15360, productive_gpu_hours=15360)
    found = await forecast(stored_api, "2027-01-11")
    seen, verdict = found["forecast"], found["verdict"]
    assert (seen["confident_total"], seen["confident_finish_at"]) == (
        seen["cost_quantiles"]["p80"],
        seen["finish_quantiles"]["p80"],
    )
    assert Decimal(seen["total"]) < Decimal(seen["confident_total"])
    assert verdict["judged"] == "quantile"
    assert Decimal(verdict["cost"]["headroom"]) == 150000 - Decimal(seen["confident_total"])
    between = Decimal(seen["total"]) + (Decimal(seen["confident_total"]) - Decimal(seen["total"])) / 2
    await put(stored_api, "run", unsure(amount=str(round(between, 2)), deadline=deadline, confidence_percent=80))
    assert (await forecast(stored_api, "2027-01-11"))["verdict"]["cost"]["status"] == "exceeded"
    await put(stored_api, "run", unsure(amount=str(round(between, 2)), deadline=deadline))
    plain = (await forecast(stored_api, "2027-01-11"))["verdict"]
    assert (plain["judged"], plain["cost"]["status"]) == ("expected", "ok")


async def test_before_the_start_the_forecast_is_judged_as_the_estimate_is(stored_api: httpx.AsyncClient) -> None:
    asked = unsure(amount="150000", deadline="2027-02-20T00:00:00Z", confidence_percent=73)
    stored = (await put(stored_api, "run", asked))["estimate"]
    found = await forecast(stored_api, "2026-12-01")
    assert found["forecast"]["confident_total"] == stored["cost"]["total"]
    assert found["verdict"]["cost"] == stored["verdict"]["cost"]
    for name in ("headroom_hours", "used_percent"):  # the forecast's finish is one to the second
        assert found["verdict"]["deadline"][name] == pytest.approx(stored["verdict"]["deadline"][name], abs=1e-3)
    assert found["verdict"]["judged"] == stored["verdict"]["judged"] == "quantile"


async def test_without_a_confidence_there_is_no_such_figure(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "run", unsure(amount="150000"))
    found = (await forecast(stored_api, "2026-12-01"))["forecast"]
    assert (found["confident_total"], found["confident_finish_at"]) == (None, None)
    assert found["cost_quantiles"]


async def test_a_quantile_of_a_cost_that_nobody_knows_is_not_judged(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "run", unsure(amount="150000", deadline="2027-02-20T00:00:00Z", confidence_percent=80))
    await pay(stored_api, "2027-01-01..2027-01-11", "30720", productive_gpu_hours=15360)
    found = await forecast(stored_api, "2027-01-11")
    assert (found["verdict"]["judged"], found["verdict"]["cost"]) == ("quantile", None)
    assert found["verdict"]["deadline"]
    assert "not-judged" in codes(found)


# ------------------------------------------------------------------------------------------- whose budget


async def test_of_two_budgets_that_of_the_request_is_judged_and_it_says_so(stored_api: httpx.AsyncClient) -> None:
    request = a_run(hours=1000, gpu_count=100, start_at=START, budget={"amount": "210000"})
    await put(stored_api, "run", request, budget={"amount": "150000", "currency": "USD"})
    found = await forecast(stored_api, "2027-01-01")
    assert (found["verdict"]["status"], found["verdict"]["cost"]["amount"]) == ("warn", "210000.00")
    (note,) = (note for note in found["notes"] if note["code"] == "budget-of-request")
    assert "150000.00 USD" in note["message"]


async def test_a_scenario_is_judged_on_its_budget_without_any_date(stored_api: httpx.AsyncClient) -> None:
    made = await put(stored_api, "run", a_run(hours=1000, gpu_count=100))
    assert made["verdict"] is None
    for amount, status, used, headroom in (
        ("100000", "exceeded", 200, "-100000.00"),
        ("200000", "warn", 100, "0.00"),
        ("222222.23", "ok", 89.9999968500001, "22222.23"),
        ("0", "exceeded", None, "-200000.00"),
    ):
        budget = {"amount": amount, "currency": "USD"}
        changed = await stored_api.patch(URL, json={"budget": budget}, headers=SEEN)
        verdict = {"status": status, "judged": "total", "used_percent": used, "headroom": headroom}
        assert changed.json()["verdict"] == verdict
        assert (await stored_api.get(URL)).json()["verdict"] == verdict
        (listed,) = (await stored_api.get("/v1/scenarios")).json()["items"]
        assert listed["verdict"] == verdict
        assert changed.json()["estimate"] == made["estimate"]


async def test_a_budget_in_another_currency_is_not_judged(stored_api: httpx.AsyncClient) -> None:
    made = await put(stored_api, "run", a_run(), budget={"amount": "1", "currency": "EUR"})
    assert made["verdict"] is None
    assert (await stored_api.get("/v1/scenarios")).json()["items"][0]["verdict"] is None


async def test_the_estimate_s_own_verdict_is_that_of_a_scenario_with_the_same_budget(
    stored_api: httpx.AsyncClient,
) -> None:
    for amount in ("1500", "1600", "1777", "1778"):
        found = await put(
            stored_api, "run", a_run(budget={"amount": amount}), budget={"amount": amount, "currency": "USD"}
        )
        theirs = found["estimate"]["verdict"]["cost"]
        assert {name: found["verdict"][name] for name in ("status", "used_percent", "headroom")} == {
            name: theirs[name] for name in ("status", "used_percent", "headroom")
        }


# ------------------------------------------------------------------------------------------- what is missing


@pytest.mark.parametrize("path", ["forecast", "phasing"])
async def test_without_a_start_it_is_told_what_to_patch(stored_api: httpx.AsyncClient, path: str) -> None:
    await put(stored_api, "run", a_run())
    refused = await stored_api.get(f"{URL}/{path}")
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert (fault["in"], fault["pointer"]) == ("path", "name")
    assert '{"planned_start": "2027-01-01T00:00:00Z"}' in fault["message"]
    patched = await stored_api.patch(URL, json={"planned_start": START}, headers=SEEN)
    assert patched.status_code == 200
    assert (await stored_api.get(f"{URL}/{path}")).status_code == 200


async def test_where_the_rate_changes_the_mean_of_the_rates_is_named(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    await put(stored_api, "run", a_run(hours=24 * 59, price=FROM_TABLE, start_at=START))
    assert "mean-rate" not in codes(await forecast(stored_api, "2027-01-01"))
    rates = [row("2.00"), row("4.00", valid_from="2027-02-01")]
    await stored_api.post(f"{TABLE}/revisions", json={"rates": rates})
    await put(stored_api, "run", a_run(hours=24 * 59, price=FROM_TABLE, start_at=START))
    assert "mean-rate" in codes(await forecast(stored_api, "2027-01-01"))
