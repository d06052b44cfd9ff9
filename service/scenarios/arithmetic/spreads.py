"""When each line of an estimate falls due: the shape of every line in time, by what it is.

* `setup`: set-up over its own first hours; `run`: other GPU time evenly over the hours after them. Where the rate of a
  price table changes meanwhile, each hour at its own rate.
* `whole_run`: storage, and whatever has no rule of its own, evenly from the start to the expected finish. Checkpoints
  too, for only the last few stay.
* `retention`: a data set over the hours that it is kept, which may be fewer than the run's, or more.
* `overflow`: GPU time beyond a commitment where it lies: over its count, or after its end.
* `term`: what a commitment leaves unused over its term, before and after the run included.
* `end`: egress, within the one month that its tiers are of; and a contingency, because most of what it is for (a slower
  run, more failures) makes the run longer and is paid after everything else.
* `in_proportion`: discount to the list price of a period, credits to what is then due, tax to what is left.

The `paid` basis puts the part of committed hours that was paid upfront at the start of the term, `amortised` leaves it
in the rate.
"""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct

from service.estimator.results import Component, CostLine, Estimate
from service.estimator.run import finish_after
from service.money import exact, exact_arithmetic

SpreadName = Literal["setup", "run", "whole_run", "retention", "overflow", "term", "end", "in_proportion"]
Basis = Literal["paid", "amortised"]
Moment = Annotated[datetime.datetime, Meta(tz=True)]

_MICROSECOND = datetime.timedelta(microseconds=1)
_NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)
_SPREADS: dict[Component, SpreadName] = {
    "compute": "run",
    "overhead": "run",
    "rework": "run",
    "rework_checkpoints": "run",
    "rework_hardware": "run",
    "rework_spot": "run",
    "rework_spot_wait": "run",
    "rework_spot_fallback": "run",
    "rework_instability": "run",
    "rework_people": "run",
    "idle_setup": "setup",
    "idle_spares": "run",
    "commitment_overflow": "overflow",
    "commitment_unused": "term",
    "egress": "end",
    "contingency": "end",
    "discount": "in_proportion",
    "credits": "in_proportion",
    "tax": "in_proportion",
}


class Term(Struct, frozen=True, kw_only=True):
    """A commitment's term and prices."""

    starts_at: Moment
    hours: float
    gpu_count: int
    amount: Annotated[Decimal, Meta(description="Price of a committed GPU-hour, upfront payment apart.")]
    upfront: Decimal
    overflow_amount: Annotated[
        Decimal | None, Meta(description="Price of a GPU-hour beyond the commitment; null if nobody said.")
    ] = None

    @property
    def rate(self) -> Fraction:
        """Of a committed GPU-hour, with the upfront payment spread over the term."""
        return Fraction(self.amount) + Fraction(self.upfront) / (self.gpu_count * Fraction(exact(self.hours)))


class Schedule(Struct, frozen=True, kw_only=True):
    """What an estimate does not say of when its lines fall due."""

    start_at: Moment
    dataset_hours: Annotated[float | None, Meta(description="Null where the data set is kept as long as the run.")] = (
        None
    )
    term: Term | None = None


class Piece(Struct, frozen=True):
    """A weight evenly over a time, or all of it at one moment."""

    begin: datetime.datetime
    end: datetime.datetime
    weight: Fraction


class Frame(Struct, frozen=True):
    """The moments that matter. `covered` is the part of the run's GPUs that a commitment holds until its term ends,
    `spare` the part of the commitment that the run leaves free, `upfront` the part of its rate that is paid upfront.
    `rates` are the times at one rate each, with it as their weight, where a table's rate changes during the run."""

    start: datetime.datetime
    setup_end: datetime.datetime
    end: datetime.datetime
    kept_until: datetime.datetime | None
    term_start: datetime.datetime | None = None
    term_end: datetime.datetime | None = None
    covered: Fraction = Fraction(0)
    spare: Fraction = Fraction(1)
    upfront: Fraction = Fraction(0)
    rates: tuple[Piece, ...] = ()

    @property
    def last_moment(self) -> datetime.datetime:
        """The end belongs to the month that it ends."""
        return max(self.start, self.end - _MICROSECOND)

    @property
    def within(self) -> datetime.datetime:
        """Until when the run is within the term."""
        return self.end if self.term_end is None else max(self.start, min(self.end, self.term_end))


class Spread(Struct, frozen=True):
    """The shape of a line in time; none where it follows the others."""

    name: SpreadName
    pieces: tuple[Piece, ...]


def frame_of(answer: Estimate, schedule: Schedule, basis: Basis) -> Frame:
    with exact_arithmetic():
        start, expected = schedule.start_at, exact(answer.duration.expected_wall_clock_hours)
        setup = Decimal(0) if answer.duration.setup_hours is UNSET else exact(answer.duration.setup_hours)
        end = finish_after(start, expected)
        setup_end = min(finish_after(start, setup), end)
        kept = None if schedule.dataset_hours is None else finish_after(start, exact(schedule.dataset_hours))
        term, use = schedule.term, answer.commitment
        if term is None or use is UNSET:
            return Frame(start, setup_end, end, kept, rates=_rates(answer))
        committed = Fraction(term.gpu_count)
        run_gpu_hours = Fraction(exact(use.used_gpu_hours)) + Fraction(exact(use.overflow_gpu_hours))
        occupied = run_gpu_hours / Fraction(expected)
        paid_by_hour = committed * Fraction(exact(term.hours)) * Fraction(term.amount)
        upfront = Fraction(term.upfront)
        return Frame(
            start,
            setup_end,
            end,
            kept,
            term.starts_at,
            finish_after(term.starts_at, exact(term.hours)),
            min(Fraction(1), committed / occupied),
            max(Fraction(0), 1 - occupied / committed),
            upfront / (paid_by_hour + upfront) if basis == "paid" and upfront else Fraction(0),
        )


def spreads_of(answer: Estimate, frame: Frame) -> tuple[Spread, ...]:
    return tuple(_spread(line, frame) for line in answer.cost.lines)


def _spread(line: CostLine, frame: Frame) -> Spread:
    """The rule for one line."""
    name = _SPREADS.get(line.component, "whole_run")
    if line.component == "storage" and frame.kept_until is not None:
        name = "retention"
    if name == "overflow" or (name == "term" and (frame.term_start is None or frame.term_end is None)):
        pieces = (
            _piece(frame.start, frame.within, 1 - frame.covered),
            _piece(frame.within, frame.end, Fraction(1)),
        )
        return Spread("overflow" if name == "overflow" else "whole_run", _or_whole(pieces, frame))
    if name == "term":
        return Spread(name, _or_whole(_unused(frame), frame))
    if name in {"run", "setup"}:
        begin, end = (frame.start, frame.setup_end) if name == "setup" else (frame.setup_end, frame.end)
        return Spread(name, _gpu_time(begin, end, frame))
    if name == "in_proportion":
        return Spread(name, ())
    if name == "end":
        return Spread(name, (Piece(frame.last_moment, frame.last_moment, Fraction(1)),))
    kept_until = frame.kept_until if name == "retention" and frame.kept_until is not None else frame.end
    return Spread(name, (Piece(frame.start, kept_until, Fraction(1)),))


def _gpu_time(begin: datetime.datetime, end: datetime.datetime, frame: Frame) -> tuple[Piece, ...]:
    """Evenly, but for what was paid upfront of the hours within a commitment."""
    within = min(max(frame.within, begin), end)
    upfront = frame.upfront * frame.covered
    if frame.term_start is None or not upfront or begin == end:
        return _at_rates(begin, end, frame) or (Piece(begin, end, Fraction(1)),)
    paid_before = _piece(begin, within, upfront)
    return (
        Piece(frame.term_start, frame.term_start, paid_before.weight),
        _piece(begin, within, 1 - upfront),
        _piece(within, end, Fraction(1)),
    )


def _rates(answer: Estimate) -> tuple[Piece, ...]:
    """The times at one rate each, the last one without an end."""
    if answer.prices is UNSET or answer.prices.price is None:
        return ()
    found = [
        Piece(one.starts_at, one.ends_at, Fraction(one.price_per_gpu_hour)) for one in answer.prices.price.segments
    ]
    return (*found[:-1], Piece(found[-1].begin, _NEVER, found[-1].weight)) if found else ()


def _at_rates(begin: datetime.datetime, end: datetime.datetime, frame: Frame) -> tuple[Piece, ...]:
    """Each part at its own rate; nothing where there is one rate, or all of them are 0."""
    pieces = (_piece(max(begin, one.begin), min(end, one.end), one.weight) for one in frame.rates)
    return tuple(piece for piece in pieces if piece.weight)


def _unused(frame: Frame) -> tuple[Piece, ...]:
    """What a commitment leaves unused: all of it around the run, and what the run leaves free."""
    assert frame.term_start is not None
    assert frame.term_end is not None
    pieces = (
        _piece(frame.term_start, frame.start, Fraction(1)),
        _piece(frame.start, frame.within, frame.spare),
        _piece(frame.within, frame.term_end, Fraction(1)),
    )
    weight = sum((piece.weight for piece in pieces), Fraction(0))
    by_hour = tuple(Piece(piece.begin, piece.end, piece.weight * (1 - frame.upfront)) for piece in pieces)
    return (Piece(frame.term_start, frame.term_start, weight * frame.upfront), *by_hour)


def _piece(begin: datetime.datetime, end: datetime.datetime, per_time: Fraction) -> Piece:
    """By how long it is; nothing where it ends before it begins."""
    end = max(begin, end)
    return Piece(begin, end, per_time * ((end - begin) // _MICROSECOND))


def _or_whole(pieces: tuple[Piece, ...], frame: Frame) -> tuple[Piece, ...]:
    """The pieces that weigh anything; if none does, the whole run."""
    found = tuple(piece for piece in pieces if piece.weight)
    return found or (Piece(frame.start, frame.end, Fraction(1)),)


def weight_of(pieces: Sequence[Piece], begin: datetime.datetime, end: datetime.datetime) -> Fraction:
    return sum(
        (
            piece.weight * (share_over(piece.begin, piece.end, end) - share_over(piece.begin, piece.end, begin))
            for piece in pieces
        ),
        Fraction(0),
    )


def share_over(begin: datetime.datetime, end: datetime.datetime, moment: datetime.datetime) -> Fraction:
    """How much of a time is over at a moment; of no time, all once the moment lies behind it."""
    if begin == end:
        return Fraction(moment > begin)
    elapsed = min(max(moment, begin), end) - begin
    return Fraction(elapsed // _MICROSECOND, (end - begin) // _MICROSECOND)
