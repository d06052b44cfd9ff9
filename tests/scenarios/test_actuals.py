"""What was paid, recorded by period: created, replaced, deleted and listed; and the forecast that follows from it."""

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.scenarios.test_insight_diffs import put
from tests.support.bills import a_run
from tests.support.keys import code

URL = "/v1/scenarios/run"
JANUARY, FEBRUARY = "2027-01-01..2027-02-01", "2027-02-01..2027-03-01"
FORECAST = f"{URL}/forecast"


@pytest.fixture
async def run(stored_api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The service with one run of 100 GPUs for 1000 hours from the first of January, and its budget."""
    request = a_run(hours=1000, gpu_count=100, start_at="2027-01-01T00:00:00Z")
    budget = {"amount": "210000", "deadline": "2027-02-14T00:00:00Z", "warn_percent": 90}
    await put(stored_api, "run", {**request, "budget": budget})
    return stored_api


async def pay(
    api: httpx.AsyncClient, period: str, amount: str = "160000", etag: str | None = None, **figures: Any
) -> httpx.Response:
    headers = {} if etag is None else {"If-Match": etag}
    return await api.put(f"{URL}/actuals/{period}", json={"amount": amount, **figures}, headers=headers)


# ------------------------------------------------------------------------------------------- records


async def test_a_period_is_recorded_and_read_back(run: httpx.AsyncClient) -> None:
    made = await pay(run, JANUARY, "160000.5", gpu_hours=74400, note="invoice 17")
    assert (made.status_code, made.headers["location"]) == (201, f"{URL}/actuals/{JANUARY}")
    read = await run.get(f"{URL}/actuals/{JANUARY}")
    assert (read.content, read.headers["etag"]) == (made.content, made.headers["etag"])
    kept = read.json()
    assert (kept["amount"], kept["currency"], kept["gpu_hours"], kept["tokens_done"]) == (
        "160000.50",
        "USD",
        74400,
        None,
    )
    again = await run.get(f"{URL}/actuals/{JANUARY}", headers={"If-None-Match": read.headers["etag"]})
    assert again.status_code == 304


async def test_a_record_is_replaced_only_by_whoever_has_seen_it(run: httpx.AsyncClient) -> None:
    made = await pay(run, JANUARY)
    assert (await pay(run, JANUARY, "1")).status_code == 428
    changed = await pay(run, JANUARY, "-12.50", etag=made.headers["etag"])
    assert (changed.status_code, changed.json()["amount"], changed.json()["version"]) == (200, "-12.50", 2)
    assert (await pay(run, JANUARY, "1", etag=made.headers["etag"])).status_code == 412


async def test_a_write_whose_answer_was_lost_is_sent_again_as_it_was(run: httpx.AsyncClient) -> None:
    figures: dict[str, Any] = {"gpu_hours": 74400, "productive_gpu_hours": 0.1, "note": "invoice 17"}
    made = await pay(run, JANUARY, **figures)
    again = await pay(run, JANUARY, "160000.00", **figures)
    assert (again.status_code, again.content, again.headers["etag"]) == (200, made.content, made.headers["etag"])
    changed = await pay(run, JANUARY, "1", etag=made.headers["etag"])
    retried = await pay(run, JANUARY, "1", etag=made.headers["etag"])
    assert (retried.status_code, retried.content, retried.headers["etag"]) == (
        200,
        changed.content,
        changed.headers["etag"],
    )
    for other in (await pay(run, JANUARY, "1", gpu_hours=0), await pay(run, JANUARY, "1", note="another")):
        assert other.status_code == 428
    log = (await run.get("/v1/audit-log", params={"kind": "actual"})).json()["items"]
    assert [line["action"] for line in log] == ["replaced", "created"]


async def test_who_only_creates_is_told_that_the_record_is_there(run: httpx.AsyncClient) -> None:
    await pay(run, JANUARY)
    refused = await run.put(f"{URL}/actuals/{JANUARY}", json={"amount": "160000"}, headers={"If-None-Match": "*"})
    assert refused.status_code == 412


async def test_to_what_is_archived_nothing_is_recorded(run: httpx.AsyncClient) -> None:
    made = await pay(run, JANUARY)
    await run.post(f"{URL}/archive", headers={"If-Match": "*"})
    seen = {"If-Match": made.headers["etag"]}
    file = "period_start,period_end,amount\n2027-02-01,2027-03-01,1\n"
    for refused in (
        await pay(run, FEBRUARY),
        await pay(run, JANUARY, "1", etag=made.headers["etag"]),
        await run.delete(f"{URL}/actuals/{JANUARY}", headers=seen),
        await run.post(f"{URL}/actuals/import", content=file, headers={"Content-Type": "text/csv"}),
    ):
        assert (refused.status_code, code(refused)) == (409, "conflict"), refused.text
        assert "'run' is archived: reopen it first" in refused.json()["detail"]
    assert (await run.get(f"{URL}/actuals/{JANUARY}")).content == made.content
    await run.post(f"{URL}/reopen", headers={"If-Match": "*"})
    assert (await pay(run, FEBRUARY)).status_code == 201


async def test_periods_do_not_overlap(run: httpx.AsyncClient) -> None:
    await pay(run, JANUARY)
    for other in (
        "2027-01-31..2027-02-15",
        "2026-12-01..2027-01-02",
        "2027-01-10..2027-01-11",
        "2026-01-01..2028-01-01",
    ):
        refused = await pay(run, other)
        assert (refused.status_code, JANUARY in refused.text) == (409, True), other
    assert (await pay(run, FEBRUARY)).status_code == 201


async def test_two_overlapping_periods_at_once_leave_one(run: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(pay(run, f"2027-01-{day:02}..2027-02-01") for day in range(1, 9)))
    assert sorted(answer.status_code for answer in answers) == [201, *[409] * 7]


async def test_a_deleted_record_leaves_its_period_free(run: httpx.AsyncClient) -> None:
    etag = (await pay(run, JANUARY)).headers["etag"]
    assert (await run.delete(f"{URL}/actuals/{JANUARY}")).status_code == 428
    assert (await run.delete(f"{URL}/actuals/{JANUARY}", headers={"If-Match": etag})).status_code == 204
    assert (await run.get(f"{URL}/actuals/{JANUARY}")).status_code == 404
    assert (await pay(run, JANUARY)).status_code == 201


async def test_records_are_listed_by_period(run: httpx.AsyncClient) -> None:
    for month in (3, 1, 2):
        await pay(run, f"2027-0{month}-01..2027-0{month + 1}-01")
    first = await run.get(f"{URL}/actuals", params={"limit": 2})
    rest = await run.get(f"{URL}/actuals", params={"limit": 2, "cursor": first.json()["next_cursor"]})
    starts = [item["period_start"] for page in (first, rest) for item in page.json()["items"]]
    assert starts == ["2027-01-01", "2027-02-01", "2027-03-01"]
    assert rest.json()["next_cursor"] is None


async def test_every_write_stands_in_the_audit_log(run: httpx.AsyncClient) -> None:
    etag = (await pay(run, JANUARY)).headers["etag"]
    etag = (await pay(run, JANUARY, "2", etag=etag)).headers["etag"]
    await run.delete(f"{URL}/actuals/{JANUARY}", headers={"If-Match": etag})
    log = (await run.get("/v1/audit-log", params={"kind": "actual"})).json()["items"]
    assert [line["action"] for line in log] == ["deleted", "replaced", "created"]
    assert {line["name"] for line in log} == {f"run/{JANUARY}"}


@pytest.mark.parametrize(
    ("period", "status"),
    [
        ("2027-01-01", 400),
        ("2027-1-01..2027-02-01", 400),
        ("2027-02-30..2027-03-01", 422),
        ("2027-02-01..2027-02-01", 422),
        ("2027-02-01..2027-01-01", 422),
    ],
)
async def test_what_is_no_period_is_refused(run: httpx.AsyncClient, period: str, status: int) -> None:
    answer = await pay(run, period)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (status, "period")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"amount": "1e3"},
        {"amount": "--1"},
        {"amount": "1\n"},
        {"amount": None},
        {"amount": True},
        {"amount": 1e13},
        {"amount": -1e13},
        {"amount": "1", "gpu_hours": -1},
        {"amount": "1", "note": "two\nlines"},
        {"amount": "1", "more": 1},
    ],
)
async def test_what_is_no_record_is_refused(api: httpx.AsyncClient, body: dict[str, Any]) -> None:
    await put(api, "run", a_run())
    answer = await api.put(f"{URL}/actuals/{JANUARY}", json=body)
    assert (answer.status_code, code(answer)) == (422, "invalid-body")


@pytest.mark.parametrize("amount", ["abc", "1,5", "--1", "+1", "1e3", "-", "1.", "-01"])
async def test_what_is_no_amount_is_told_that_a_refund_has_a_sign(api: httpx.AsyncClient, amount: str) -> None:
    await put(api, "run", a_run())
    answer = await pay(api, JANUARY, amount)
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["pointer"]) == (422, "/amount")
    assert 'such as "2.50", or "-2.50" for a refund' in fault["message"]
    assert "no sign" not in answer.text


async def test_an_amount_may_be_a_number(api: httpx.AsyncClient) -> None:
    await put(api, "run", a_run())
    for amount, kept in ((12.5, "12.50"), (-0.01, "-0.01"), (0, "0.00"), ("-0", "0.00"), (-3, "-3.00")):
        answer = await api.put(f"{URL}/actuals/{JANUARY}", json={"amount": amount}, headers={"If-None-Match": "x"})
        assert answer.status_code == 400
        made = await api.put(f"{URL}/actuals/{JANUARY}", json={"amount": amount})
        assert (made.status_code, made.json()["amount"]) == (201, kept)
        await api.delete(f"{URL}/actuals/{JANUARY}", headers={"If-Match": "*"})


async def test_a_scenario_that_is_not_there_has_no_records(api: httpx.AsyncClient) -> None:
    assert (await api.get("/v1/scenarios/none/actuals")).status_code == 404
    assert (await pay(api, JANUARY)).status_code == 404
    assert (await api.get("/v1/scenarios/none/forecast")).status_code == 404


# ------------------------------------------------------------------------------------------- the forecast


async def test_the_rest_goes_at_the_rate_and_the_price_that_were_seen(run: httpx.AsyncClient) -> None:
    await pay(run, JANUARY, "160000", gpu_hours=74400, productive_gpu_hours=70000)
    found = (await run.get(FORECAST, params={"as_of": "2027-02-01"})).json()
    variance, forecast = found["variance"], found["forecast"]
    effects = [variance[name] for name in ("price", "volume", "efficiency")]
    assert effects == ["11200.00", "-8800.00", "8800.00"]
    assert sum(map(Decimal, effects)) == Decimal(variance["difference"])
    # 30,000 of the work at 70,000 a 744 hours and 74,400 GPU-hours, each at 160,000 / 74,400.
    assert (forecast["remaining"], forecast["total"]) == ("68571.43", "228571.43")
    assert found["verdict"]["status"] == "exceeded"
    ends = [point["actual"] for point in found["burn_down"]["points"]]
    assert ends == ["0.00", "160000.00", None]


async def test_a_record_that_is_not_over_by_then_does_not_count(run: httpx.AsyncClient) -> None:
    await pay(run, JANUARY, "160000", gpu_hours=74400, productive_gpu_hours=70000)
    found = (await run.get(FORECAST, params={"as_of": "2027-01-31"})).json()
    assert (found["variance"]["actual"], found["forecast"]["total"]) == (None, None)


async def test_without_records_the_plan_is_the_forecast(run: httpx.AsyncClient) -> None:
    found = (await run.get(FORECAST, params={"as_of": "2027-01-01"})).json()
    assert (found["forecast"]["total"], found["verdict"]["status"]) == ("200000.00", "warn")


async def test_the_budget_of_the_scenario_is_judged_where_the_request_has_none(stored_api: httpx.AsyncClient) -> None:
    request = a_run(hours=1000, gpu_count=100)
    budget = {"amount": "150000", "currency": "USD"}
    await put(stored_api, "run", request, planned_start="2027-01-01T00:00:00Z", budget=budget)
    found = (await stored_api.get(FORECAST, params={"as_of": "2027-01-01"})).json()
    assert (found["verdict"]["status"], found["verdict"]["cost"]["headroom"]) == ("exceeded", "-50000.00")
    euros = {"amount": "150000", "currency": "EUR"}
    await put(stored_api, "run", request, planned_start="2027-01-01T00:00:00Z", budget=euros)
    other = (await stored_api.get(FORECAST, params={"as_of": "2027-01-01"})).json()
    assert (other["verdict"], [note["code"] for note in other["notes"]]) == (None, ["budget-currency"])


async def test_records_in_another_currency_are_not_added_up(run: httpx.AsyncClient) -> None:
    await pay(run, JANUARY)
    euros = {"kind": "hourly", "amount": "2", "currency": "EUR"}
    await put(run, "run", a_run(price=euros, start_at="2027-01-01T00:00:00Z"))
    refused = await run.get(FORECAST)
    assert (refused.status_code, "USD" in refused.text) == (422, True)


async def test_quantiles_follow_where_the_plan_has_them(stored_api: httpx.AsyncClient) -> None:
    request = a_run(hours=1000, gpu_count=64, start_at="2027-01-01T00:00:00Z", uncertainty={"samples": 1000})
    await put(stored_api, "run", request)
    await pay(stored_api, JANUARY, "100000", gpu_hours=47616, productive_gpu_hours=45000)
    found = (await stored_api.get(FORECAST, params={"as_of": "2027-02-01"})).json()["forecast"]
    quantiles = found["cost_quantiles"]
    assert Decimal(quantiles["p10"]) <= Decimal(found["total"]) <= Decimal(quantiles["p90"])
    assert found["finish_quantiles"]["p10"] <= found["finish_at"] <= found["finish_quantiles"]["p90"]


async def test_a_forecast_needs_a_start(api: httpx.AsyncClient) -> None:
    await put(api, "run", a_run())
    answer = await api.get(FORECAST)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "name")
