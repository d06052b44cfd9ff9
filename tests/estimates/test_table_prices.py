"""The price of a table inside an estimate: one rate that answers, what it beat, which revision and day it was."""

import datetime
import json
from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimates import routes
from service.estimates.operations import estimate
from service.http.principal import DEFAULT_PROJECT_ID
from service.money import Money
from service.prices.default import default_as_of, load_default_rates, seed_default_table
from service.prices.lookup import DEFAULT_GPUS_PER_NODE, gpu_hour_cost
from service.prices.schemas import GpuRate
from tests.conftest import NewDatabase, client_of
from tests.prices.rates import asked, gpu, indexed, row
from tests.prices.stock import DAY, ESTIMATES, answered, by_table, refusal, revise, stock
from tests.support.asking import codes, said
from tests.support.bills import a_run, request_of
from tests.support.formulas import computed
from tests.support.tables import InMemory, answer_bytes, ask, list_prices, refused, table_of


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def used(answer: dict[str, Any]) -> dict[str, Any]:
    """What is said of the price that was read."""
    found: dict[str, Any] = answer["prices"]["price"]
    return found


def rate(answer: dict[str, Any]) -> tuple[str, str]:
    """Whose rate answered, and what it is."""
    found = used(answer)["rate"]
    return found["provider"], found["price_per_gpu_hour"]


# ------------------------------------------------------------------------------------------- over HTTP


async def test_a_cluster_is_priced_by_the_cheapest_provider_of_full_nodes(stocked_api: httpx.AsyncClient) -> None:
    answer = await answered(stocked_api, by_table(512))
    assert rate(answer) == ("lambda", "3.99")
    assert answer["cost"]["total"] == "204288.00"  # 512 x 100 x 3.99
    assert [(one["provider"], one["price_per_gpu_hour"]) for one in used(answer)["beaten"]] == [
        ("nebius", "4.50"),
        ("coreweave", "6.155"),
        ("aws", "6.88"),
        ("oci", "10.00"),
        ("gcp", "10.55"),
    ]
    assert used(answer)["candidate_count"] == 7
    assert all(one["gpu_count"] >= 8 for one in (used(answer)["rate"], *used(answer)["beaten"]))


async def test_the_revision_and_the_day_are_told(stocked_api: httpx.AsyncClient) -> None:
    answer = await answered(stocked_api, by_table(512))
    revision = used(answer)["revision"]
    assert revision.pop("revision_id") >= 1
    assert revision == {"table": "list-prices", "revision": 1, "currency": "USD", "as_of": DAY}
    told = said(answer, "price.amount")
    assert (told["value"], told["status"]) == ("3.99", "catalogue")
    assert told["source"] == (
        "list-prices, revision 1, on 2026-11-30: lambda (provider price page lambda.ai/instances)"
    )


async def test_marketplace_answers_only_when_it_is_asked_for(stocked_api: httpx.AsyncClient) -> None:
    assert rate(await answered(stocked_api, by_table(1))) == ("crusoe", "3.90")
    assert rate(await answered(stocked_api, by_table(1, purchase="marketplace"))) == ("vast", "2.4024")
    pointer, told = await refusal(stocked_api, by_table(512, purchase="marketplace"))
    assert pointer == "/cluster/gpu_count"
    assert "marketplace at vast (any region, 1 GPUs)" in told


async def test_spot_goes_with_its_jurisdiction(stocked_api: httpx.AsyncClient) -> None:
    anywhere = await answered(stocked_api, by_table(64, purchase="spot"))
    assert rate(anywhere) == ("azure", "2.271192")
    assert anywhere["cost"]["total"] == "14535.63"  # 6,400 x 2.271192 = 14,535.6288
    assert "spot_without_interruptions" in codes(anywhere)
    american = await answered(stocked_api, by_table(64, purchase="spot", jurisdiction="US"))
    assert used(american)["candidate_count"] == 1
    assert (await refusal(stocked_api, by_table(64, purchase="spot", jurisdiction="DE")))[0] == "/price/jurisdiction"


async def test_provider_and_region_narrow_the_question(stocked_api: httpx.AsyncClient) -> None:
    assert rate(await answered(stocked_api, by_table(provider="AWS"))) == ("aws", "6.88")
    assert rate(await answered(stocked_api, by_table(region="EASTUS"))) == ("azure", "12.29")


async def test_of_one_offer_the_newest_by_the_day_replaces_the_older(stocked_api: httpx.AsyncClient) -> None:
    older = await answered(stocked_api, by_table(1, provider="runpod", as_of="2026-11-08"))
    newer = await answered(stocked_api, by_table(1, provider="runpod", as_of="2026-11-09"))
    assert (rate(older)[1], rate(newer)[1]) == ("3.49", "3.99")
    assert used(newer)["candidate_count"] == 1


@pytest.mark.parametrize(
    ("changes", "pointer", "nearby"),
    [
        ({"price": {"kind": "table", "purchase": "reserved"}}, "/price/purchase", "on_demand at aws"),
        ({"price": {"kind": "table", "provider": "acme"}}, "/price/provider", "on_demand at aws"),
        ({"price": {"kind": "table", "region": "mars", "provider": "aws"}}, "/price/region", "us-east-1"),
        ({"price": {"kind": "table", "term_months": 12}}, "/price/term_months", "on_demand at aws"),
        ({"cluster": {"gpu": "mi355x", "gpu_count": 8}}, "/cluster/gpu", "It has mi300x-192gb"),
        ({"cluster": {"gpu": "H100"}}, "/cluster/gpu", "h100-nvl-94gb"),
        ({"cluster": {"gpu_count": 8}}, "/cluster/gpu", "GET /v1/gpus"),
        ({"price": {"kind": "table", "table": "nobody's"}}, "/price/table", "nobody's"),
        ({"price": {"kind": "table", "revision": 7}}, "/price/revision", "its newest is 1"),
    ],
)
async def test_where_there_is_none_the_problem_says_what_exists_nearby(
    stocked_api: httpx.AsyncClient, changes: dict[str, Any], pointer: str, nearby: str
) -> None:
    found, told = await refusal(stocked_api, {**by_table(8), **changes})
    assert found == pointer
    assert nearby in told


async def test_the_day_is_that_of_the_start_and_else_today(stocked_api: httpx.AsyncClient) -> None:
    body = a_run(gpu_count=8, price={"kind": "table"})
    before = today()
    now = used(await answered(stocked_api, body))["revision"]["as_of"]
    assert before <= now <= today()
    # In UTC the run starts a day earlier than its own clock says.
    started = await answered(stocked_api, {**body, "start_at": "2027-03-02T01:00:00+02:00"})
    assert used(started)["revision"]["as_of"] == "2027-03-01"


async def test_a_price_is_stale_from_ninety_days_on_and_says_so(stocked_api: httpx.AsyncClient) -> None:
    fresh = await answered(stocked_api, by_table(provider="aws", as_of="2026-12-22"))
    stale = await answered(stocked_api, by_table(provider="aws", as_of="2026-12-23"))
    assert (used(fresh)["age_days"], used(stale)["age_days"]) == (89, 90)
    assert "price_stale" not in codes(fresh)
    (note,) = (note for note in stale["notes"] if note["code"] == "price_stale")
    assert note["severity"] == "warning"
    assert "read 90 days before" in note["message"]


async def test_older_revisions_are_asked_for_by_number(stored_api: httpx.AsyncClient) -> None:
    await stock(stored_api, "ours", row("2.00"))
    for price in ("3.00", "4.00"):
        await revise(stored_api, "ours", row(price))
    for revision, expected in ((1, "2.00"), (2, "3.00"), (3, "4.00"), (None, "4.00")):
        asked_for = {} if revision is None else {"revision": revision}
        answer = await answered(stored_api, by_table(table="OURS", **asked_for))
        assert rate(answer)[1] == expected
        assert used(answer)["revision"]["revision"] == revision or 3
        assert used(answer)["revision"]["table"] == "ours"
    assert await refusal(stored_api, by_table(table="ours", revision=4)) == (
        "/price/revision",
        "Price table 'ours' has no revision 4: its newest is 3",
    )


async def test_a_table_that_is_gone_prices_nothing(stored_api: httpx.AsyncClient) -> None:
    await stock(stored_api, "ours", row("2.00"))
    assert (await stored_api.delete("/v1/price-tables/ours", headers={"If-Match": "*"})).status_code == 204
    assert (await refusal(stored_api, by_table(table="ours")))[0] == "/price/table"


async def test_a_table_without_a_revision_prices_nothing(stored_api: httpx.AsyncClient) -> None:
    assert (await stored_api.put("/v1/price-tables/empty", json={"currency": "USD"})).status_code == 201
    assert (await refusal(stored_api, by_table(table="empty")))[0] == "/price/table"


async def test_every_formula_of_an_explained_answer_computes(stocked_api: httpx.AsyncClient) -> None:
    body = by_table(64, purchase="spot", discount_percent=10, tax_percent=19)
    answer = await answered(stocked_api, body, explain=True)
    for found in answer["explanations"]:
        assert computed(found["substituted"]) == pytest.approx(found["result"], rel=1e-9, abs=1e-12), found


async def in_one_piece(app: Any, body: dict[str, Any]) -> bytes:
    """The answer to a body that comes in one piece, as from a socket."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    where = {"path": ESTIMATES, "raw_path": ESTIMATES.encode(), "root_path": "", "query_string": b""}
    headers = [(b"host", b"traincost.test"), (b"content-type", b"application/json")]
    peers = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
    await app({**scope, **where, **peers, "headers": headers, "state": {}}, receive, send)
    assert sent[0]["status"] == 200, sent
    return b"".join(message["body"] for message in sent[1:])


async def test_an_estimate_by_table_goes_straight_and_asks_no_database(
    new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database("sqlite")
    await seed_default_table(url)
    client = client_of(url)
    async with client as api:
        body = {**by_table(512), "start_at": "2027-01-04T09:00:00Z"}
        long = await api.post(ESTIMATES, json=body)
        snapshots = client.app.state.prices.snapshots

        def nobody(*_: object) -> None:
            raise AssertionError("it was to be answered without asking")

        monkeypatch.setattr(snapshots, "_watched", True)
        monkeypatch.setattr(snapshots, "_connected", nobody)
        monkeypatch.setattr(routes, "held_tables", nobody)
        assert await in_one_piece(client.app, body) == long.content


async def test_what_a_request_reads_stays_while_others_read_more(new_database: NewDatabase) -> None:
    client = client_of(new_database("sqlite"))
    async with client as api:
        for number in range(12):
            await stock(api, f"t{number}", row("2.00"))
            await revise(api, f"t{number}", row("3.00"))
        snapshots = client.app.state.prices.snapshots.of(DEFAULT_PROJECT_ID)
        first = await routes.held_tables(snapshots, request_of(by_table(table="t0", revision=1)))
        for number in range(1, 12):
            await routes.held_tables(snapshots, request_of(by_table(table=f"t{number}", revision=1)))
        assert snapshots.find("t0", 1) is None
        answer = estimate(request_of(by_table(table="t0", revision=1)), tables=first)
        assert str(answer.cost.total) == "1600.00"


# ------------------------------------------------------------------------------------------- in process


def test_discount_credits_and_tax_are_on_top() -> None:
    answer = ask(by_table(512, discount_percent=12.5, credits="5000", tax_percent=19), list_prices())
    assert answer["cost"]["list_total"] == "204288.00"
    assert answer["cost"]["net_total"] == "173752.00"  # less 25,536.00 and 5,000.00
    assert answer["cost"]["total"] == "206764.88"  # and 33,012.88


def reserved(upfront: str, **fields: Any) -> GpuRate:
    return gpu("1.00", purchase="reserved", upfront=Money(upfront), **fields)


def test_what_is_paid_at_once_is_spread_over_the_term() -> None:
    tables = table_of(reserved("70080", term_months=12), gpu("2.01", purchase="reserved", provider="monthly"))
    answer = ask(by_table(purchase="reserved"), tables)
    assert said(answer, "price.amount")["value"] == "2.00"  # 70,080 / (8 x 12 x 730) and 1.00
    assert answer["cost"]["total"] == "1600.00"
    found = used(answer)["rate"]
    assert (found["price_per_gpu_hour"], found["upfront"], found["term_months"]) == ("1.00", "70080.00", 12)
    assert [one["provider"] for one in used(answer)["beaten"]] == ["monthly"]


def test_a_price_is_rounded_once_in_the_line_and_not_before() -> None:
    # 1 + 1,000 / (8 x 730) = 1.171232876...: a million GPU-hours, where 1.171233 would be 12 cents more.
    answer = ask(by_table(1000, 1000, purchase="reserved"), table_of(reserved("1000", term_months=1)))
    assert said(answer, "price.amount")["value"] == "1.171233"
    assert answer["cost"]["total"] == "1171232.88"


def test_only_the_hours_of_the_run_are_billed_of_a_term_and_it_is_said() -> None:
    answer = ask(by_table(purchase="reserved"), table_of(reserved("140160", term_months=12, commitment="64 GPUs")))
    (note,) = (note for note in answer["notes"] if note["code"] == "price_is_committed")
    assert "a term of 12 months, 140160 paid at once, 64 GPUs" in note["message"]
    assert "price_is_committed" not in codes(ask(by_table(), table_of(gpu())))


def test_only_commitments_of_the_term_asked_for_answer() -> None:
    tables = table_of(
        gpu("2.00", purchase="reserved", term_months=36), gpu("3.00", purchase="reserved", term_months=12)
    )
    assert rate(ask(by_table(purchase="reserved"), tables))[1] == "2.00"
    assert rate(ask(by_table(purchase="reserved", term_months=12), tables))[1] == "3.00"


def test_an_unknown_price_is_no_price() -> None:
    assert refused(by_table(), table_of(gpu(None))).pointer == "/price/as_of"
    answer = ask(by_table(), table_of(gpu(None, provider="silent"), gpu("9.00")))
    assert answer["cost"]["total"] == "7200.00"


def test_a_price_of_nothing_is_one_that_is_meant() -> None:
    assert ask(by_table(), table_of(gpu("0", free=True)))["cost"]["total"] == "0.00"


def test_before_the_first_price_there_is_none() -> None:
    fault = refused(by_table(as_of="2026-06-30"), table_of(gpu("2.00", valid_from="2026-07-01")))
    assert fault.pointer == "/price/as_of"
    assert "from 2026-07-01" in fault.message


def test_without_the_service_there_are_no_tables() -> None:
    assert refused(by_table(), None).pointer == "/price/table"  # type: ignore[arg-type]  # as on a terminal


@pytest.mark.parametrize("purchase", ["on_demand", "reserved", "capacity_block"])
def test_capacity_that_is_not_spot_is_not_interrupted(purchase: str) -> None:
    rework = {"kind": "failures", "spot": {}}
    tables = table_of(gpu("5.00", purchase=purchase), gpu("2.00", purchase="spot"))
    assert refused({**by_table(purchase=purchase), "rework": rework}, tables).pointer == "/rework/spot"
    assert ask({**by_table(purchase="spot"), "rework": rework}, tables)["prices"]["price"] is not None


_DETAILED: dict[str, dict[str, Any]] = {
    "a transformer": {"work": {"kind": "transformer", "model": "llama-3-8b", "tokens": 1e11, "mfu_percent": 40}},
    "failures": {"rework": {"kind": "failures", "preset": "on_call"}},
    "uncertainty": {
        "uncertainty": {"samples": 2000, "seed": 3, "spreads": {"price": {"kind": "lognormal", "sigma": 0.2}}}
    },
    "a budget with confidence": {"budget": {"amount": "100000", "confidence_percent": 80}},
    "energy and idle hours": {"energy": {}, "idle": {"setup_hours": 4, "spare_nodes": 1}},
    "nothing else": {},
}


@pytest.mark.parametrize("sections", _DETAILED.values(), ids=_DETAILED)
def test_it_is_the_estimate_at_that_price_by_the_hour(sections: dict[str, Any]) -> None:
    terms = {"discount_percent": 5, "tax_percent": 19}
    tabled = ask({**by_table(64, **terms), **sections}, list_prices())
    hourly = ask(
        {**a_run(gpu_count=64, price={"kind": "hourly", "amount": "3.99", **terms}), **sections}, list_prices()
    )
    for section in hourly.keys() - {"assumptions", "notes"}:
        assert tabled[section] == hourly[section], section
    assert [one["field"] for one in tabled["assumptions"]] == [one["field"] for one in hourly["assumptions"]]
    assert codes(hourly) <= codes(tabled)


def test_the_price_of_a_table_is_certain_unless_a_spread_is_given() -> None:
    body = {**by_table(64), "uncertainty": {"samples": 1000, "seed": 1}}
    risk = ask(body, list_prices())["risk"]
    assert risk["cost"]["p10"] == risk["cost"]["p95"] == "25536.00"


def test_the_same_request_gets_the_same_bytes() -> None:
    body = by_table(512)
    other = InMemory().put("list-prices", reversed(load_default_rates()), "USD", default_as_of())
    assert answer_bytes(body, list_prices()) == answer_bytes(body, other)


# ------------------------------------------------------------------------------------------- laws

_PURCHASES = ("on_demand", "spot", "marketplace", "reserved")
_offers = st.builds(
    lambda price, size, purchase, provider, region: gpu(
        f"{price}.00", gpu_count=size, purchase=purchase, provider=provider, region=region
    ),
    st.integers(1, 9),
    st.sampled_from([None, 0.5, 1, 2, 4, 8, 16, 72]),
    st.sampled_from(_PURCHASES),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([None, "us", "eu"]),
)


@given(
    st.lists(_offers, min_size=1, max_size=12),
    st.integers(1, 600),
    st.sampled_from(_PURCHASES),
    st.sampled_from([None, "us", "mars"]),
)
def test_the_rate_that_answers_is_bought_so_large_enough_and_none_that_fits_as_well_is_cheaper(
    rates: list[GpuRate], gpu_count: int, purchase: str, region: str | None
) -> None:
    where: dict[str, Any] = {} if region is None else {"region": region}
    body = by_table(gpu_count, purchase=purchase, **where)
    fitting = [
        one
        for one in rates
        if one.purchase == purchase
        and (one.gpu_count is None or one.gpu_count >= min(gpu_count, DEFAULT_GPUS_PER_NODE))
        and (region is None or one.region in (None, region))
    ]
    tables = table_of(*rates)
    if not fitting:
        assert refused(body, tables).pointer.startswith(("/price/", "/cluster/"))
        return
    answer = ask(body, tables)

    def rank(one: GpuRate) -> tuple[bool, bool, Decimal]:
        whole = one.gpu_count is None or gpu_count % one.gpu_count == 0
        return region is not None and one.region is None, not whole, gpu_hour_cost(one)

    best = min(map(rank, fitting))
    assert Decimal(used(answer)["rate"]["price_per_gpu_hour"]) == best[2]
    assert Decimal(answer["cost"]["total"]) == best[2] * 100 * gpu_count
    assert used(answer)["candidate_count"] == len({(repr(one)) for one in fitting})


@given(st.lists(_offers, max_size=12), st.integers(1, 100), st.integers(1, 100), st.sampled_from([None, 1, 4, 8]))
def test_counts_that_no_offer_tells_apart_get_the_same_answer(
    rates: list[GpuRate], one: int, other: int, gpus_per_node: int | None
) -> None:
    index = indexed(*rates)
    first, second = (asked(gpu_count=count, gpus_per_node=gpus_per_node) for count in (one, other))
    told = [index.count_told_apart("h100-sxm-80gb", "on_demand", count, gpus_per_node) for count in (one, other)]
    if told[0] == told[1]:
        assert index.find_choice(first) == index.find_choice(second)


def test_where_offers_have_many_sizes_every_count_is_a_question_of_its_own() -> None:
    index = indexed(*(gpu(gpu_count=size) for size in range(1, 40)))
    assert index.count_told_apart("h100-sxm-80gb", "on_demand", 64, None) == 64


def test_an_answer_is_made_once_for_all_clusters_of_full_nodes() -> None:
    tables = table_of(gpu("2.00"))
    answers = [json.loads(answer_bytes(by_table(count), tables)) for count in (8, 16, 512)]
    assert [one["cost"]["total"] for one in answers] == ["1600.00", "3200.00", "102400.00"]
    held = tables.find("list-prices")
    assert held is not None
    assert len(held.index._told) == 1
