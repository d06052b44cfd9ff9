"""Storage by size and time, egress by volume and tier, idle hours: each as it is metered."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import ask, codes, refused, said
from tests.support.bills import CENT, a_run, amounts, answer_to, line_of, total

# AWS's internet egress, list of 2026: 100 GB free, then to 10, 50 and 150 TB of 1,024 GB a month, then beyond.
INTERNET = [
    {"up_to_gb": 100, "price_per_gb": "0"},
    {"up_to_gb": 10_240, "price_per_gb": "0.09"},
    {"up_to_gb": 51_200, "price_per_gb": "0.085"},
    {"up_to_gb": 153_600, "price_per_gb": "0.07"},
    {"price_per_gb": "0.05"},
]


def stored(price: str = "0.023", **said_too: Any) -> dict[str, Any]:
    return {"kind": "metered", "price_per_gb_month": price, **said_too}


def out(tiers: list[dict[str, Any]] | None = None, **said_too: Any) -> dict[str, Any]:
    return {"kind": "metered", "tiers": INTERNET if tiers is None else tiers, **said_too}


@pytest.mark.parametrize(
    ("gb", "amount"), [(100, "0.00"), (10_000, "891.00"), (100_000, "7810.20"), (1_000_000, "53882.20")]
)
def test_egress_by_tier(gb: int, amount: str) -> None:
    assert answer_to(egress=out(exported_gb=gb))["cost"]["egress"] == amount


def test_each_tier_is_a_line() -> None:
    answer = answer_to(egress=out(dataset_gb=50_000, passes=2, route="inter_region"))
    shown = [line for line in answer["cost"]["lines"] if line["component"] == "egress"]
    assert [line["quantity"] for line in shown] == [100, 10_140, 40_960, 48_800]
    assert [line["unit_price"] for line in shown] == ["0.00", "0.09", "0.085", "0.07"]
    assert all("inter region" in line["description"] for line in shown)
    assert sum(amounts(answer).values()) == total(answer)


def test_the_volume_is_the_data_set_as_often_as_it_crosses_and_what_is_taken_out() -> None:
    # 20,000 GB three times and 2,300 GB at 0.02 a GB: 62,300 GB, 1,246.00.
    flat = [{"price_per_gb": "0.02"}]
    answer = answer_to(egress=out(flat, dataset_gb=20_000, passes=3, exported_gb=2300))
    assert said(answer, "egress.volume_gb")["value"] == 62_300
    assert answer["cost"]["egress"] == "1246.00"
    beside = answer_to(egress=out(flat, dataset_gb=20_000, passes=0))
    assert beside["cost"]["egress"] == "0.00"
    assert line_of(beside, "egress")["quantity"] == 1


def test_what_the_month_has_used_moves_up_the_tiers() -> None:
    answer = answer_to(egress=out(exported_gb=1000, used_gb=10_000))
    # 240 GB at 0.09, 760 at 0.085.
    assert answer["cost"]["egress"] == "86.20"


@pytest.mark.parametrize(
    ("tiers", "pointer"),
    [
        ([{"price_per_gb": "1"}, {"price_per_gb": "2"}], "/egress/tiers/0/up_to_gb"),
        ([{"up_to_gb": 10, "price_per_gb": "1"}, {"up_to_gb": 10, "price_per_gb": "2"}], "/egress/tiers/1/up_to_gb"),
        ([{"up_to_gb": 999, "price_per_gb": "1"}], "/egress/tiers/0/up_to_gb"),
    ],
)
def test_tiers_ascend_and_hold_the_volume(tiers: list[dict[str, Any]], pointer: str) -> None:
    assert refused(a_run(egress=out(tiers, exported_gb=1000))).pointer == pointer


def test_the_data_set_is_stored_for_the_run_or_as_long_as_is_said() -> None:
    # 73 h are a tenth of a month: 10,000 GB at 0.023 are 23.00.
    assert answer_to(73, storage=stored(dataset_gb=10_000))["cost"]["storage"] == "23.00"
    assert answer_to(73, storage=stored(dataset_gb=10_000, dataset_hours=730))["cost"]["storage"] == "230.00"


def test_storage_lasts_as_long_as_the_run_with_its_rework_and_set_up() -> None:
    answer = answer_to(
        60, rework={"kind": "buffer", "rework_percent": 20}, idle={"setup_hours": 1}, storage=stored(dataset_gb=10_000)
    )
    assert answer["cost"]["storage"] == "23.00"  # 60 + 12 + 1 h


def test_a_rolling_window_of_checkpoints() -> None:
    # 2,300 GB (BLOOM) every 3 h for 720 h, the last 3 kept: 237 live 9 h, the last three 6, 3 and 0 h.
    answer = answer_to(720, storage=stored(checkpoints={"size_gb": 2300, "every_hours": 3}))
    line = line_of(answer, "storage_checkpoints")
    assert line["quantity"] == pytest.approx(6748.767123287671, rel=1e-12)
    assert line["amount"] == "155.22"  # x 0.023


def test_archived_checkpoints_come_on_top() -> None:
    # Ten of 100 GB over 1,460 h, the last at its end: 9 + 8 + ... + 0 tenths of two months.
    answer = answer_to(1460, storage=stored(checkpoints={"size_gb": 100, "every_hours": 1, "keep": 0, "archived": 10}))
    assert line_of(answer, "storage_checkpoints")["quantity"] == pytest.approx(900, rel=1e-12)


def test_no_more_checkpoints_are_archived_than_are_written() -> None:
    few, many = (
        line_of(
            answer_to(146, storage=stored(checkpoints={"size_gb": 100, "every_hours": 73, "archived": archived})),
            "storage_checkpoints",
        )["quantity"]
        for archived in (2, 1_000_000)
    )
    assert few == many == pytest.approx(100 * 0.1 + 100 * 0.1, rel=1e-12)  # one of three, one of two, for 73 h
    rare = stored(checkpoints={"size_gb": 100, "every_hours": 1000, "archived": 5})
    assert total(answer_to(146, storage=rare)) == total(answer_to(146))


def test_size_and_interval_follow_from_the_model_and_the_rework() -> None:
    # 14 bytes of each of 70e9 parameters; as often as rework writes them.
    body: dict[str, Any] = {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
        "work": {"kind": "transformer", "parameters": 70e9, "tokens": 1e12, "mfu_percent": 40},
        "rework": {"kind": "failures", "checkpoint": {"seconds": 60, "interval_minutes": 60}},
        "storage": stored(checkpoints={}),
    }
    answer = ask(body)
    assert said(answer, "storage.checkpoints.size_gb")["value"] == 980
    stated = {**body, "storage": stored(checkpoints={"size_gb": 980, "every_hours": 1})}
    assert ask(stated)["cost"]["storage"] == answer["cost"]["storage"]


@pytest.mark.parametrize(
    ("storage", "pointer"),
    [
        (stored(checkpoints={"every_hours": 1}), "/storage/checkpoints/size_gb"),
        (stored(checkpoints={"size_gb": 1}), "/storage/checkpoints/every_hours"),
        (stored(filesystem_gb=1), "/storage/filesystem_price_per_gb_month"),
    ],
)
def test_what_nobody_can_derive_is_asked_for(storage: dict[str, Any], pointer: str) -> None:
    assert refused(a_run(storage=storage)).pointer == pointer


def test_a_shared_filesystem_has_a_price_of_its_own() -> None:
    answer = answer_to(73, storage=stored(filesystem_gb=100_000, filesystem_price_per_gb_month="0.145"))
    assert amounts(answer)["storage_filesystem"] == Decimal(1450)
    assert answer["cost"]["storage"] == "1450.00"


def test_set_up_hours_and_spare_nodes_are_billed_and_compute_nothing() -> None:
    # 64 GPUs and 16 spare ones, 100 h at 2: 80 x 4 h of set-up, 16 x 100 h of standing by.
    answer = answer_to(100, 64, idle={"setup_hours": 4, "spare_nodes": 2})
    assert amounts(answer)["idle_setup"] == Decimal(640)
    assert amounts(answer)["idle_spares"] == Decimal(3200)
    assert answer["cost"]["idle"] == "3840.00"
    assert answer["duration"]["expected_wall_clock_hours"] == 104
    assert answer["duration"]["setup_hours"] == 4
    assert answer["expected_gpu_hours"] == 80 * 104


def test_spare_nodes_stand_by_while_work_is_done_again() -> None:
    answer = answer_to(100, 64, rework={"kind": "buffer", "rework_percent": 10}, idle={"spare_nodes": 1})
    assert line_of(answer, "idle_spares")["quantity"] == 8 * 110


def test_a_billed_utilisation_holds_idle_hours_already() -> None:
    body = {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
        "work": {"kind": "transformer", "parameters": 70e9, "tokens": 1e12, "mfu_percent": 38, "mfu_kind": "billed"},
    }
    plain = ask(body)
    assert plain["cost"]["rework"] == plain["cost"]["idle"] == plain["cost"]["overhead"] == "0.00"
    assert plain["performance"]["billed_mfu_percent"] == pytest.approx(38, rel=1e-12)
    assert "billed_mfu_with_idle" in codes(ask({**body, "idle": {"setup_hours": 4}}))
    assert "billed_mfu_with_rework" in codes(ask({**body, "rework": {"kind": "buffer", "rework_percent": 5}}))


@given(st.decimals(0, 500_000, places=2), st.decimals(0, 500_000, places=2))
def test_a_month_in_parts_costs_what_it_costs_at_once(first: Decimal, second: Decimal) -> None:
    def cost(exported: Decimal, used: Decimal = Decimal(0)) -> Decimal:
        answer = answer_to(egress=out(exported_gb=float(exported), used_gb=float(used)))
        return Decimal(answer["cost"]["egress"])

    assert abs(cost(first) + cost(second, first) - cost(first + second)) <= CENT * 5


def test_an_interconnect_that_nobody_knows_is_refused_even_for_the_record() -> None:
    known = {"gpu_count": 8, "interconnect": "ib-ndr-400"}
    assert said(ask({"cluster": known}), "cluster.interconnect")["value"] == "ib-ndr-400"
    assert refused({"cluster": {**known, "interconnect": "carrier-pigeon"}}).pointer == "/cluster/interconnect"


def test_a_shared_filesystem_alone_needs_no_price_of_an_object_store() -> None:
    storage = {"kind": "metered", "filesystem_gb": 10_000, "filesystem_price_per_gb_month": "0.145"}
    answer = answer_to(730, storage=storage)
    assert answer["cost"]["storage"] == "1450.00"
    assert "storage" not in amounts(answer)
    assert "prices" not in answer
    assert sum(amounts(answer).values()) == total(answer)
    in_euros = {"from_currency": "EUR", "to_currency": "USD", "rate": "1.1", "as_of": "2026-11-02"}
    assert refused({**a_run(730, storage=storage), "exchange": in_euros}).pointer.startswith("/exchange")


@pytest.mark.parametrize("objects", [{"dataset_gb": 1}, {"checkpoints": {"size_gb": 1, "every_hours": 1}}, {}])
def test_an_object_store_that_is_used_needs_its_price(objects: dict[str, Any]) -> None:
    filesystem = {"filesystem_gb": 10_000, "filesystem_price_per_gb_month": "0.145"} if objects else {}
    body = a_run(730, storage={"kind": "metered", **filesystem, **objects})
    assert refused(body).pointer == "/storage/price_per_gb_month"


def test_egress_without_a_volume_is_not_free_without_a_word() -> None:
    assert "egress_volume_unknown" in codes(answer_to(egress=out()))
    assert "egress_volume_unknown" not in codes(answer_to(egress=out(exported_gb=1)))
    assert "egress_volume_unknown" not in codes(answer_to(egress=out(dataset_gb=20_000, passes=0)))
