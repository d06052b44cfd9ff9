"""Rework derived from failures: each cause its line, exact means, best intervals, and the spread of chance alone."""

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimator.reliability import PRESETS
from tests.support.asking import ask, codes, refused, said
from tests.support.bills import a_run, amounts, answer_to, line_of, total

NOTHING_ELSE = {"instability_percent": 0, "people_percent": 0}


def failing(mtbf_hours: float, restart_minutes: float, seconds: float, **said_too: Any) -> dict[str, Any]:
    """Hardware failures alone, of nodes with this mean time between two."""
    checkpoint: dict[str, float] = {"seconds": seconds}
    if "interval_minutes" in said_too:
        checkpoint["interval_minutes"] = said_too.pop("interval_minutes")
    return {
        "kind": "failures",
        "hardware": {"node_mtbf_hours": mtbf_hours, "restart_minutes": restart_minutes},
        "checkpoint": checkpoint,
        **NOTHING_ELSE,
        **said_too,
    }


# W and M in hours, tau and R in minutes, delta in seconds; mean, then P50, P80, P90, P95: Daly 2006 (FGCS 22:303) in
# closed form, a simulation of 200,000 runs within 0.02 % of the means and 0.11 % of the quantiles.
CASES = {
    "A": (1200, 15, 20, 10, 2.781, 1364.147199507602, (1364.0317214, 1369.9196812, 1373.0631059, 1375.6932241)),
    "B": (
        720,
        60,
        120,
        20,
        28.846153846153847,
        766.2903683861646,
        (765.9628633, 770.1084770, 772.4670330, 774.5164304),
    ),
    "C": (
        240,
        60,
        120,
        20,
        461.53846153846155,
        248.4572060595037,
        (248.1996354, 248.7492120, 249.2484514, 249.7846967),
    ),
    "D": (200, 30, 60, 15, 4, 234.8355762916311, (234.6267193, 238.2991068, 240.3395997, 242.0883991)),
    "E": (2544, 180, 40, 60, 112, 2611.267290862816, (2610.3119910, 2621.7476700, 2628.2853435, 2633.9818522)),
    "F": (499.958, 9.14, 300, 10, 0.25, 2503.955205987047, (2503.6507208, 2537.3253701, 2555.1000703, 2569.8682159)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_mean_and_quantiles_are_those_of_the_literature(case: tuple[Any, ...]) -> None:
    work, interval, seconds, restart, mtbf, mean, quantiles = case
    answer = answer_to(work, 1, rework=failing(mtbf, restart, seconds, interval_minutes=interval))
    assert answer["duration"]["expected_wall_clock_hours"] == pytest.approx(mean, rel=1e-9)
    found = answer["reliability"]["completion"]
    assert [found[f"p{percent}_hours"] for percent in (50, 80, 90, 95)] == pytest.approx(quantiles, rel=1e-9)


@pytest.mark.parametrize(("case", "percent"), [("A", 13.7), ("B", 6.43), ("D", 17.4)])
def test_the_equivalent_percent_is_shown(case: str, percent: float) -> None:
    work, interval, seconds, restart, mtbf, mean, _ = CASES[case]
    shown = answer_to(work, 1, rework=failing(mtbf, restart, seconds, interval_minutes=interval))["reliability"]
    assert shown["equivalent_rework_percent"] == pytest.approx(percent, abs=0.05)
    assert shown["effective_training_time_percent"] == pytest.approx(100 * work / mean, rel=1e-9)


# Daly 2006: "117/57/9.1 min" for delta 5 min and M 24 h, 6 h and 15 min. In whole steps of 3.6 s here.
@pytest.mark.parametrize(("mtbf_hours", "minutes"), [(24, 116.690073), (6, 56.714002), (0.25, 9.166503)])
def test_the_interval_is_the_best_one(mtbf_hours: float, minutes: float) -> None:
    shown = answer_to(500, 1, rework=failing(mtbf_hours, 10, 300))["reliability"]
    assert shown["checkpoint_interval_minutes"] == pytest.approx(minutes, abs=0.03)
    assert shown["optimal_interval_minutes"] == shown["checkpoint_interval_minutes"]


def test_a_70b_run_by_hand() -> None:
    # 8.4e23 FLOPs at 40 % of 1,024 x 989.4e12: 575.7646 h. 128 nodes at 5 in 1,000 days: M 37.5 h; every 1.107 h a
    # minute, 15 min a restart: 597.2457 h. With 4 h of set-up 601.2457 h x 1,024 x 2.50, and 22,000.
    answer = ask(
        {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
            "work": {
                "kind": "transformer",
                "parameters": 70e9,
                "tokens": 2e12,
                "mfu_percent": 40,
                "overhead_percent": 0,
            },
            "rework": {
                "kind": "failures",
                "hardware": {"failures_per_node_day": 5e-3, "restart_minutes": 15},
                "checkpoint": {"seconds": 60},
                **NOTHING_ELSE,
            },
            "price": {"kind": "hourly", "amount": "2.50"},
            "storage": {"kind": "fixed", "amount": "20000"},
            "egress": {"kind": "fixed", "amount": "2000"},
            "idle": {"setup_hours": 4},
        }
    )
    assert answer["duration"]["wall_clock_hours"] == pytest.approx(575.7645626979314, rel=1e-9)
    assert answer["duration"]["expected_wall_clock_hours"] - 4 == pytest.approx(597.2457232367224, rel=1e-6)
    assert answer["reliability"]["checkpoint_interval_minutes"] / 60 == pytest.approx(1.10695059, abs=5e-4)
    assert total(answer) == pytest.approx(Decimal("1561189.05"), rel=Decimal("1e-6"))


def test_a_rate_and_a_mean_time_between_failures_are_the_same() -> None:
    # 24 h / 0.0065 a node-day.
    by_rate = failing(1, 20, 120)
    by_rate["hardware"] = {"failures_per_node_day": 6.5e-3, "restart_minutes": 20}
    both = [answer_to(720, 1024, rework=one)["reliability"] for one in (by_rate, failing(24 / 6.5e-3, 20, 120))]
    assert both[0]["mean_time_to_failure_hours"] == pytest.approx(28.846153846153847, rel=1e-12)
    assert both[0]["causes"] == both[1]["causes"]


def test_a_checkpoint_takes_its_size_by_its_bandwidth() -> None:
    # BLOOM: 2,300 GB in 40 s at 57.5 GB/s.
    rework = {"kind": "failures", "checkpoint": {"size_gb": 2300, "bandwidth_gb_s": 57.5}}
    assert answer_to(rework=rework)["reliability"]["checkpoint_seconds"] == pytest.approx(40, rel=1e-12)


def test_the_size_of_a_checkpoint_follows_from_the_model() -> None:
    # 14 bytes a parameter: 980 GB of 70e9; at 9.8 GB/s 100 s.
    answer = ask(
        {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
            "work": {"kind": "transformer", "parameters": 70e9, "tokens": 1e12, "mfu_percent": 40},
            "rework": {"kind": "failures", "checkpoint": {"bandwidth_gb_s": 9.8}},
        }
    )
    assert answer["reliability"]["checkpoint_seconds"] == pytest.approx(100, rel=1e-12)
    assert said(answer, "rework.checkpoint.size_gb")["status"] == "derived"


def test_each_cause_is_a_line_of_its_own() -> None:
    rework = {"kind": "failures", "spot": {}, "instability_percent": 4, "people_percent": 5}
    answer = answer_to(1000, 64, rework=rework)
    causes = {cause["cause"]: cause for cause in answer["reliability"]["causes"]}
    assert list(causes) == ["checkpoints", "hardware", "spot", "spot_wait", "instability", "people"]
    for name, cause in causes.items():
        billed = 56 if name == "spot_wait" else 64  # whichever node is awaited, seven are billed
        assert line_of(answer, f"rework_{name}")["quantity"] == pytest.approx(cause["hours"] * billed, rel=1e-12)
    assert (causes["instability"]["hours"], causes["people"]["hours"]) == (40, 50)
    lost = math.fsum(cause["hours"] for cause in causes.values())
    assert answer["duration"]["rework_hours"] == pytest.approx(lost, rel=1e-12)
    assert answer["duration"]["expected_wall_clock_hours"] == pytest.approx(1000 + lost, rel=1e-12)


def test_work_that_is_done_again_fails_like_any_other() -> None:
    # 3 % more work is 3 % more of everything that failures cost.
    plain = answer_to(1000, 64, rework=failing(500, 30, 60, interval_minutes=60))["duration"]
    more = answer_to(
        1000, 64, rework=failing(500, 30, 60, interval_minutes=60, instability_percent=1, people_percent=2)
    )
    assert more["duration"]["expected_wall_clock_hours"] == pytest.approx(
        1.03 * plain["expected_wall_clock_hours"], rel=1e-12
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_says_what_it_is_and_where_from(preset: str) -> None:
    answer = answer_to(1000, 1024, rework={"kind": "failures", "preset": preset})
    facts = PRESETS[preset]
    assert answer["reliability"]["restart_minutes"] == pytest.approx(60 * facts.restart_hours, rel=1e-12)
    assert answer["reliability"]["checkpoint_seconds"] == pytest.approx(facts.checkpoint_seconds, rel=1e-12)
    per_day = facts.failures_per_node_day + facts.software_failures_per_node_day
    assert answer["reliability"]["mean_time_to_failure_hours"] == pytest.approx(24 / per_day / 128, rel=1e-12)
    assert facts.source in next(note["message"] for note in answer["notes"] if note["code"] == "failures_preset")
    assert said(answer, "rework.hardware.restart_minutes")["source"] == facts.source


def test_a_new_cluster_fails_three_times_as_often_at_first() -> None:
    rework = failing(1000, 10, 60)
    new = {**rework, "hardware": {**rework["hardware"], "new_cluster": True}}
    settled, burning, longer = (
        answer_to(hours, 8, rework=one)["reliability"]["mean_time_to_failure_hours"]
        for hours, one in ((100, rework), (100, new), (1440, new))
    )
    assert (settled / burning, settled / longer) == pytest.approx((3, 2), rel=1e-12)


def test_nothing_fails_at_a_rate_of_nothing() -> None:
    rework = {**failing(1, 10, 60), "hardware": {"failures_per_node_day": 0}}
    answer = answer_to(100, 8, rework=rework)
    assert answer["reliability"]["mean_time_to_failure_hours"] is None
    assert answer["reliability"]["optimal_interval_minutes"] is None
    assert answer["duration"]["expected_wall_clock_hours"] == pytest.approx(100 + 1 / 60, rel=1e-12)
    assert "failures_none" in codes(answer)


def test_an_interval_far_from_the_best_is_noted() -> None:
    assert "checkpoint_interval" in codes(answer_to(500, 8, rework=failing(1000, 10, 60, interval_minutes=6000)))
    assert "checkpoint_interval" not in codes(answer_to(500, 8, rework=failing(1000, 10, 60)))


def test_an_interval_longer_than_the_run_is_the_run() -> None:
    answer = answer_to(5, 8, rework=failing(1000, 10, 60, interval_minutes=1e6))
    assert answer["reliability"]["checkpoint_interval_minutes"] == 300
    assert line_of(answer, "rework_checkpoints")["quantity"] == pytest.approx(8 / 60, rel=1e-12)


@pytest.mark.parametrize(
    ("rework", "pointer"),
    [
        ({"hardware": {"failures_per_node_day": 1, "node_mtbf_hours": 1}}, "/rework/hardware/node_mtbf_hours"),
        ({"checkpoint": {"seconds": 1, "size_gb": 1}}, "/rework/checkpoint/seconds"),
        ({"checkpoint": {"size_gb": 1}}, "/rework/checkpoint/bandwidth_gb_s"),
        ({"checkpoint": {"bandwidth_gb_s": 1}}, "/rework/checkpoint/size_gb"),
        ({"spot": {"fallback_percent": 1}}, "/rework/spot/on_demand_amount"),
        ({"hardware": {"node_mtbf_hours": 0.01}, "checkpoint": {"seconds": 1e6}}, "/rework/hardware/node_mtbf_hours"),
    ],
)
def test_contradictions_and_hopeless_runs_are_refused(rework: dict[str, Any], pointer: str) -> None:
    assert refused(a_run(1000, 8, amount="0", rework={"kind": "failures", **rework})).pointer == pointer


mtbfs = st.floats(50, 1e5)
seconds = st.floats(1, 300)
restarts = st.floats(0, 120)


@given(st.floats(1, 2000), st.integers(1, 64), mtbfs, restarts, seconds, st.floats(0.2, 5))
def test_no_interval_is_better_than_the_best(
    work: float, nodes: int, mtbf: float, restart: float, checkpoint: float, factor: float
) -> None:
    best = answer_to(work, 8 * nodes, rework=failing(mtbf, restart, checkpoint))
    minutes = max(0.01, min(1e6, best["reliability"]["checkpoint_interval_minutes"] * factor))
    other = answer_to(work, 8 * nodes, rework=failing(mtbf, restart, checkpoint, interval_minutes=minutes))
    hours = [one["duration"]["expected_wall_clock_hours"] for one in (best, other)]
    assert hours[0] <= hours[1] * (1 + 1e-4)  # the best one is in whole steps of 3.6 s
    assert hours[0] >= work


@given(
    st.floats(10, 2000),
    st.integers(1, 64),
    mtbfs,
    restarts,
    seconds,
    st.sampled_from(["nodes", "restart", "checkpoint", "rate"]),
    st.integers(2, 4),
)
def test_more_failures_longer_restarts_and_slower_checkpoints_cost_more(
    work: float, nodes: int, mtbf: float, restart: float, checkpoint: float, grown: str, factor: int
) -> None:
    more = {"nodes": nodes, "restart": restart, "checkpoint": checkpoint, "rate": 1 / mtbf}
    more[grown] *= factor
    now = answer_to(work, 8 * nodes, rework=failing(mtbf, restart, checkpoint))
    then = answer_to(
        work, int(8 * more["nodes"]), rework=failing(1 / more["rate"], more["restart"], more["checkpoint"])
    )
    ratios = [one["reliability"]["effective_training_time_percent"] for one in (now, then)]
    assert ratios[1] <= ratios[0] * (1 + 1e-4)
    if grown != "nodes":
        assert total(then) >= total(now) * Decimal("0.9999")
    for answer in (now, then):
        assert sum(amounts(answer).values()) == total(answer)


HOPELESS = {"hardware": {"node_mtbf_hours": 0.01}, "checkpoint": {"seconds": 1e6, "interval_minutes": 1e6}}
bounds = st.fixed_dictionaries(
    {
        "kind": st.just("failures"),
        "hardware": st.fixed_dictionaries(
            {"restart_minutes": st.sampled_from([0, 5e-324, 60, 100_000])},
            optional={"failures_per_node_day": st.sampled_from([0, 5e-324, 1e-9, 0.005, 1000])},
        ),
        "checkpoint": st.fixed_dictionaries(
            {"seconds": st.sampled_from([0.001, 60, 1e6])},
            optional={"interval_minutes": st.sampled_from([0.01, 60, 1e6])},
        ),
    },
    optional={
        "spot": st.fixed_dictionaries(
            {
                "interruptions_per_node_hour": st.sampled_from([0, 5e-324, 0.02, 100]),
                "wait_hours": st.sampled_from([0, 0.5, 10_000]),
                "fallback_percent": st.sampled_from([0, 40, 100]),
                "on_demand_amount": st.sampled_from(["0", "4", "999999999999"]),
            }
        ),
        "instability_percent": st.sampled_from([0, 1000]),
        "people_percent": st.sampled_from([0, 1000]),
    },
)


def numbers_in(value: Any) -> list[float]:
    """Every number of an answer."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers_in(part)]
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, float) else []


@given(
    bounds,
    st.sampled_from([1e-6, 1, 1000, 1e9]),
    st.sampled_from([1, 8, 1_000_000]),
    st.sampled_from(["0", "0.000001", "2"]),
    st.booleans(),
)
def test_the_bounds_of_every_field_are_answered_in_numbers_or_refused(
    rework: dict[str, Any], hours: float, count: int, price: str, uncertain: bool
) -> None:
    body = a_run(hours, count, price, rework=rework)
    if uncertain:
        wide = {"kind": "lognormal", "sigma": 3}
        body["uncertainty"] = {"samples": 1000, "spreads": {"failure_rate": wide, "restart": wide, "scaling": wide}}
    try:
        answer = ask(body)
    except BrokenRule as error:
        sections = {"rework", "cluster", "work", "price", "uncertainty"}
        assert {fault.pointer.split("/")[1] for fault in error.faults} <= sections
        return
    assert all(math.isfinite(number) for number in numbers_in(answer))
    assert sum(amounts(answer).values()) == total(answer) >= 0
    assert answer["duration"]["expected_wall_clock_hours"] >= answer["duration"]["wall_clock_hours"]


def test_a_run_that_never_ends_is_refused() -> None:
    fault = refused(a_run(1e6, 8, "0", rework={"kind": "failures", **HOPELESS}))
    assert fault.pointer == "/rework/hardware/node_mtbf_hours"
    assert fault.message.startswith("Less than 1 % of the time would be productive")
