"""A commitment as it is paid: its term whether used or not, what lies beyond it at another price."""

from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimates.operations import in_utc
from tests.support.asking import answer_bytes, refused, said
from tests.support.bills import CENT, a_run, amounts, answer_to, line_of, request_of, total

START = "2027-01-04T09:00:00Z"


def held(**changed: Any) -> dict[str, Any]:
    """544 GPUs for 90 days at 2.50, 3.90 beyond."""
    return {
        "kind": "commitment",
        "amount": "2.50",
        "gpu_count": 544,
        "term_hours": 2160,
        "overflow_amount": "3.90",
        **changed,
    }


def test_a_run_within_its_commitment_by_hand() -> None:
    # 512 GPUs for 80 days: 983,040 of 1,175,040 GPU-hours, 2,457,600 of 2,937,600; 192,000 are left idle.
    answer = answer_to(1920, 512, price=held())
    assert total(answer) == Decimal(2_457_600)
    assert answer["commitment"] == {
        "term_gpu_hours": 1_175_040,
        "term_cost": "2937600.00",
        "used_gpu_hours": 983_040,
        "used_cost": "2457600.00",
        "unused_gpu_hours": 192_000,
        "unused_cost": "480000.00",
        "overflow_gpu_hours": 0,
        "overflow_cost": "0.00",
        "run_ends_within_term": True,
        "break_even_utilisation_percent": pytest.approx(100 * 2.5 / 3.9, rel=1e-12),
    }


def test_the_whole_term_is_paid_where_the_run_bears_it() -> None:
    answer = answer_to(1920, 512, price=held(attribution="term"))
    assert amounts(answer)["commitment_unused"] == Decimal(480_000)
    assert total(answer) == Decimal(2_937_600)
    assert answer["cost"]["idle"] == "480000.00"


def test_beyond_the_term_the_run_costs_more() -> None:
    # 100 days: 512 GPUs x 240 h at 3.90 rather than 2.50.
    answer = answer_to(2400, 512, price=held())
    over = line_of(answer, "commitment_overflow")
    assert (over["quantity"], over["unit_price"], over["amount"]) == (122_880, "1.40", "172032.00")
    assert answer["commitment"]["overflow_cost"] == "479232.00"  # 122,880 x 3.90
    assert not answer["commitment"]["run_ends_within_term"]
    assert total(answer) == Decimal(512 * 2160) * Decimal("2.50") + Decimal(122_880) * Decimal("3.90")


def test_over_the_count_the_run_costs_more() -> None:
    # 600 GPUs for 100 days: 56 x 2,160 h over the count, and 600 x 240 h after the end.
    answer = answer_to(2400, 600, price=held())
    assert answer["commitment"]["overflow_gpu_hours"] == 56 * 2160 + 600 * 240


def test_upfront_payment_is_spread_over_the_term() -> None:
    # 8 GPUs, 1,000 h at 2.00 and 4,000 at once: 20,000 in all, 2.50 an hour.
    price = held(amount="2", gpu_count=8, term_hours=1000, upfront="4000")
    answer = answer_to(500, 8, price=price)
    assert line_of(answer, "compute")["unit_price"] == "2.50"
    assert total(answer) == Decimal(10_000)
    assert answer["commitment"]["term_cost"] == "20000.00"


def test_idle_hours_and_spare_nodes_use_the_commitment_too() -> None:
    # 8 GPUs and 8 spare ones for 100 h and 4 h of set-up: 1,664 GPU-hours.
    answer = answer_to(100, 8, price=held(), idle={"setup_hours": 4, "spare_nodes": 1})
    assert answer["commitment"]["used_gpu_hours"] == answer["expected_gpu_hours"] == 1664
    assert amounts(answer)["idle_setup"] == Decimal(16 * 4) * Decimal("2.50")
    assert amounts(answer)["idle_spares"] == Decimal(8 * 100) * Decimal("2.50")


def test_a_term_that_began_before_the_run_leaves_less() -> None:
    # It began 4 days before: 2,064 h are left, so that 36 h of 2,100 lie beyond it.
    answer = answer_to(2100, 512, price=held(term_start="2026-12-31T09:00:00Z"), start_at=START)
    assert said(answer, "price.term_left_hours")["value"] == 2064
    assert answer["commitment"]["overflow_gpu_hours"] == 512 * 36


@pytest.mark.parametrize("term_start", ["2027-01-05T00:00:00Z", "2026-01-04T09:00:00Z"])
def test_the_run_starts_within_the_term(term_start: str) -> None:
    fault = refused(a_run(price=held(term_start=term_start), start_at=START))
    assert fault.pointer == "/start_at"


def test_a_term_start_needs_the_start_of_the_run() -> None:
    assert refused(a_run(price=held(term_start=START))).pointer == "/price/term_start"


def test_what_lies_beyond_is_never_free() -> None:
    price = held()
    del price["overflow_amount"]
    assert refused(a_run(2400, 512, price=price)).pointer == "/price/overflow_amount"
    within = answer_to(1920, 512, price=price)["commitment"]
    assert within["overflow_cost"] == "0.00"  # nothing lies beyond, which is known
    assert within["break_even_utilisation_percent"] is None


def test_what_lies_beyond_in_some_draws_only_is_not_free_either() -> None:
    price = held()
    del price["overflow_amount"]
    spreads = {"scaling": {"kind": "triangular", "low_percent": 80, "high_percent": 100}}
    body = a_run(1920, 512, price=price, uncertainty={"samples": 1000, "spreads": spreads})
    assert refused(body).pointer == "/price/overflow_amount"
    assert answer_to(1600, 512, price=price, uncertainty={"samples": 1000, "spreads": spreads})["risk"]


def test_committed_capacity_is_no_spot_capacity() -> None:
    body = a_run(price=held(), rework={"kind": "failures", "spot": {}})
    assert refused(body).pointer == "/rework/spot"


def test_a_term_too_dear_to_write_down_is_refused() -> None:
    price = held(amount="999999999999", gpu_count=1_000_000, term_hours=1e6, overflow_amount="0")
    assert refused(a_run(1e-6, 1, price=price)).pointer == "/price"


@given(
    st.integers(1, 2000),
    st.integers(1, 2000),
    st.decimals("0.01", 3000, places=2),
    st.decimals("0.01", 3000, places=2),
    st.sampled_from(["used", "term"]),
    st.integers(0, 3),
)
def test_a_commitment_is_paid_once(
    count: int, committed: int, hours: Decimal, term: Decimal, attribution: str, spares: int
) -> None:
    price = held(
        gpu_count=committed, term_hours=float(term), upfront="1234.56", attribution=attribution, amount="2.337"
    )
    answer = answer_to(float(hours), count, price=price, idle={"setup_hours": 1.5, "spare_nodes": spares})
    use = answer["commitment"]
    assert use["used_gpu_hours"] + use["overflow_gpu_hours"] == pytest.approx(answer["expected_gpu_hours"], rel=1e-12)
    assert use["used_gpu_hours"] + use["unused_gpu_hours"] == pytest.approx(use["term_gpu_hours"], rel=1e-12)
    paid = Decimal(use["term_cost"]) if attribution == "term" else Decimal(use["used_cost"])
    lines = len(answer["cost"]["lines"])
    assert abs(total(answer) - paid - Decimal(use["overflow_cost"])) <= CENT * lines
    assert abs(Decimal(use["used_cost"]) + Decimal(use["unused_cost"]) - Decimal(use["term_cost"])) <= CENT
    assert sum(amounts(answer).values()) == total(answer)


def test_only_the_price_beyond_a_commitment_moves() -> None:
    spreads = {"price": {"kind": "triangular", "low_percent": 50, "high_percent": 150}}
    asked = {"samples": 1000, "spreads": spreads}
    within = answer_to(1920, 512, price=held(), uncertainty=asked)["risk"]["cost"]
    assert set(within.values()) == {"2457600.00"}
    beyond = answer_to(2400, 512, price=held(), uncertainty=asked)["risk"]["cost"]
    assert Decimal(beyond["p10"]) < Decimal(beyond["p50"]) < Decimal(beyond["p95"])
    assert Decimal(beyond["p10"]) > Decimal(512 * 2160) * Decimal("2.50")


def test_the_term_start_is_kept_in_utc() -> None:
    body = a_run(price=held(term_start="2026-12-31T23:00:00-10:00"), start_at="2027-01-04T11:00:00+02:00")
    same = a_run(price=held(term_start="2027-01-01T09:00:00Z"), start_at=START)
    assert in_utc(request_of(body)) == in_utc(request_of(same))
    assert repr(in_utc(request_of(body))) == repr(in_utc(request_of(same)))
    assert answer_bytes(body) == answer_bytes(same)


def test_a_term_start_outside_the_calendar_is_refused_where_it_stands() -> None:
    body = a_run(price=held(term_start="0001-01-01T00:00:00+14:00"), start_at=START)
    assert refused(body).pointer == "/price/term_start"


async def test_a_scenario_keeps_the_term_start_in_utc(api: httpx.AsyncClient) -> None:
    body = a_run(price=held(term_start="2026-12-31T23:00:00-10:00"), start_at=START)
    answer = await api.put("/v1/scenarios/committed", json={"request": body})
    assert answer.status_code == 201, answer.text
    stored = (await api.get("/v1/scenarios/committed")).json()
    assert stored["request"]["price"]["term_start"] == "2027-01-01T09:00:00Z"
    early = a_run(price=held(term_start="0001-01-01T00:00:00+14:00"), start_at=START)
    refusal = await api.put("/v1/scenarios/too-early", json={"request": early})
    assert refusal.status_code == 422
    assert [fault["pointer"] for fault in refusal.json()["errors"]] == ["/request/price/term_start"]
