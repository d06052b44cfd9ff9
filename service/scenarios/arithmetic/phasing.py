"""Cost by calendar month (UTC), to the cent in both directions: every line by its shape in time, the months their sums.

Each line is rounded by largest remainder on its own, so that its months add up to it; a month is the sum of its cells.
How a line is spread is in `spreads`, and named on the line.
"""

import datetime
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Annotated

from msgspec import UNSET, Meta, Struct

from service.errors import BrokenRule
from service.estimates.bill_schemas import CommitmentPrice, MeteredStorage
from service.estimates.schemas import EstimateRequest
from service.estimator.results import Amount, Component, Estimate
from service.estimator.run import to_the_second
from service.money import exact
from service.scenarios.arithmetic.shares import amount_of, apportioned, shown, units_of
from service.scenarios.arithmetic.spreads import (
    Basis,
    Frame,
    Moment,
    Schedule,
    Spread,
    SpreadName,
    Term,
    frame_of,
    share_over,
    spreads_of,
    weight_of,
)

MAX_MONTHS = 1500  # a data set may be kept for 114 years

MonthName = Annotated[str, Meta(pattern="^[0-9]{4}-(0[1-9]|1[0-2])$", examples=["2027-01"])]

_MICROSECOND = datetime.timedelta(microseconds=1)
_TERMS: tuple[Component, ...] = ("discount", "credits", "tax")


class PhasedMonth(Struct, frozen=True):
    """One calendar month."""

    month: MonthName
    starts_at: Moment
    ends_at: Annotated[Moment, Meta(description="Exclusive: the first moment of the next month.")]
    amount: Amount
    cumulative: Annotated[Decimal, Meta(description="With all months before it.")]
    gpu_hours: Annotated[float, Meta(description="Billed GPU-hours of the run in this month, rework included.")]


class PhasedLine(Struct, frozen=True):
    """One line of the estimate, by month."""

    component: Component
    description: str
    spread: Annotated[SpreadName, Meta(description="How it was spread over the months.")]
    amount: Amount
    by_month: Annotated[tuple[Amount, ...], Meta(description="One for each of `months`; they add up to `amount`.")]


class Phasing(Struct, frozen=True):
    """Cost by month and line: rows add up to the lines, columns to the months, both to the total."""

    currency: str
    basis: Annotated[Basis, Meta(description="Whether upfront payments fall due when paid, or with the hours used.")]
    total: Amount
    start_at: Moment
    finish_at: Moment
    months: tuple[PhasedMonth, ...]
    lines: tuple[PhasedLine, ...]


def schedule_of(request: EstimateRequest, start_at: datetime.datetime | None = None) -> Schedule:
    """When a request's costs fall due, from its own `start_at` or another; BrokenRule where there is neither."""
    start = request.start_at if start_at is None else start_at
    if start is None:
        raise BrokenRule.at("/start_at", "Costs by month need the day on which the run starts")
    start = start.astimezone(datetime.UTC)
    kept, term, price = None, None, request.price
    if isinstance(request.storage, MeteredStorage) and request.storage.dataset_hours is not UNSET:
        kept = request.storage.dataset_hours
    if isinstance(price, CommitmentPrice):
        term = Term(
            starts_at=start if price.term_start is UNSET else price.term_start.astimezone(datetime.UTC),
            hours=price.term_hours,
            gpu_count=price.gpu_count,
            amount=price.amount,
            upfront=Decimal(0) if price.upfront is UNSET else price.upfront,
            overflow_amount=None if price.overflow_amount is UNSET else price.overflow_amount,
        )
    return Schedule(start_at=start, dataset_hours=kept, term=term)


def phased(answer: Estimate, schedule: Schedule, basis: Basis = "paid") -> Phasing:
    """An estimate by calendar month; BrokenRule where that would be over MAX_MONTHS months."""
    frame = frame_of(answer, schedule, basis)
    spreads = spreads_of(answer, frame)
    edges = _month_edges(answer, frame, spreads)
    currency = answer.cost.currency
    rows = _rows(answer, spreads, [units_of(line.amount, currency) for line in answer.cost.lines], edges)
    columns = [sum(column) for column in zip(*rows, strict=True)]
    gpu_hours = [planned_gpu_hours(answer, schedule, edge) for edge in edges]
    return Phasing(
        currency,
        basis,
        amount_of(sum(columns), currency),
        frame.start,
        to_the_second(frame.end, frame.start),
        tuple(
            PhasedMonth(
                f"{begin.year:04}-{begin.month:02}",
                begin,
                end,
                amount_of(column, currency),
                amount_of(so_far, currency),
                shown(used - before),
            )
            for (begin, end), column, so_far, (before, used) in zip(
                pairwise(edges), columns, accumulate(columns), pairwise(gpu_hours), strict=True
            )
        ),
        tuple(
            PhasedLine(
                line.component,
                line.description,
                spread.name,
                line.amount,
                tuple(amount_of(cell, currency) for cell in row),
            )
            for line, spread, row in zip(answer.cost.lines, spreads, rows, strict=True)
        ),
    )


def lines_until(
    answer: Estimate, schedule: Schedule, moments: Sequence[datetime.datetime], basis: Basis = "amortised"
) -> tuple[tuple[Decimal, ...], ...]:
    """What each line has cost by each moment: one row a moment. At the end of a month as the months have it."""
    frame = frame_of(answer, schedule, basis)
    spreads = spreads_of(answer, frame)
    edges = _month_edges(answer, frame, spreads)
    currency = answer.cost.currency
    units = [units_of(line.amount, currency) for line in answer.cost.lines]
    rows = _rows(answer, spreads, units, edges)
    found = []
    for moment in moments:
        month = bisect_right(edges, moment) - 1
        done = [sum(row[: max(month, 0)]) for row in rows]
        if 0 <= month < len(edges) - 1 and edges[month] < moment:
            cells = [row[month] for row in rows]
            parts = _rows(answer, spreads, cells, (edges[month], moment, edges[month + 1]))
            done = [before + part[0] for before, part in zip(done, parts, strict=True)]
        found.append(tuple(amount_of(value, currency) for value in done))
    return tuple(found)


def planned_gpu_hours(answer: Estimate, schedule: Schedule, moment: datetime.datetime) -> Fraction:
    """Billed GPU-hours of the plan by a moment: those of set-up over its hours, all others evenly after it."""
    frame = frame_of(answer, schedule, "amortised")
    setup = setup_gpu_hours(answer)
    rest = Fraction(exact(answer.expected_gpu_hours)) - setup
    before_first_step = setup * share_over(frame.start, frame.setup_end, moment)
    return before_first_step + rest * share_over(frame.setup_end, frame.end, moment)


def setup_gpu_hours(answer: Estimate) -> Fraction:
    """GPU-hours billed before the first step."""
    hours = (exact(line.quantity) for line in answer.cost.lines if line.component == "idle_setup")
    return sum((Fraction(value) for value in hours), Fraction(0))


def _rows(
    answer: Estimate, spreads: Sequence[Spread], units: Sequence[int], edges: Sequence[datetime.datetime]
) -> list[tuple[int, ...]]:
    """Minor units of each line in each period between two edges."""
    rows: list[tuple[int, ...]] = [()] * len(units)
    due = [0] * (len(edges) - 1)
    for index in sorted(range(len(units)), key=lambda index: _order(answer.cost.lines[index].component)):
        weights: Sequence[Fraction | int] = [max(0, amount) for amount in due]
        if spreads[index].pieces:
            weights = [weight_of(spreads[index].pieces, begin, end) for begin, end in pairwise(edges)]
        rows[index] = apportioned(units[index], weights)
        due = [before + cell for before, cell in zip(due, rows[index], strict=True)]
    return rows


def _order(component: Component) -> int:
    """List prices before what is in proportion to them, and a contingency after that."""
    if component == "contingency":
        return len(_TERMS) + 1
    return _TERMS.index(component) + 1 if component in _TERMS else 0


def _month_edges(answer: Estimate, frame: Frame, spreads: Sequence[Spread]) -> tuple[datetime.datetime, ...]:
    """The first moments of all months from the first cost to the last, and of the one after them."""
    pieces = [
        piece
        for line, spread in zip(answer.cost.lines, spreads, strict=True)
        for piece in spread.pieces
        if line.amount and piece.weight
    ]
    first = min([frame.start, *(piece.begin for piece in pieces)])
    last = max([frame.last_moment, *(max(piece.begin, piece.end - _MICROSECOND) for piece in pieces)])
    count = (last.year - first.year) * 12 + last.month - first.month + 1
    if count > MAX_MONTHS or last.year >= datetime.MAXYEAR:
        raise BrokenRule.at("/start_at", f"Costs by month go over {MAX_MONTHS} months or into the year 9999")
    edges = (divmod(first.year * 12 + first.month - 1 + index, 12) for index in range(count + 1))
    return tuple(datetime.datetime(year, month + 1, 1, tzinfo=datetime.UTC) for year, month in edges)
