"""Figures as people gave them, or round; and amounts of another currency than the one that they were meant in."""

from decimal import Decimal
from typing import Any

import pytest

from tests.support.asking import a_transformer, ask, codes


def note(answer: dict[str, Any], code: str) -> str:
    (found,) = (one["message"] for one in answer["notes"] if one["code"] == code)
    return str(found)


@pytest.mark.parametrize("gpu_count", [64, 333, 512])
@pytest.mark.parametrize("percent", [35, 41.3, 59, 60])
def test_a_given_mfu_comes_back_as_it_was_given(gpu_count: int, percent: float) -> None:
    body = a_transformer(gpu_count, parameters=70e9, mfu_percent=percent, recompute="none")
    found = ask(body)["performance"]
    assert found["step_mfu_percent"] == found["step_hfu_percent"] == percent
    assert found["achieved_tflops_per_gpu"] == float(Decimal(str(percent)) * Decimal("9.894"))
    billed = a_transformer(gpu_count, parameters=70e9, mfu_percent=percent, mfu_kind="billed")
    assert ask(billed)["performance"]["billed_mfu_percent"] == percent


@pytest.mark.parametrize("percent", [41, 52, 57.3])
def test_a_given_hfu_comes_back_as_it_was_given(percent: float) -> None:
    found = ask(a_transformer(hfu_percent=percent, recompute="full"))["performance"]
    assert found["step_hfu_percent"] == percent
    assert found["step_mfu_percent"] < percent


def test_a_given_mfu_is_less_by_the_efficiency_beside_it() -> None:
    body = a_transformer(mfu_percent=60) | {"scaling": {"kind": "fixed", "efficiency_percent": 80}}
    assert ask(body)["performance"]["step_mfu_percent"] == 48


def test_a_low_efficiency_that_nobody_typed_is_told_round() -> None:
    communication = {"kind": "communication", "share_percent": 8, "gpu_count": 8}
    assert "is 58.9 %, below 70 %" in note(ask({"scaling": communication}), "scaling_efficiency_low")
    points = [{"gpu_count": 8, "tokens_per_second": 1000}, {"gpu_count": 16, "tokens_per_second": 1450}]
    told = note(ask({"scaling": {"kind": "measured", "points": points}}), "scaling_efficiency_low")
    assert "is 27.3 %, below 70 %" in told


def test_a_low_efficiency_is_told_as_it_was_typed() -> None:
    fixed = {"kind": "fixed", "efficiency_percent": 58.974358974359}
    assert "is 58.974358974359 %, below" in note(ask({"scaling": fixed}), "scaling_efficiency_low")
    assert "is 58.974358974359 %, below" in note(ask({"scaling": fixed, "idle": {}}), "scaling_efficiency_low")


@pytest.mark.parametrize("detailed", [{}, {"idle": {"setup_hours": 1}}])
def test_amounts_of_the_classic_calculator_in_another_currency_are_a_note(detailed: dict[str, Any]) -> None:
    price = {"kind": "hourly", "amount": "2", "currency": "EUR"}
    both = note(ask({"price": price, **detailed}), "default_amounts_unconverted")
    assert "storage 200, egress 150" in both
    assert "taken as EUR" in both
    egress = {"kind": "fixed", "amount": "150"}
    one = note(ask({"price": price, "egress": egress, **detailed}), "default_amounts_unconverted")
    assert "(storage 200)" in one
    storage = {"kind": "fixed", "amount": "200"}
    assert "default_amounts_unconverted" not in codes(
        ask({"price": price, "egress": egress, "storage": storage, **detailed})
    )
    assert "default_amounts_unconverted" not in codes(ask({"price": {"kind": "hourly", "amount": "2"}, **detailed}))
