"""One calculator: what the classic way answers, the detailed way answers too, to the cent and to the last digit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimates.detailed import detailed_facts
from service.estimates.operations import estimate, in_utc
from service.estimates.schemas import EstimateRequest
from service.estimator import detailed
from service.estimator.results import Estimate
from tests.support.bills import request_of

HALF_CENT = {
    "cluster": {"gpu_count": 3},
    "work": {"kind": "gpu_hours", "hours": 0.5},
    "scaling": {"kind": "fixed", "efficiency_percent": 85},
    "rework": {"kind": "buffer", "rework_percent": 15},
    "price": {"kind": "hourly", "amount": "1.87"},
    "storage": {"kind": "fixed", "amount": "0"},
    "egress": {"kind": "fixed", "amount": "0.005"},
}

numbers = st.one_of(
    st.integers(1, 2000).map(float), st.decimals("0.01", 5000, places=2).map(float), st.floats(0.1, 1e5)
)
money = st.one_of(
    st.decimals(0, 100, places=2), st.decimals(0, 1000, places=3), st.decimals(0, 1_000_000, places=6)
).map(str)
works = st.fixed_dictionaries(
    {"kind": st.just("gpu_hours"), "hours": numbers}, optional={"basis": st.sampled_from(["per_gpu", "total"])}
)
fixed = st.fixed_dictionaries(
    {
        "kind": st.just("fixed"),
        "efficiency_percent": st.one_of(
            st.integers(1, 100), st.decimals(1, 100, places=2).map(float), st.floats(1, 100)
        ),
    }
)
interconnects = st.fixed_dictionaries(
    {"kind": st.just("interconnect"), "preset": st.sampled_from(["ib-ndr-400", "eth-10-tcp", "nvlink4"])},
    optional={"level": st.sampled_from(["low", "typical", "high"])},
)
measured = st.just(
    {
        "kind": "measured",
        "points": [
            {"gpu_count": count, "tokens_per_second": rate} for count, rate in ((8, 8e4), (16, 1.55e5), (64, 5.6e5))
        ],
    }
)
buffers = st.fixed_dictionaries(
    {"kind": st.just("buffer"), "rework_percent": st.one_of(st.integers(0, 100), st.floats(0, 500))}
)
prices = st.fixed_dictionaries(
    {"kind": st.just("hourly"), "amount": money},
    optional={"currency": st.sampled_from(["USD", "JPY", "KWD"]), "per": st.sampled_from(["gpu", "node"])},
)
amounts = st.fixed_dictionaries({"kind": st.just("fixed"), "amount": money})
clusters = st.fixed_dictionaries(
    {},
    optional={
        "gpu": st.just("H100 SXM"),
        "gpu_count": st.integers(1, 5000),
        "gpus_per_node": st.sampled_from([1, 3, 4, 7, 8]),
    },
)
budgets = st.one_of(
    st.fixed_dictionaries({"amount": money}, optional={"warn_percent": st.integers(1, 100)}),
    st.just({"deadline": "2027-06-01T00:00:00+02:00"}),
    st.just({"amount": "1000000", "deadline": "2031-01-01T00:00:00Z"}),
)
requests = st.fixed_dictionaries(
    {"start_at": st.just("2027-01-04T09:00:00+01:00")},
    optional={
        "cluster": clusters,
        "work": works,
        "scaling": st.one_of(fixed, interconnects, measured),
        "rework": buffers,
        "price": prices,
        "storage": amounts,
        "egress": amounts,
        "budget": budgets,
    },
)


def both(request: EstimateRequest) -> tuple[Estimate, Estimate]:
    """The classic answer, and the detailed one."""
    return estimate(request), detailed.estimate(detailed_facts(in_utc(request)))


def told(answer: Estimate) -> dict[str, Any]:
    """All that the classic answer says."""
    bill, time = answer.cost, answer.duration
    return {
        "money": [bill.currency, bill.total, bill.compute, bill.rework, bill.idle, bill.storage, bill.egress],
        "shares": [bill.scaling_loss, bill.non_gpu_percent],
        "lines": bill.lines,
        "hours": [time.ideal_hours, time.wall_clock_hours, time.wall_clock_days],
        "expected": [time.expected_wall_clock_hours, time.expected_wall_clock_days, time.finish_at],
        "gpu_hours": [answer.gpu_hours, answer.expected_gpu_hours],
        "unit_costs": answer.unit_costs,
        "verdict": answer.verdict,
        "assumptions": answer.assumptions,
        "notes": answer.notes,
    }


def test_the_empty_request_is_the_same_both_ways() -> None:
    classic, other = both(request_of({}))
    assert str(other.cost.total) == "27950.00"
    assert told(other) == told(classic)


def test_half_a_cent_is_rounded_up_both_ways() -> None:
    # 3 x 0.5 h / 0.85 x 1.87 = 3.30, of which 15 % are exactly 0.495.
    classic, other = both(request_of(HALF_CENT))
    assert [str(line.amount) for line in other.cost.lines] == ["3.30", "0.50", "0.00", "0.01"]
    assert told(other) == told(classic)


def test_rework_of_nothing_is_still_a_line() -> None:
    _, other = both(request_of({"rework": {"kind": "buffer", "rework_percent": 0}}))
    assert [line.component for line in other.cost.lines] == ["compute", "rework", "storage", "egress"]


@given(requests)
def test_both_ways_say_the_same(sections: dict[str, Any]) -> None:
    request = request_of(sections)
    try:
        classic = estimate(request)
    except BrokenRule as error:
        with pytest.raises(BrokenRule) as refusal:
            detailed.estimate(detailed_facts(in_utc(request)))
        assert refusal.value.detail == error.detail
        return
    assert told(detailed.estimate(detailed_facts(in_utc(request)))) == told(classic)


@given(works, st.sampled_from([3, 7, 12, 96]), fixed, st.sampled_from([12.5, 15, 33.33]))
def test_figures_that_have_no_end_are_the_same_to_the_last_digit(
    work: dict[str, Any], count: int, scaling: dict[str, Any], rework: float
) -> None:
    classic, other = both(
        request_of(
            {
                "cluster": {"gpu_count": count},
                "work": {**work, "basis": "total"},
                "scaling": scaling,
                "rework": {"kind": "buffer", "rework_percent": rework},
            }
        )
    )
    assert told(other) == told(classic)


def test_neither_way_has_sections_that_nobody_asked_for() -> None:
    _, other = both(request_of({}))
    for section in ("performance", "memory", "reliability", "risk", "commitment", "owned", "energy", "break_evens"):
        assert not getattr(other, section), section


def test_both_ways_need_something_to_judge() -> None:
    request = request_of({"budget": {}})
    for way in (estimate, lambda asked: detailed.estimate(detailed_facts(in_utc(asked)))):
        with pytest.raises(BrokenRule) as refusal:
            way(request)
        assert [fault.pointer for fault in refusal.value.faults] == ["/budget"]
