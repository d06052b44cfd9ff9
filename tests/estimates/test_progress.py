"""Runs that hardly progress: said below half, refused below a hundredth, of the field that is to blame."""

from typing import Any

import pytest

from tests.support.asking import ask, codes, refused
from tests.support.bills import a_run

_20_HOURS = {"node_mtbf_hours": 20, "restart_minutes": 10}
_TOO_SELDOM = {"interval_minutes": 12000}
_FALLS_BACK = {"fallback_percent": 100, "on_demand_amount": "3.99"}


def on_512(rework: dict[str, Any], **sections: Any) -> dict[str, Any]:
    work = {"kind": "transformer", "parameters": 70e9, "tokens": 1e12, "mfu_percent": 40}
    cluster = {"gpu": "h100-sxm-80gb", "gpu_count": 512}
    return {"cluster": cluster, "work": work, "rework": {"kind": "failures", **rework}, **sections}


@pytest.mark.parametrize("rate", [0.15, 0.2])
@pytest.mark.parametrize("sections", [{}, {"uncertainty": {}}])
def test_interruptions_that_leave_no_time_are_refused(rate: float, sections: dict[str, Any]) -> None:
    fault = refused(on_512({"spot": {"interruptions_per_node_hour": rate, **_FALLS_BACK}}, **sections))
    assert fault.pointer == "/rework/spot/interruptions_per_node_hour"
    assert fault.message.startswith("Less than 1 % of the time would be productive")
    for help_ in ("interruptions 32 times rarer", "about 2 nodes", "capacity that is not spot"):
        assert help_ in fault.message


def test_what_would_help_does() -> None:
    spot = {"interruptions_per_node_hour": 0.2, **_FALLS_BACK}
    rarer = ask(on_512({"spot": {**spot, "interruptions_per_node_hour": 0.2 / 32}}))
    assert rarer["reliability"]["effective_training_time_percent"] > 50
    twice = ask(on_512({"spot": {**spot, "interruptions_per_node_hour": 0.2 / 16}}))
    assert 1 < twice["reliability"]["effective_training_time_percent"] < 50


@pytest.mark.parametrize(("hours", "noted"), [(300, False), (20, True)])
def test_less_than_half_of_the_time_is_a_warning(hours: float, noted: bool) -> None:
    answer = ask(a_run(rework={"kind": "failures", "hardware": {"node_mtbf_hours": hours, "restart_minutes": 900}}))
    assert (answer["reliability"]["effective_training_time_percent"] < 50) is noted
    assert ("run_hardly_progresses" in codes(answer)) is noted


def test_spot_as_it_is_assumed_says_that_the_run_hardly_progresses() -> None:
    answer = ask(on_512({"spot": {}}))
    (told,) = (note["message"] for note in answer["notes"] if note["code"] == "run_hardly_progresses")
    assert told.startswith("Only 13 % of the time is productive")
    assert "interruptions 4 times rarer" in told


@pytest.mark.parametrize(
    ("count", "rework", "pointer"),
    [
        (800_000, {}, "/rework"),
        (800_000, {"preset": "no_spares"}, "/rework/preset"),
        (8, {"hardware": {"failures_per_node_day": 500}}, "/rework/hardware/failures_per_node_day"),
        (8, {"hardware": {"node_mtbf_hours": 0.05}}, "/rework/hardware/node_mtbf_hours"),
        (800_000, {"hardware": {"restart_minutes": 30}}, "/rework/hardware/restart_minutes"),
        (80_000, {"spot": {}}, "/rework/spot"),
        (512, {"spot": {"wait_hours": 10000}}, "/rework/spot/wait_hours"),
        (8, {"checkpoint": {"seconds": 1e6, "interval_minutes": 1}}, "/rework/checkpoint/interval_minutes"),
        (8, {"checkpoint": {"seconds": 1e6}, "hardware": {"failures_per_node_day": 0}}, None),
        (8, {"hardware": _20_HOURS, "checkpoint": _TOO_SELDOM}, "/rework/checkpoint/interval_minutes"),
    ],
)
def test_the_field_that_is_to_blame_is_one_that_was_sent(
    count: int, rework: dict[str, Any], pointer: str | None
) -> None:
    body = a_run(1000, count, rework={"kind": "failures", **rework})
    if pointer is None:
        assert ask(body)["reliability"]["effective_training_time_percent"] > 50
    else:
        assert refused(body).pointer == pointer


def test_a_checkpoint_interval_is_refused_with_one_that_works() -> None:
    rework = {"kind": "failures", "hardware": _20_HOURS}
    fault = refused(a_run(1000, 8, rework={**rework, "checkpoint": _TOO_SELDOM}))
    assert "With a checkpoint every " in fault.message
    minutes = float(fault.message.split("every ")[1].split(" ")[0])
    body = a_run(1000, 8, rework={**rework, "checkpoint": {"interval_minutes": minutes}})
    share = ask(body)["reliability"]["effective_training_time_percent"]
    assert share == pytest.approx(float(fault.message.split("minutes ")[1].split(" ")[0]), rel=0.01)
