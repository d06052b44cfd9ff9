"""Spot capacity: interruptions, waiting with the survivors billed, falling back to on-demand, and whether it pays."""

from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import codes, refused, said
from tests.support.bills import a_run, amounts, answer_to, line_of, total

NODE = 8


def on_spot(rate: float, hardware: dict[str, float] | None = None, seconds: float = 120, **spot: Any) -> dict[str, Any]:
    """Spot interruptions at so many a node-hour; nothing else fails unless said."""
    return {
        "kind": "failures",
        "hardware": {"failures_per_node_day": 0, "restart_minutes": 20, **(hardware or {})},
        "checkpoint": {"seconds": seconds},
        "spot": {"interruptions_per_node_hour": rate, "restart_minutes": 15, "wait_hours": 0, **spot},
        "instability_percent": 0,
        "people_percent": 0,
    }


def offers(spot: str = "1", on_demand: str = "3") -> dict[str, Any]:
    return {"kind": "hourly", "amount": spot, "purchase": "spot", "alternatives": {"on_demand": on_demand}}


# 240 h, 2 min a checkpoint, 15 min a restart (20 after hardware, 6.5 a thousand node-days): hours on spot over hours on
# demand, each at its best interval, and 1 - 1/ratio, the discount from which on spot is cheaper.
@pytest.mark.parametrize(
    ("rate", "nodes", "ratio", "percent"),
    [
        (0.01, 1, 1.0248329, 2.423122),
        (0.1, 1, 1.1091982, 9.844788),
        (0.44, 1, 1.3259180, 24.580557),
        (0.01, 8, 1.0864264, 7.955103),
        (0.05, 8, 1.2921293, 22.608367),
        (0.1, 8, 1.5349184, 34.849957),
        (0.44, 8, 4.0351189, 75.218075),
    ],
)
def test_the_break_even_discount(rate: float, nodes: int, ratio: float, percent: float) -> None:
    hardware = {"failures_per_node_day": 6.5e-3}
    answer = answer_to(240, NODE * nodes, rework=on_spot(rate, hardware), price=offers())
    steady = on_spot(rate, hardware)
    del steady["spot"]
    plain = answer_to(240, NODE * nodes, rework=steady)
    hours = [one["duration"]["expected_wall_clock_hours"] for one in (answer, plain)]
    assert hours[0] / hours[1] == pytest.approx(ratio, rel=1e-5)
    (found,) = answer["break_evens"]
    assert found["threshold_percent"] == pytest.approx(percent, rel=1e-4)
    assert found["actual_percent"] == pytest.approx(100 * 2 / 3, rel=1e-12)
    assert found["cheaper"] is (percent < 100 * 2 / 3)


def test_the_reserved_break_even() -> None:
    # AWS p4d in 2021: 2.40 for one year against 4.10 on demand is 58.5 % of the time.
    price = {"kind": "hourly", "amount": "4.10", "alternatives": {"reserved": "2.40", "spot": "1.23"}}
    (found,) = answer_to(price=price)["break_evens"]
    assert found["option"] == "reserved_against_on_demand"
    assert found["threshold_percent"] == pytest.approx(58.53658536585367, rel=1e-12)
    assert found["cheaper"] is None


@pytest.mark.parametrize("purchase", ["on_demand", "reserved"])
def test_spot_is_compared_with_a_run_that_is_not_on_it_by_usual_interruptions(purchase: str) -> None:
    rework = {"kind": "failures", "hardware": {"failures_per_node_day": 6.5e-3, "restart_minutes": 20}}
    others = {"on_demand": "3", "spot": "1", "reserved": "2"}
    bought = others.pop(purchase)
    price = {"kind": "hourly", "amount": bought, "purchase": purchase, "alternatives": others}
    answer = answer_to(240, NODE * 8, rework=rework, price=price)
    usual = {**rework, "spot": {"interruptions_per_node_hour": 0.02, "wait_hours": 0.5}}
    on_it = answer_to(240, NODE * 8, rework=usual, price=offers("1", "3"))
    (found,) = (one for one in answer["break_evens"] if one["option"] == "spot_against_on_demand")
    (same,) = on_it["break_evens"]
    assert found["threshold_percent"] == pytest.approx(same["threshold_percent"], rel=1e-12)
    assert found["actual_percent"] == same["actual_percent"]
    assert found["cheaper"] is True
    assert "spot_break_even_assumed" in codes(answer)
    assert "spot_break_even_assumed" not in codes(on_it)
    # At that discount both cost the same.
    fair = 3 * (1 - found["threshold_percent"] / 100)
    assert fair * on_it["expected_gpu_hours"] == pytest.approx(3 * answer["expected_gpu_hours"], rel=1e-9)


def test_a_spot_price_of_a_typed_rework_says_what_it_pays_for_and_what_is_missing() -> None:
    price = {"kind": "hourly", "amount": "3", "purchase": "on_demand", "alternatives": {"spot": "1.2"}}
    answer = answer_to(price=price)
    assert answer["break_evens"] == []
    (told,) = (note["message"] for note in answer["notes"] if note["code"] == "spot_break_even_unknown")
    assert "1.20 USD against 3.00 USD on demand pays for 150 % more GPU-hours" in told
    assert "rework of kind failures" in told
    dear = answer_to(price={**price, "alternatives": {"spot": "3"}})
    assert "not cheaper" in next(note["message"] for note in dear["notes"] if note["code"] == "spot_break_even_unknown")
    free = answer_to(price={**price, "alternatives": {"spot": "0"}})
    assert "any number of GPU-hours" in next(
        note["message"] for note in free["notes"] if note["code"] == "spot_break_even_unknown"
    )


def test_break_evens_without_the_price_on_demand_say_so() -> None:
    price = {"kind": "hourly", "amount": "2", "purchase": "reserved", "alternatives": {"spot": "1.2"}}
    answer = answer_to(price=price)
    assert "break_evens" not in answer
    assert "break_even_needs_on_demand" in codes(answer)
    price = {"kind": "hourly", "amount": "2", "alternatives": {"reserved": "1.2"}}
    assert "break_even_needs_on_demand" not in codes(answer_to(price=price))


def test_the_price_itself_is_the_offer_that_is_bought() -> None:
    price = {"kind": "hourly", "amount": "1", "alternatives": {"on_demand": "3"}}
    (found,) = answer_to(rework=on_spot(0.01), price=price)["break_evens"]
    assert found["actual_percent"] == pytest.approx(100 * 2 / 3, rel=1e-12)
    twice = {**price, "purchase": "on_demand"}
    assert refused(a_run(price=twice)).pointer == "/price/alternatives/on_demand"


@pytest.mark.parametrize("purchase", ["on_demand", "reserved"])
def test_other_capacity_is_not_interrupted(purchase: str) -> None:
    body = a_run(rework=on_spot(0.01), price={"kind": "hourly", "amount": "1", "purchase": purchase})
    assert refused(body).pointer == "/rework/spot"


def test_waiting_is_billed_for_the_survivors() -> None:
    # 8 nodes at 0.01: an interruption every 12.5 h; each waits an hour, for which 7 nodes are billed.
    answer = answer_to(100, 64, rework=on_spot(0.01, wait_hours=1))
    stops = answer["reliability"]["expected_spot_interruptions"]
    waiting = line_of(answer, "rework_spot_wait")
    assert waiting["quantity"] == pytest.approx(stops * 1 * 56, rel=1e-12)
    free = answer_to(100, 64, rework=on_spot(0.01, wait_hours=1, survivors_billed=False))
    assert "rework_spot_wait" not in amounts(free)
    assert free["duration"] == answer["duration"]
    assert abs(total(answer) - total(free) - Decimal(waiting["amount"])) == 0


def test_one_node_has_no_survivors() -> None:
    for gpu_count in (1, 4, 8):  # fewer than a node has are never less than nothing
        answer = answer_to(100, gpu_count, rework=on_spot(0.1, wait_hours=1))
        assert "rework_spot_wait" not in amounts(answer)
        assert answer["duration"]["rework_hours"] > 10


def test_a_node_that_is_not_full_waits_with_what_it_has() -> None:
    # 12 GPUs on two nodes: whichever is lost, 6 are left on average.
    answer = answer_to(100, 12, rework=on_spot(0.01, wait_hours=1))
    stops = answer["reliability"]["expected_spot_interruptions"]
    assert line_of(answer, "rework_spot_wait")["quantity"] == pytest.approx(stops * 6, rel=1e-12)


def test_what_falls_back_costs_more_and_does_not_wait() -> None:
    rework = on_spot(0.01, wait_hours=1, fallback_percent=100, on_demand_amount="3")
    answer = answer_to(100, 64, amount="1", rework=rework)
    assert "rework_spot_wait" not in amounts(answer)
    extra = line_of(answer, "rework_spot_fallback")
    stops = answer["reliability"]["expected_spot_interruptions"]
    assert extra["unit_price"] == "2.00"  # over the spot price, which is billed already
    assert extra["quantity"] == pytest.approx(stops * 8 * (1 - 1 / 200), rel=1e-12)  # the last one ends with the run
    assert "spot_fallback_reading" in codes(answer)


def test_no_more_falls_back_than_runs() -> None:
    rework = on_spot(5, wait_hours=10_000, fallback_percent=100, on_demand_amount="3", hardware={})
    answer = answer_to(100, 64, amount="1", rework=rework, uncertainty={"samples": 1000})
    extra = line_of(answer, "rework_spot_fallback")
    assert extra["quantity"] <= answer["expected_gpu_hours"]
    assert total(answer) <= 3 * Decimal(answer["expected_gpu_hours"]) + 1
    # All nodes are on demand soon: nearly nothing is interrupted, and nearly everything costs 3.
    assert extra["quantity"] > 0.95 * answer["expected_gpu_hours"]


def test_the_alternative_is_what_falls_back_costs_by_default() -> None:
    rework = on_spot(0.01, wait_hours=1, fallback_percent=50)
    said_so = answer_to(100, 64, rework={**rework, "spot": {**rework["spot"], "on_demand_amount": "3"}}, price=offers())
    assert answer_to(100, 64, rework=rework, price=offers())["cost"] == said_so["cost"]
    assert refused(a_run(100, 64, rework=rework)).pointer == "/rework/spot/on_demand_amount"


def test_a_rate_that_nobody_gave_is_an_assumption() -> None:
    rework = on_spot(0.01)
    del rework["spot"]["interruptions_per_node_hour"]
    assert "spot_rate_assumed" in codes(answer_to(rework=rework))


def test_a_wait_that_nobody_gave_is_an_assumption() -> None:
    rework = on_spot(0.01)
    assert said(answer_to(rework=rework), "rework.spot.wait_hours")["status"] == "given"
    del rework["spot"]["wait_hours"]
    assert said(answer_to(rework=rework), "rework.spot.wait_hours") == {
        "field": "rework.spot.wait_hours",
        "value": 0.5,
        "status": "default",
        "source": "assumed",
    }


def test_checkpoints_rarer_than_interruptions_are_noted() -> None:
    rework = on_spot(0.5)
    rework["checkpoint"]["interval_minutes"] = 60
    assert "spot_checkpoints_rare" in codes(answer_to(10, 64, rework=rework))  # one every 15 min
    assert "spot_checkpoints_rare" not in codes(answer_to(10, 8, rework=rework))
    assert "spot_checkpoints_rare" not in codes(answer_to(10, 64, rework=on_spot(0.5)))


@given(
    st.floats(0.001, 0.2),
    st.integers(1, 16),
    st.floats(0, 5),
    st.sampled_from([0, 30, 100]),
    st.booleans(),
    st.decimals("0.5", 3, places=2),
    st.integers(0, 2),
)
def test_spot_pays_from_its_break_even_on(
    rate: float, nodes: int, wait: float, fallback: int, billed: bool, spot: Decimal, spares: int
) -> None:
    rework = on_spot(rate, {"failures_per_node_day": 0.01}, wait_hours=wait, fallback_percent=fallback)
    rework["spot"]["survivors_billed"] = billed
    idle = {"setup_hours": 2, "spare_nodes": spares}
    answer = answer_to(200, 8 * nodes, rework=rework, idle=idle, price=offers(str(spot), "3"))
    steady = {key: value for key, value in rework.items() if key != "spot"}
    plain = answer_to(200, 8 * nodes, "3", rework=steady, idle=idle)
    (found,) = answer["break_evens"]
    if abs(found["actual_percent"] - found["threshold_percent"]) > 0.01:
        assert found["cheaper"] is (total(answer) < total(plain))
    assert sum(amounts(answer).values()) == total(answer)


# ------------------------------------------------------------------------------------------- played through


class Played(NamedTuple):
    """Means of many runs."""

    hours: float
    wait_hours: float
    interruptions: float
    on_demand_node_hours: float


def played(
    work: float, nodes: int, rate: float, wait: float, fallback: float, interval: float, delta: float, restart: float
) -> Played:
    """Runs node by node and event by event. A node that is lost falls back, and is on demand for so long; or the run
    waits, and nothing happens meanwhile. On demand it is not interrupted. After either, a restart, which can fail."""
    draws = np.random.default_rng(11)
    runs = 1500
    sums = np.zeros(4)
    for _ in range(runs):
        clock = done = waited = held = 0.0
        lost, away = 0, [0.0] * nodes  # until when each node is on demand
        goal = interval + delta  # the clock at which the next state is safe
        while done < work - 1e-9:
            spot = [at for at in away if at <= clock]
            back = min((at for at in away if at > clock), default=np.inf)
            stop = clock + draws.exponential(1 / (rate * len(spot))) if spot else np.inf
            if min(goal, back) <= stop:  # without memory: draw again from there
                clock = min(goal, back)
                if goal <= back:
                    done, goal = done + interval, clock + interval + delta
                continue
            clock, lost = stop, lost + 1
            if draws.random() < fallback:
                away[next(index for index, at in enumerate(away) if at <= clock)] = clock + wait
                held += wait
            else:
                waited += wait
            goal = clock + restart + interval + delta
        held -= sum(max(at - clock, 0) for at in away)
        sums += (clock + waited, waited, lost, held)
    return Played(*(float(value) for value in sums / runs))


@pytest.mark.parametrize(
    ("nodes", "rate", "wait", "fallback"),
    [(8, 0.05, 1.0, 0), (8, 0.05, 0.5, 40), (4, 0.2, 2.0, 50), (8, 0.1, 6.0, 100), (4, 0.01, 20.0, 50)],
)
def test_the_means_are_those_of_runs_played_through(nodes: int, rate: float, wait: float, fallback: int) -> None:
    delta, restart, interval, work = 1 / 60, 0.25, 0.5, 60.0
    rework = on_spot(rate, seconds=60, wait_hours=wait, fallback_percent=fallback, on_demand_amount="3")
    rework["checkpoint"]["interval_minutes"] = 30
    answer = answer_to(work, NODE * nodes, rework=rework)
    seen = played(work, nodes, rate, wait, fallback / 100, interval, delta, restart)
    shown = answer["reliability"]
    assert answer["duration"]["expected_wall_clock_hours"] == pytest.approx(seen.hours, rel=0.015)
    assert shown["expected_spot_interruptions"] == pytest.approx(seen.interruptions, rel=0.02)
    quantities = {line["component"]: line["quantity"] for line in answer["cost"]["lines"]}
    survivors = seen.wait_hours * (nodes - 1) * NODE
    assert quantities.get("rework_spot_wait", 0) == pytest.approx(survivors, rel=0.02)
    assert quantities.get("rework_spot_fallback", 0) == pytest.approx(seen.on_demand_node_hours * NODE, rel=0.02)
