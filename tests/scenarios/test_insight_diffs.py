"""Why a total changed, over HTTP: effects by kind and field that add up to the cent, whatever was edited."""

import random
from decimal import Decimal
from itertools import product
from typing import Any

import httpx
import pytest

from tests.prices.rates import row
from tests.support.bills import a_run

DIFFS = "/v1/scenario-diffs"
TABLE = "/v1/price-tables/ours"
FROM_TABLE = {"kind": "table", "table": "ours"}


async def put(api: httpx.AsyncClient, name: str, request: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Saved, over whatever has the name."""
    known = await api.get(f"/v1/scenarios/{name}")
    headers = {"If-Match": known.headers["etag"]} if known.status_code == 200 else {}
    answer = await api.put(f"/v1/scenarios/{name}", json={"request": request, **fields}, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    body: dict[str, Any] = answer.json()
    return body


async def price(api: httpx.AsyncClient, amount: str) -> None:
    """The newest revision of our table has this rate."""
    await api.put(TABLE, json={"currency": "USD"})
    answer = await api.post(f"{TABLE}/revisions", json={"rates": [row(amount)]})
    assert answer.status_code == 201, answer.text


async def diff(api: httpx.AsyncClient, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    answer = await api.post(DIFFS, json={"before": before, "after": after})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["attribution"]
    return found


def by_field(found: dict[str, Any]) -> dict[str, Decimal]:
    return {",".join(one["fields"]) or one["kind"]: Decimal(one["amount"]) for one in found["effects"]}


async def test_two_revisions_differ_by_each_field_that_was_changed(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "run", a_run(hours=100, gpu_count=8, amount="2"))
    await put(stored_api, "run", a_run(hours=100, gpu_count=16, amount="3"))
    found = await diff(stored_api, {"name": "run", "revision": 1}, {"name": "run"})
    assert (found["before"], found["after"], found["difference"]) == ("1600.00", "4800.00", "3200.00")
    assert by_field(found) == {"/cluster/gpu_count": Decimal("1600.00"), "/price/amount": Decimal("1600.00")}
    assert found["order"] == ["input", "price", "model", "currency"]


async def test_another_revision_of_a_price_table_is_an_effect_of_the_price(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    await put(stored_api, "run", a_run(price=FROM_TABLE))
    await price(stored_api, "3.00")
    await put(stored_api, "run", a_run(gpu_count=16, price=FROM_TABLE))
    await price(stored_api, "9.00")  # later prices move nothing that is stored
    found = await diff(stored_api, {"name": "run", "revision": 1}, {"name": "run", "revision": 2})
    assert by_field(found) == {"/cluster/gpu_count": Decimal("1600.00"), "price": Decimal("1600.00")}
    assert found["by_kind"]["price"] == "1600.00"
    assert not found["notes"]


async def test_a_typed_price_in_the_place_of_a_table_is_an_input(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    await put(stored_api, "a", a_run(amount="1"))
    await put(stored_api, "b", a_run(price=FROM_TABLE))
    found = await diff(stored_api, {"name": "a"}, {"name": "b"})
    assert by_field(found)["/price"] == Decimal("800.00")
    assert found["difference"] == "800.00"


async def test_another_rate_of_exchange_is_an_effect_of_the_currency(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    for name, rate in (("a", "0.90"), ("b", "1.00")):
        exchange = {"from_currency": "USD", "to_currency": "EUR", "rate": rate, "as_of": "2027-01-04"}
        storage = {"kind": "fixed", "amount": "0"}
        await put(stored_api, name, a_run(price=FROM_TABLE, storage=storage, exchange=exchange))
    found = await diff(stored_api, {"name": "a"}, {"name": "b"})
    assert (found["currency"], by_field(found)) == ("EUR", {"currency": Decimal("160.00")})


async def test_two_currencies_are_compared_at_the_rates_that_are_stated(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "dollars", a_run())
    euros = {"kind": "hourly", "amount": "2", "currency": "EUR"}
    await put(stored_api, "euros", a_run(price=euros))
    stated = {"currency": "USD", "as_of": "2027-01-04", "rates": {"EUR": "1.25"}, "source": "treasury"}
    found = await diff(stored_api, {"name": "dollars"}, {"name": "euros", "rates": stated})
    assert (found["difference"], by_field(found)) == (
        "400.00",
        {"/price/amount": Decimal("400.00"), "/price/currency": Decimal("0.00")},
    )
    assert found["notes"] == []
    later = {**stated, "rates": {"EUR": "1.50"}}
    moved = await diff(stored_api, {"name": "euros", "rates": stated}, {"name": "euros", "rates": later})
    assert by_field(moved) == {"currency": Decimal("400.00")}
    bare = await diff(stored_api, {"name": "dollars"}, {"name": "euros"})
    assert bare["effects"] is None
    assert [note["code"] for note in bare["notes"]] == ["currencies-differ"]


RATES = {"currency": "USD", "as_of": "2027-01-04", "rates": {"EUR": "1.08", "JPY": "0.0067"}, "source": "treasury"}


async def test_a_price_in_yen_is_an_input_at_what_it_is_worth(stored_api: httpx.AsyncClient) -> None:
    # 100,000 GPU-hours at $2.00, and at 300 yen, which are $2.01; storage of $100 is 100 yen later, which are 67 cents.
    storage = {"kind": "fixed", "amount": "100"}
    await put(stored_api, "dollars", a_run(hours=12500, storage=storage))
    yen = {"kind": "hourly", "amount": "300", "currency": "JPY"}
    await put(stored_api, "yen", a_run(hours=12500, price=yen, storage=storage))
    found = await diff(stored_api, {"name": "dollars"}, {"name": "yen", "rates": RATES})
    assert found["difference"] == "900.67"
    assert by_field(found) == {
        "/price/amount": Decimal("1000.00"),
        "/storage/amount": Decimal("-99.33"),
        "/price/currency": Decimal("0.00"),
    }
    assert [effect["kind"] for effect in found["effects"]] == ["input", "input", "currency"]
    back = await diff(stored_api, {"name": "yen"}, {"name": "dollars", "rates": RATES})
    assert sum(by_field(back).values()) == Decimal("-900.67")
    assert abs(Decimal(back["by_kind"]["currency"])) <= Decimal("0.01")  # yen have no cents


async def test_what_the_rates_moved_is_apart_from_what_the_price_did(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "dollars", a_run(amount="2.00"))
    await put(stored_api, "euros", a_run(price={"kind": "hourly", "amount": "1.80", "currency": "EUR"}))
    later = {**RATES, "rates": {"EUR": "1.20"}}
    found = await diff(stored_api, {"name": "dollars", "rates": RATES}, {"name": "euros", "rates": later})
    # 1.80 euros were $1.944 and are $2.16.
    assert by_field(found) == {
        "/price/amount": Decimal("-44.80"),
        "/price/currency": Decimal("0.00"),
        "currency": Decimal("172.80"),
    }
    assert found["by_kind"] == {
        "input": "-44.80",
        "price": "0.00",
        "model": "0.00",
        "currency": "172.80",
        "joint": "0.00",
    }


async def test_default_amounts_are_in_the_currency_of_the_price_too(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "dollars", {})
    await put(stored_api, "euros", {"price": {"kind": "hourly", "amount": "2.50", "currency": "EUR"}})
    found = await diff(stored_api, {"name": "dollars"}, {"name": "euros", "rates": RATES})
    assert by_field(found)["/storage/amount"] == Decimal("16.00")  # 200 euros, and not 200 dollars
    assert found["by_kind"]["currency"] == "0.00"


EXCHANGE = {"from_currency": "USD", "to_currency": "EUR", "rate": "0.90", "as_of": "2027-01-04"}


async def test_an_exchange_that_only_one_side_has_is_an_effect_of_the_currency(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    storage = {"kind": "fixed", "amount": "100"}
    await put(stored_api, "dollars", a_run(price=FROM_TABLE, storage=storage))
    await put(stored_api, "euros", a_run(price=FROM_TABLE, storage=storage, exchange=EXCHANGE))
    found = await diff(stored_api, {"name": "dollars"}, {"name": "euros", "rates": RATES})
    # The table's $1,600 became 1,440 euros, which are $1,555.20; 100 euros of storage are $108.
    assert by_field(found) == {"/storage/amount": Decimal("8.00"), "/exchange": Decimal("-44.80")}
    assert [effect["kind"] for effect in found["effects"]] == ["input", "currency"]
    assert found["notes"] == []


async def test_the_exchange_of_one_side_is_a_rate_for_both(stored_api: httpx.AsyncClient) -> None:
    await price(stored_api, "2.00")
    storage = {"kind": "fixed", "amount": "100"}
    euros = {"kind": "hourly", "amount": "1.50", "currency": "EUR"}
    await put(stored_api, "typed", a_run(price=euros, storage=storage))
    await put(stored_api, "read", a_run(price=FROM_TABLE, storage=storage, exchange=EXCHANGE))
    found = await diff(stored_api, {"name": "typed"}, {"name": "read"})
    assert by_field(found) == {"/price": Decimal("240.00"), "price": Decimal("0.00"), "/exchange": Decimal("0.00")}
    back = await diff(stored_api, {"name": "read"}, {"name": "typed"})
    assert by_field(back) == {"/price": Decimal("-240.00"), "price": Decimal("0.00"), "/exchange": Decimal("0.00")}


async def test_tiers_that_need_an_exchange_do_not_wait_for_it(stored_api: httpx.AsyncClient) -> None:
    storage = {"kind": "storage", "storage_class": "object_storage", "price_per_gb_month": "0.1"}
    tier = {**storage, "provider": "aws", "source": "a test", "tier_from_gb": 0}
    await stored_api.put(TABLE, json={"currency": "USD"})
    assert (await stored_api.post(f"{TABLE}/revisions", json={"rates": [tier]})).status_code == 201
    euros = {"kind": "hourly", "amount": "1", "currency": "EUR"}
    typed = {"kind": "metered", "dataset_gb": 1000, "price_per_gb_month": "0.08"}
    read = {"kind": "metered", "dataset_gb": 1000, "from_table": {"table": "ours", "provider": "aws"}}
    await put(stored_api, "typed", a_run(hours=730, price=euros, storage=typed))
    await put(stored_api, "read", a_run(hours=730, gpu_count=16, price=euros, storage=read, exchange=EXCHANGE))
    found = await diff(stored_api, {"name": "typed"}, {"name": "read"})
    assert by_field(found) == {
        "/cluster/gpu_count": Decimal("5840.00"),
        "/storage/from_table,/storage/price_per_gb_month": Decimal("10.00"),
        "price": Decimal("0.00"),
        "/exchange": Decimal("0.00"),
    }


@pytest.mark.parametrize(
    ("rates", "pointer"),
    [
        ({"currency": "USD", "as_of": "2027-01-04", "rates": {"EUR": "0"}}, "/before/rates/rates/EUR"),
        ({"currency": "GBP", "as_of": "2027-01-04", "rates": {"EUR": "1"}}, "/before/rates"),
    ],
)
async def test_rates_that_cannot_convert_are_refused(
    api: httpx.AsyncClient, rates: dict[str, Any], pointer: str
) -> None:
    await put(api, "a", a_run())
    answer = await api.post(DIFFS, json={"before": {"name": "a", "rates": rates}, "after": {"name": "a"}})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


async def test_what_is_not_there_is_named(stored_api: httpx.AsyncClient) -> None:
    await put(stored_api, "a", a_run())
    for after, pointer in (({"name": "b"}, "/after/name"), ({"name": "a", "revision": 7}, "/after/revision")):
        answer = await stored_api.post(DIFFS, json={"before": {"name": "a"}, "after": after})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (404, pointer)


def an_edit(random_: random.Random) -> dict[str, Any]:
    """Any request: sections by chance, each with figures and a currency by chance."""
    currency = random_.choice(["USD", "EUR", "JPY"])
    factor = {"USD": 1, "EUR": 0.93, "JPY": 149}[currency]
    kinds: list[dict[str, Any]] = [
        FROM_TABLE,
        {**FROM_TABLE, "revision": random_.choice([1, 2])},
        {**FROM_TABLE, "discount_percent": random_.choice([5, 12.5]), "tax_percent": 19},
        {"kind": "hourly", "amount": f"{factor * random_.uniform(1, 4):.3f}", "currency": currency},
        {
            "kind": "commitment",
            "amount": f"{factor * 1.95:.4f}",
            "gpu_count": 16,
            "term_hours": 300,
            "overflow_amount": f"{factor * 3.33:.2f}",
            "currency": currency,
        },
    ]
    request: dict[str, Any] = a_run(hours=random_.choice([33.3, 100, 720]), gpu_count=random_.choice([8, 64, 100]))
    request["price"] = random_.choice(kinds)
    if request["price"]["kind"] == "table" and currency != "USD":
        rate = f"{factor * random_.choice([0.98, 1.02]):.4f}"
        request["exchange"] = {**EXCHANGE, "to_currency": currency, "rate": rate}
    if random_.random() < 0.3:
        del request["storage"]  # the default, which is 200 of whatever currency
    if random_.random() < 0.5:
        request["rework"] = {"kind": "buffer", "rework_percent": random_.choice([7, 15.5])}
    if random_.random() < 0.3:
        preset = random_.choice(["no_spares", "hyperscale_automated", "on_call"])
        request["rework"] = {"kind": "failures", "preset": preset}
    if random_.random() < 0.4:
        request["storage"] = {"kind": "metered", "price_per_gb_month": "0.023", "dataset_gb": random_.randint(1, 9999)}
    if random_.random() < 0.4:
        request["idle"] = {"setup_hours": random_.randint(1, 9)}
    if random_.random() < 0.5:
        request["start_at"] = random_.choice(["2027-01-04T00:00:00Z", "2027-03-01T09:00:00+02:00"])
    if random_.random() < 0.3:
        request["scaling"] = {"kind": "fixed", "efficiency_percent": random_.choice([80, 91.7])}
    return request


@pytest.mark.parametrize("seed", range(6))
async def test_effects_of_any_edits_add_up_to_the_difference(stored_api: httpx.AsyncClient, seed: int) -> None:
    random_ = random.Random(seed)
    await price(stored_api, "2.123")
    await price(stored_api, f"{random_.uniform(2.2, 4):.3f}")
    edits: dict[int, dict[str, Any]] = {}
    while len(edits) < 5:
        edit = an_edit(random_)
        known = await stored_api.get("/v1/scenarios/any")
        headers = {"If-Match": known.headers["etag"]} if known.status_code == 200 else {}
        saved = await stored_api.put("/v1/scenarios/any", json={"request": edit}, headers=headers)
        assert saved.status_code in (200, 201), saved.text
        edits[saved.json()["revision"]] = edit
        if len(edits) == 3:
            await price(stored_api, f"{random_.uniform(1, 2):.3f}")
    later = {**RATES, "rates": {"EUR": "1.1234", "JPY": "0.0061"}}
    for (before, one), (after, other) in product(edits.items(), repeat=2):
        stated = random_.choice([RATES, later])
        sides = {"name": "any", "revision": before, "rates": RATES}, {"name": "any", "revision": after, "rates": stated}
        found = await diff(stored_api, *sides)
        effects = [Decimal(effect["amount"]) for effect in found["effects"]]
        difference = Decimal(found["after"]) - Decimal(found["before"])
        assert sum(effects, Decimal(0)) == Decimal(found["difference"]) == difference
        assert sum(map(Decimal, found["by_kind"].values()), Decimal(0)) == difference
        assert found["by_kind"]["model"] == "0.00"  # each side is met again to the cent
        if stated == RATES and "exchange" not in {**one, **other}:
            # At one rate on both sides a currency by itself moves nothing but the last digits of lines.
            assert abs(Decimal(found["by_kind"]["currency"])) < Decimal("0.10")


async def test_prices_of_storage_and_egress_are_prices_too(stored_api: httpx.AsyncClient) -> None:
    tiers = {"table": "ours", "provider": "aws"}
    request = a_run(
        hours=730,
        price={"kind": "hourly", "amount": "1"},
        storage={"kind": "metered", "from_table": tiers, "dataset_gb": 1000},
        egress={"kind": "metered", "from_table": tiers, "exported_gb": 100},
    )
    await stored_api.put(TABLE, json={"currency": "USD"})
    for name, factor in (("a", 1), ("b", 3)):
        at = {"provider": "aws", "source": "a test", "tier_from_gb": 0}
        storage = {"kind": "storage", "storage_class": "object_storage", "price_per_gb_month": f"0.{factor}", **at}
        egress = {"kind": "egress", "route": "internet", "price_per_gb": f"0.0{factor}", **at}
        revised = await stored_api.post(f"{TABLE}/revisions", json={"rates": [storage, egress]})
        assert revised.status_code == 201, revised.text
        await put(stored_api, name, request)
    found = await diff(stored_api, {"name": "a"}, {"name": "b"})
    assert by_field(found) == {"price": Decimal("202.00")}


async def test_a_contingency_is_a_part_of_the_difference(stored_api: httpx.AsyncClient) -> None:
    budget = {"amount": "9999", "confidence_percent": 80}
    work = {"kind": "transformer", "model": "llama-3-8b", "tokens": 1e11}
    request = {"cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 64}, "work": work}
    await put(stored_api, "run", request)
    await put(stored_api, "run", {**request, "budget": budget, "uncertainty": {"samples": 1000}})
    found = await diff(stored_api, {"name": "run", "revision": 1}, {"name": "run", "revision": 2})
    fields = by_field(found)
    assert sum(fields.values()) == Decimal(found["difference"]) > 0
    assert fields["/budget"] > 0
    assert found["by_kind"]["model"] == "0.00"


async def test_what_an_older_model_answered_is_said_to_be_its(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(api, "run", a_run())
    await put(api, "run", a_run(hours=200))
    monkeypatch.setattr("service.scenarios.differing.MODEL_VERSION", "999")
    found = await diff(api, {"name": "run", "revision": 1}, {"name": "run", "revision": 2})
    assert [note["code"] for note in found["notes"]] == ["model-not-rerun"]
    assert by_field(found) == {"/work/hours": Decimal("1600.00")}
