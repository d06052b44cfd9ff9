"""Cost, days and finish as distributions: seeded draws of named inputs, and what each does to the spread."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimates.detailed import detailed_facts
from service.estimator import uncertainty
from service.estimator.distribution import lognormal, stream
from tests.support.asking import answer_bytes, ask, codes
from tests.support.bills import a_run, answer_to, request_of, total

NAMES = ("throughput", "scaling", "overhead", "price", "failure_rate", "restart", "checkpoint", "spot_rate")
WIDE = {"kind": "triangular", "low_percent": 80, "high_percent": 125}
CERTAIN = {"kind": "certain"}


def drawn(spreads: dict[str, Any], seed: int = 0, samples: int = 1000) -> dict[str, Any]:
    return {"samples": samples, "seed": seed, "spreads": spreads}


def each(spread: dict[str, Any], *names: str) -> dict[str, Any]:
    """This spread for these inputs, and none for the others."""
    return {name: spread if name in names else CERTAIN for name in NAMES}


def everything(**changed: Any) -> dict[str, Any]:
    """A run in which every input can be off."""
    return {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 256},
        "work": {"kind": "transformer", "parameters": 8e9, "tokens": 1e12, "mfu_percent": 40},
        "scaling": {"kind": "fixed", "efficiency_percent": 90},
        "rework": {
            "kind": "failures",
            "spot": {
                "wait_hours": 1,
                "fallback_percent": 30,
                "interruptions_per_node_hour": 0.01,
                "on_demand_amount": "3",
            },
        },
        "price": {"kind": "hourly", "amount": "1.20"},
        "start_at": "2027-01-04T09:00:00Z",
        "uncertainty": drawn(each(WIDE, *NAMES), samples=4000),
        **changed,
    }


EXAMPLE: dict[str, Any] = {
    "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
    "work": {"kind": "transformer", "parameters": 70e9, "tokens": 2e12, "mfu_percent": 40, "overhead_percent": 0},
    "scaling": {"kind": "fixed", "efficiency_percent": 97},
    "rework": {
        "kind": "failures",
        "hardware": {"failures_per_node_day": 5e-3, "restart_minutes": 15},
        "checkpoint": {"seconds": 60},
        "instability_percent": 0,
        "people_percent": 0,
    },
    "price": {"kind": "hourly", "amount": "2.50"},
    "storage": {"kind": "fixed", "amount": "20000"},
    "egress": {"kind": "fixed", "amount": "2000"},
    "idle": {"setup_hours": 4},
    "uncertainty": drawn(
        {
            "throughput": {"kind": "triangular", "low_percent": 75, "high_percent": 120},  # MFU 30, 40, 48 %
            "scaling": {"kind": "triangular", "low_percent": 100 * 90 / 97, "high_percent": 100 * 100 / 97},
            "price": {"kind": "triangular", "low_percent": 80, "high_percent": 140},  # 2.00, 2.50, 3.50
            "failure_rate": {"kind": "lognormal", "sigma": 0.6},
            "restart": {"kind": "lognormal", "sigma": 0.6},
        },
        seed=12345,
        samples=200_000,
    ),
}


def test_a_70b_run_has_the_quantiles_of_a_simulation_of_its_own() -> None:
    # 200,000 draws of the same inputs through Daly's mean, by another program; its days are without the 4 h of set-up.
    risk = ask(EXAMPLE)["risk"]
    days = [value - 4 / 24 for value in risk["days"].values()]
    assert days == pytest.approx([23.53, 26.50, 29.13, 30.63, 31.81], rel=0.01)
    cost = [float(value) / 1e6 for value in risk["cost"].values()]
    assert cost == pytest.approx([1.458, 1.764, 2.017, 2.159, 2.282], rel=0.01)
    shares = {share["input"]: share["percent"] for share in risk["variance_shares"]}
    assert shares["price"] == pytest.approx(58, abs=1.5)
    assert shares["throughput"] == pytest.approx(38, abs=1.5)
    assert shares["scaling"] == pytest.approx(2, abs=1)
    assert shares["failure_rate"] == pytest.approx(1, abs=1)
    assert shares["restart"] == pytest.approx(0.2, abs=0.3)
    assert list(shares)[:2] == ["price", "throughput"]


def test_chance_alone_is_the_spread_of_the_reliability_section() -> None:
    answer = ask({**EXAMPLE, "uncertainty": drawn(each(CERTAIN), seed=1, samples=200_000)})
    closed = answer["reliability"]["completion"]
    for percent in (50, 80, 90, 95):
        hours = 24 * answer["risk"]["days"][f"p{percent}_days"]
        assert hours == pytest.approx(closed[f"p{percent}_hours"], rel=2e-4)
    assert [share["input"] for share in answer["risk"]["variance_shares"]] == ["chance_of_failures"]
    assert "uncertainty_none" not in codes(answer)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    body = everything()
    assert answer_bytes(body) == answer_bytes(everything())
    other = {**body["uncertainty"], "seed": 1}
    assert ask(everything(uncertainty=other))["risk"]["cost"] != ask(body)["risk"]["cost"]


@pytest.mark.parametrize("name", NAMES)
def test_each_input_moves_what_it_should(name: str) -> None:
    still = ask(everything(uncertainty=drawn(each(CERTAIN))))["risk"]
    moved = ask(everything(uncertainty=drawn(each(WIDE, name))))["risk"]
    assert name in {share["input"] for share in moved["variance_shares"]}
    assert moved["cost"] != still["cost"]
    assert (moved["days"] == still["days"]) is (name == "price")


@pytest.mark.parametrize("added", NAMES)
def test_another_spread_leaves_the_draws_of_an_input_as_they_are(added: str) -> None:
    def factors(*names: str) -> dict[str, Any]:
        run = detailed_facts(request_of(everything(uncertainty=drawn(each(WIDE, *names)))))
        assert run.simulation is not None
        return uncertainty.simulate(run.plan, run.simulation).factors

    kept = "price" if added != "price" else "restart"
    alone, both = factors(kept), factors(kept, added)
    assert np.array_equal(alone[kept], both[kept])
    assert added in both
    assert not np.array_equal(both[kept], both[added])


def test_a_lognormal_price_is_its_own_quantiles() -> None:
    # 1,600 of GPU time; P10 and P90 of sigma 0.3 are e^(-+0.3845) of it.
    samples = 200_000
    answer = answer_to(uncertainty=drawn({"price": {"kind": "lognormal", "sigma": 0.3}}, samples=samples))
    draws = np.quantile(lognormal(stream(0, "price"), 1600.0, 0.3, samples), [0.1, 0.5, 0.9])
    shown = [float(answer["risk"]["cost"][key]) for key in ("p10", "p50", "p90")]
    assert shown == pytest.approx(list(draws), abs=0.005)
    assert shown == pytest.approx([1600 * math.exp(0.3 * z) for z in (-1.2815516, 0, 1.2815516)], rel=0.01)
    assert answer["risk"]["days"]["p10_days"] == answer["risk"]["days"]["p95_days"]
    assert answer["risk"]["variance_shares"] == [
        {"input": "price", "percent": pytest.approx(100), "spread": "lognormal, sigma 0.3: request"}
    ]


def test_what_was_given_has_no_spread_and_what_was_not_has_a_published_one() -> None:
    given_all = ask(everything(uncertainty={"samples": 1000}))
    shares = {share["input"] for share in given_all["risk"]["variance_shares"]}
    assert shares == {"overhead", "failure_rate", "restart", "checkpoint", "chance_of_failures"}
    nobody = ask(everything(uncertainty=drawn(each(CERTAIN))))
    assert {share["input"] for share in nobody["risk"]["variance_shares"]} == {"chance_of_failures"}


def test_a_price_that_nobody_gave_has_a_spread() -> None:
    body = a_run(uncertainty={"samples": 1000})
    assert not ask(body)["risk"]["variance_shares"]
    del body["price"]
    assert [share["input"] for share in ask(body)["risk"]["variance_shares"]] == ["price"]


def test_without_any_spread_every_quantile_is_the_total() -> None:
    # Lines of 3.30, 0.50 (exactly 0.495) and 0.01: their rounding is that of every draw.
    body = {
        "cluster": {"gpu_count": 3},
        "work": {"kind": "gpu_hours", "hours": 0.5},
        "scaling": {"kind": "fixed", "efficiency_percent": 85},
        "rework": {"kind": "buffer", "rework_percent": 15},
        "price": {"kind": "hourly", "amount": "1.87"},
        "storage": {"kind": "fixed", "amount": "0.005"},
        "egress": {"kind": "fixed", "amount": "0"},
        "uncertainty": {"samples": 1000},
        "budget": {"amount": "3.81"},
    }
    answer = ask(body)
    assert answer["cost"]["total"] == "3.81"
    assert set(answer["risk"]["cost"].values()) == {"3.81"}
    assert answer["risk"]["chance_over_budget_percent"] == 0
    assert ask({**body, "budget": {"amount": "3.80"}})["risk"]["chance_over_budget_percent"] == 100
    assert "uncertainty_none" in codes(answer)


money = st.decimals(0, 1000, places=3).map(str)


@given(
    st.integers(1, 500),
    st.floats(0.01, 5000),
    money,
    st.floats(1, 100),
    st.floats(0, 100),
    money,
    st.sampled_from(["USD", "JPY", "KWD"]),
    st.floats(0, 50),
)
@settings(max_examples=60)
def test_a_certain_run_has_one_cost_and_one_finish(
    count: int, hours: float, price: str, efficiency: float, rework: float, storage: str, currency: str, tax: float
) -> None:
    body = {
        "cluster": {"gpu_count": count},
        "work": {"kind": "gpu_hours", "hours": hours},
        "scaling": {"kind": "fixed", "efficiency_percent": efficiency},
        "rework": {"kind": "buffer", "rework_percent": rework},
        "price": {"kind": "hourly", "amount": price, "currency": currency, "tax_percent": tax, "credits": "10"},
        "storage": {"kind": "fixed", "amount": storage},
        "start_at": "2027-01-04T09:00:00Z",
        "uncertainty": {"samples": 1000},
    }
    answer = ask(body)
    assert set(answer["risk"]["cost"].values()) == {answer["cost"]["total"]}
    assert set(answer["risk"]["finish_at"].values()) == {answer["duration"]["finish_at"]}
    days = answer["duration"]["expected_wall_clock_days"]
    assert list(answer["risk"]["days"].values()) == pytest.approx([days] * 5, rel=1e-12)


@given(st.integers(0, 2**53 - 1), st.sampled_from(NAMES), st.floats(0, 1.5), st.floats(1, 100), st.floats(100, 300))
@settings(max_examples=40)
def test_quantiles_ascend_and_shares_are_percents(seed: int, name: str, sigma: float, low: float, high: float) -> None:
    spreads = each({"kind": "triangular", "low_percent": low, "high_percent": high}, *NAMES)
    spreads[name] = {"kind": "lognormal", "sigma": sigma}
    risk = ask(everything(uncertainty=drawn(spreads, seed)))["risk"]
    for values in (
        [Decimal(v) for v in risk["cost"].values()],
        [*risk["days"].values()],
        [*risk["finish_at"].values()],
    ):
        assert values == sorted(values)
    assert all(0 <= share["percent"] <= 100 for share in risk["variance_shares"])
    percents = [share["percent"] for share in risk["variance_shares"]]
    assert percents == sorted(percents, reverse=True)


def test_the_median_is_near_the_plan_where_spreads_are_even() -> None:
    spreads = each({"kind": "triangular", "low_percent": 95, "high_percent": 105}, *NAMES)
    answer = ask(everything(uncertainty=drawn(spreads, samples=20_000)))
    assert float(answer["risk"]["cost"]["p50"]) == pytest.approx(float(total(answer)), rel=0.01)


def test_finish_dates_are_the_days_after_the_start() -> None:
    risk = ask(everything(start_at="2027-01-01T00:00:00Z"))["risk"]
    assert risk["finish_at"]["p50"].startswith(f"2027-01-{int(risk['days']['p50_days']) + 1:02}")
    body = everything()
    del body["start_at"]
    assert ask(body)["risk"]["finish_at"] is None


@pytest.mark.parametrize("samples", [1000, 20_000, 200_000])
def test_draws_are_counted_as_asked(samples: int) -> None:
    assert answer_to(uncertainty=drawn({"price": WIDE}, samples=samples))["risk"]["samples"] == samples
