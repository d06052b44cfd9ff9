"""Cost by calendar month: by hand, and tied in both directions for any lines, start, length and currency."""

import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimator.results import Estimate
from service.scenarios.arithmetic.actuals import planned_cost
from service.scenarios.arithmetic.phasing import Phasing, lines_until, phased, planned_gpu_hours, schedule_of
from service.scenarios.arithmetic.spreads import Schedule
from tests.support.bills import a_run, request_of
from tests.support.plans import a_line, an_estimate, at, estimates, planned, starts

_SETUP_AND_SPARES = {"setup_hours": 4, "spare_nodes": 0}


def months(phasing: Phasing) -> dict[str, str]:
    """Amounts by month."""
    return {month.month: str(month.amount) for month in phasing.months}


def row(phasing: Phasing, component: str) -> list[str]:
    """One line's amounts."""
    (line,) = (line for line in phasing.lines if line.component == component)
    return [str(amount) for amount in line.by_month]


def metered(**fields: Any) -> dict[str, Any]:
    return {"kind": "metered", "price_per_gb_month": "0.10", **fields}


def test_gpu_time_goes_by_the_hours_in_each_month() -> None:
    # 8 GPUs at 2.00 for 100 h from the evening of 30 January: 48 h in January, 52 h in February.
    phasing = phased(*planned("2027-01-30", hours=100))
    assert months(phasing) == {"2027-01": "768.00", "2027-02": "832.00"}
    assert [month.gpu_hours for month in phasing.months] == [384.0, 416.0]
    assert phasing.months[1].cumulative == phasing.total == Decimal("1600.00")


@pytest.mark.parametrize(("year", "days"), [(2027, 28), (2028, 29), (2100, 28), (2000, 29)])
def test_february_has_the_days_of_its_year(year: int, days: int) -> None:
    phasing = phased(*planned(f"{year}-02-01", hours=24 * 31))
    assert row(phasing, "compute") == [f"{days * 24 * 16}.00", f"{(31 - days) * 24 * 16}.00"]


def test_a_run_that_ends_with_a_month_has_nothing_in_the_next() -> None:
    sections = {"egress": {"kind": "fixed", "amount": "50"}}
    assert months(phased(*planned("2027-01-01", hours=744, **sections))) == {"2027-01": "11954.00"}


def test_storage_goes_by_hours_and_egress_at_the_end() -> None:
    fixed = {name: {"kind": "fixed", "amount": "100"} for name in ("storage", "egress")}
    phasing = phased(*planned("2027-01-30", hours=100, **fixed))
    assert row(phasing, "storage") == ["48.00", "52.00"]
    assert row(phasing, "egress") == ["0.00", "100.00"]


def test_set_up_comes_first_and_the_other_gpu_time_after_it() -> None:
    # 4 h of set-up from 20:00 on 31 January; all 100 h of steps are in February.
    phasing = phased(*planned("2027-01-31T20:00", hours=100, idle=_SETUP_AND_SPARES))
    assert row(phasing, "idle_setup") == ["64.00", "0.00"]
    assert row(phasing, "compute") == ["0.00", "1600.00"]
    assert [month.gpu_hours for month in phasing.months] == [32.0, 800.0]


def test_a_data_set_is_paid_for_as_long_as_it_is_kept() -> None:
    # 7,300 GB at 0.10 for 1,460 h are two months of 730: 1,460.00, a dollar an hour, long after a run of 24 h.
    kept = metered(dataset_gb=7300, dataset_hours=1460)
    phasing = phased(*planned("2027-01-01", hours=24, storage=kept))
    assert row(phasing, "storage") == ["744.00", "672.00", "44.00"]
    assert row(phasing, "compute") == ["384.00", "0.00", "0.00"]


def test_a_filesystem_is_paid_for_as_long_as_the_run() -> None:
    kept = metered(filesystem_gb=730, filesystem_price_per_gb_month="1", dataset_gb=1, dataset_hours=0)
    assert row(phased(*planned("2027-01-30", hours=100, storage=kept)), "storage_filesystem") == ["48.00", "52.00"]


def test_discount_credits_and_tax_follow_the_months() -> None:
    # 768 and 832 at list; half off, then 160 of credits, then 10 %: each in proportion to what it is on.
    terms = {"kind": "hourly", "amount": "2", "discount_percent": 50, "credits": "160", "tax_percent": 10}
    phasing = phased(*planned("2027-01-30", hours=100, price=terms))
    assert row(phasing, "discount") == ["-384.00", "-416.00"]
    assert row(phasing, "credits") == ["-76.80", "-83.20"]
    assert row(phasing, "tax") == ["30.72", "33.28"]
    assert months(phasing) == {"2027-01": "337.92", "2027-02": "366.08"}


def test_a_contingency_is_in_the_last_month() -> None:
    answer = an_estimate([a_line("compute", "100.00"), a_line("contingency", "30.00")], hours=48)
    phasing = phased(answer, Schedule(start_at=at("2027-01-31")))
    assert row(phasing, "contingency") == ["0.00", "30.00"]


def commitment(**fields: Any) -> dict[str, Any]:
    """8 GPUs for 1,416 h, January and February, at 2.00, half of it paid upfront."""
    price = {"kind": "commitment", "amount": "1", "gpu_count": 8, "term_hours": 1416, "upfront": "11328"}
    return price | {"term_start": "2027-01-01T00:00:00Z"} | fields


def test_an_upfront_payment_is_due_when_the_term_starts() -> None:
    # 100 h in February: 1,600 in all, of which 800 were paid with the upfront payment on 1 January.
    answer, schedule = planned("2027-02-01", hours=100, price=commitment())
    assert row(phased(answer, schedule), "compute") == ["800.00", "800.00"]
    assert months(phased(answer, schedule, "amortised")) == {"2027-02": "1600.00"}


def test_what_a_commitment_leaves_unused_lies_around_the_run() -> None:
    # Unused are all of January's 744 h, and 572 of February's 672: at 16 an hour, half of it upfront.
    answer, schedule = planned("2027-02-01", hours=100, price=commitment(attribution="term"))
    assert row(phased(answer, schedule, "amortised"), "commitment_unused") == ["11904.00", "9152.00"]
    paid = phased(answer, schedule)
    assert row(paid, "commitment_unused") == ["16480.00", "4576.00"]
    assert months(paid) == {"2027-01": f"{11328 + 744 * 8}.00", "2027-02": f"{672 * 8}.00"}


def test_a_smaller_run_leaves_a_part_of_the_commitment_unused_while_it_runs() -> None:
    # 4 of the 8 GPUs are free for the 672 h of February, at 2.00.
    price = commitment(attribution="term", term_hours=672, upfront="0", amount="2", term_start="2027-02-01T00:00:00Z")
    answer, schedule = planned("2027-02-01", hours=672, gpu_count=4, price=price)
    assert row(phased(answer, schedule), "commitment_unused") == ["5376.00"]


def test_time_beyond_the_term_is_dearer_when_it_comes() -> None:
    # The term of 672 h ends with February; 28 h of 8 GPUs in March cost a dollar more.
    price = commitment(term_hours=672, upfront="0", amount="2", overflow_amount="3", term_start="2027-02-01T00:00:00Z")
    answer, schedule = planned("2027-02-01", hours=700, price=price)
    assert row(phased(answer, schedule), "commitment_overflow") == ["0.00", "224.00"]


def test_gpus_over_the_commitment_are_dearer_all_the_time() -> None:
    price = commitment(term_hours=1416, upfront="0", amount="2", overflow_amount="3")
    answer, schedule = planned("2027-01-30", hours=100, gpu_count=16, price=price)
    assert row(phased(answer, schedule), "commitment_overflow") == ["384.00", "416.00"]


def test_upfront_counts_only_for_hours_within_the_commitment() -> None:
    # Half of the run's 16 GPUs are covered: of 3,200 at the committed rate 800 were paid upfront.
    price = commitment(overflow_amount="3")
    answer, schedule = planned("2027-02-01", hours=100, gpu_count=16, price=price)
    assert row(phased(answer, schedule), "compute") == ["800.00", "2400.00"]


def test_a_run_without_a_start_has_no_months() -> None:
    with pytest.raises(BrokenRule) as caught:
        schedule_of(request_of(a_run()))
    assert caught.value.faults[0].pointer == "/start_at"


def test_another_start_moves_the_months() -> None:
    request = request_of(a_run(start_at="2027-01-01T00:00:00Z"))
    assert schedule_of(request, at("2027-05-01")).start_at == at("2027-05-01")


@pytest.mark.parametrize("start", ["2027-01-01", "9998-12-31"])
def test_more_months_than_anybody_plans_are_refused(start: str) -> None:
    answer = an_estimate([a_line("compute", "100.00")], hours=2e6 if start < "9" else 48.0)
    with pytest.raises(BrokenRule):
        phased(answer, Schedule(start_at=at(start)))


def test_a_phasing_goes_on_the_wire() -> None:
    phasing = phased(*planned("2027-01-30"))
    assert msgspec.json.decode(msgspec.json.encode(phasing), type=Phasing) == phasing
    assert msgspec.json.schema(Phasing)


@given(estimates(), starts)
def test_rows_and_columns_add_up_to_the_cent(answer: Estimate, start: datetime.datetime) -> None:
    phasing = phased(answer, Schedule(start_at=start))
    for line in phasing.lines:
        assert sum(line.by_month) == line.amount
    for index, month in enumerate(phasing.months):
        assert sum(line.by_month[index] for line in phasing.lines) == month.amount
    assert sum(month.amount for month in phasing.months) == phasing.total == answer.cost.total
    assert phasing.months[-1].cumulative == answer.cost.total


@given(estimates(), starts)
def test_months_follow_each_other_without_a_gap(answer: Estimate, start: datetime.datetime) -> None:
    phasing = phased(answer, Schedule(start_at=start))
    for earlier, later in pairwise(phasing.months):
        assert earlier.ends_at == later.starts_at
    assert phasing.months[0].starts_at <= start < phasing.months[0].ends_at
    assert all(month.starts_at.day == 1 and month.starts_at.hour == 0 for month in phasing.months)
    assert [month.month for month in phasing.months] == sorted({month.month for month in phasing.months})


@given(estimates(), starts)
def test_no_month_of_a_line_has_the_other_sign(answer: Estimate, start: datetime.datetime) -> None:
    for line in phased(answer, Schedule(start_at=start)).lines:
        assert all(amount * line.amount >= 0 for amount in line.by_month)


@given(estimates(), starts)
def test_an_amount_is_in_its_currencys_minor_unit(answer: Estimate, start: datetime.datetime) -> None:
    for line in phased(answer, Schedule(start_at=start)).lines:
        assert {amount.as_tuple().exponent for amount in line.by_month} == {line.amount.as_tuple().exponent}


@given(estimates(), starts, st.lists(st.floats(-0.2, 1.2), min_size=2, max_size=6))
def test_what_is_planned_by_a_moment_only_grows_and_meets_the_months(
    answer: Estimate, start: datetime.datetime, shares: list[float]
) -> None:
    schedule = Schedule(start_at=start)
    phasing = phased(answer, schedule)
    whole = phasing.months[-1].ends_at - phasing.months[0].starts_at
    moments = [phasing.months[0].starts_at + share * whole for share in sorted(shares)]
    for earlier, later in pairwise(lines_until(answer, schedule, moments)):
        assert all(abs(one) <= abs(other) for one, other in zip(earlier, later, strict=True))
    at_ends = lines_until(answer, schedule, [month.ends_at for month in phasing.months])
    assert [sum(cells) for cells in at_ends] == [month.cumulative for month in phasing.months]


@given(estimates(), starts)
def test_all_gpu_hours_are_in_the_months(answer: Estimate, start: datetime.datetime) -> None:
    phasing = phased(answer, Schedule(start_at=start))
    assert sum(month.gpu_hours for month in phasing.months) == pytest.approx(
        float(planned_gpu_hours(answer, Schedule(start_at=start), phasing.months[-1].ends_at)), rel=1e-12
    )


@given(estimates(), starts)
def test_the_plan_to_date_ends_at_the_total_without_contingency(answer: Estimate, start: datetime.datetime) -> None:
    schedule = Schedule(start_at=start)
    end = phased(answer, schedule).months[-1].ends_at
    cost = answer.cost
    whole = cost.total if cost.expected_total is msgspec.UNSET else cost.expected_total
    assert planned_cost(answer, schedule, start - datetime.timedelta(1)) == 0
    assert planned_cost(answer, schedule, end) == whole
