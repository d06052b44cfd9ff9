"""What is left of a run under way: how fast it goes on, and what it still costs.

* **Rate.** Work a GPU-hour and work an hour since the first record, planned set-up left out of both, once there is
  enough: a twentieth of the work, or a week of it. Until then the plan's. One or the other and no blend, for the weight
  of a blend would be a number that nobody has measured. Periods in which nothing ran are not of the hours: the rest is
  taken to go on without a pause.
* **Price.** What was paid against what the plan would have cost for the GPU-hours that were billed, storage and the
  like as planned for the hours since the first record; known as soon as the rate is. Before that the plan's. Of periods
  in which nothing ran neither what was paid nor what was planned counts, so that a pause makes nothing cheaper.
* **The end.** Once the work is done, the run is over: what later records say of hours and of work changes nothing, and
  of money only what is kept and what a commitment leaves unused is still to come.
* **What is left.** GPU time by GPU-hours, beyond a commitment at the price beyond it, storage by hours, a kept data set
  as the plan has it after the last record, a commitment's unused time until the term ends, egress whole until the work
  is done; all with the plan's discount, credits and tax in proportion.
"""

import datetime
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct

from service.estimator.results import Estimate, Note
from service.estimator.uncertainty import LARGEST_AMOUNT
from service.money import exact
from service.scenarios.arithmetic.actuals import ActualRecord, Baseline, ToDate, baseline_of, hours_between, is_pause
from service.scenarios.arithmetic.phasing import lines_until
from service.scenarios.arithmetic.spreads import Frame, Schedule, SpreadName, Term, frame_of, spreads_of

ENOUGH_SHARE = Fraction(1, 20)
ENOUGH_HOURS = 168
_ANYTHING = Fraction(1, 1_000_000)  # of the plan's: below it, nothing can be said of a rate

RateBasis = Literal["observed", "plan"]

_NO_PRICE = Note(
    "price-unknown",
    "warning",
    "What was paid, storage and the like as planned apart, cannot be set against a planned price of GPU time.",
)
_NO_OVERFLOW_PRICE = Note(
    "overflow-price-unknown", "warning", "The run goes beyond its commitment, and no price beyond it was given."
)


class Pace(Struct, frozen=True, kw_only=True):
    """What is left to do and how fast; `setup_left` is the part of the set-up that is still to come, `paused` the hours
    that were left out of the rate."""

    basis: RateBasis
    per_hour: Fraction
    per_gpu_hour: Fraction | None
    work_left: Fraction
    setup_left: Fraction
    hours_left: Fraction
    gpu_hours_left: Fraction | None
    paused: Fraction

    @property
    def is_over(self) -> bool:
        """Whether all of the work is done."""
        return not self.work_left


class Rest(Struct, frozen=True):
    """What is still to be paid, and the price of GPU time over the plan's; None, with a note, where nobody can tell."""

    cost: Fraction | None
    price: Fraction | None
    notes: tuple[Note, ...] = ()


def pace_of(plan: Baseline, done: ToDate) -> Pace:
    """The rate that was seen if there is enough of it, else the plan's. Of a run that is over: until it was."""
    assert done.work is not None
    paused = _hours_of(record for record in done.records if is_pause(record, plan.unit))
    elapsed = _hours_of(done.records) - paused
    hours = elapsed - plan.setup_hours
    gpu_hours = None if done.gpu_hours is None else done.gpu_hours - plan.setup_gpu_hours
    is_week = hours >= ENOUGH_HOURS and done.work >= plan.work * _ANYTHING
    observed = (done.work >= plan.work * ENOUGH_SHARE or is_week) and hours > 0
    if gpu_hours is not None and gpu_hours < plan.run_gpu_hours * _ANYTHING:
        observed = False
    per_hour, per_gpu_hour, setup_left = plan.work_per_hour, plan.work_per_gpu_hour, Fraction(0)
    is_cost_known = True
    if observed:
        per_hour, is_cost_known = done.work / hours, gpu_hours is not None
        per_gpu_hour = per_gpu_hour if gpu_hours is None else done.work / gpu_hours
    elif plan.setup_hours and not done.work:
        setup_left = max(Fraction(0), 1 - elapsed / plan.setup_hours)
    work_left = max(Fraction(0), plan.work - done.work)
    gpu_hours_left = work_left / per_gpu_hour + plan.setup_gpu_hours * setup_left
    is_left_known = is_cost_known or not work_left
    return Pace(
        basis="observed" if observed else "plan",
        per_hour=per_hour,
        per_gpu_hour=per_gpu_hour if is_cost_known else None,
        work_left=work_left,
        setup_left=setup_left,
        hours_left=work_left / per_hour + plan.setup_hours * setup_left,
        gpu_hours_left=gpu_hours_left if is_left_known else None,
        paused=paused,
    )


def rest_of(answer: Estimate, schedule: Schedule, done: ToDate, now: datetime.datetime, pace: Pace) -> Rest:
    """The price of GPU time, and what the rest costs at it. `now` is until when all is paid, `done` what was until the
    run was over."""
    if pace.gpu_hours_left is None:
        return Rest(None, None)
    found = _price_seen(answer, schedule, done) if pace.basis == "observed" else Fraction(1)
    price = None if isinstance(found, Note) else found
    if isinstance(found, Note) and not pace.is_over:
        return Rest(None, None, (found,))
    # Of a run that is over no GPU time is left, whatever its price was.
    cost = _Bill.of(answer, schedule, now).cost_left(pace, price or Fraction(1), now)
    if cost is None:
        return Rest(None, price, (_NO_OVERFLOW_PRICE,))
    if cost >= LARGEST_AMOUNT:
        return Rest(None, price, (Note("too-large", "warning", "The rest costs more than an amount of money holds."),))
    return Rest(cost, price)


def _price_seen(answer: Estimate, schedule: Schedule, done: ToDate) -> Fraction | Note:
    """The price that was paid for GPU time over the plan's, or why nobody can tell."""
    assert done.known_until is not None
    if done.gpu_hours is None:
        return _NO_PRICE
    unit = baseline_of(answer).unit
    pauses = [record for record in done.records if is_pause(record, unit)]
    ran = [record for record in done.records if not is_pause(record, unit)]
    bill, beyond = _Bill.of(answer, schedule, done.known_until, pauses), Fraction(0)
    for record in ran:
        if record.gpu_hours:
            hours = hours_between(record.period_start, record.period_end)
            extra = bill.beyond(record.period_start, hours, Fraction(exact(record.gpu_hours)))
            if extra is None:
                return _NO_OVERFLOW_PRICE
            beyond += extra
    paid = sum((Fraction(record.amount) for record in ran), Fraction(0))
    found = bill.find_price(paid, _hours_of(ran), done.gpu_hours, beyond)
    return _NO_PRICE if found is None else found


def _hours_of(records: Iterable[ActualRecord]) -> Fraction:
    return sum((hours_between(record.period_start, record.period_end) for record in records), Fraction(0))


class _Part(Struct, frozen=True):
    """The plan's lines of one shape: in all, until now, and of that within the pauses."""

    whole: Fraction = Fraction(0)
    until_now: Fraction = Fraction(0)
    paused: Fraction = Fraction(0)


class _Bill(Struct, frozen=True, kw_only=True):
    """The plan's list prices by their shape in time, contingency apart, and what turns a list price into a paid one."""

    plan: Baseline
    frame: Frame
    term: Term | None
    parts: dict[SpreadName, _Part]
    expected_hours: Fraction

    @classmethod
    def of(
        cls, answer: Estimate, schedule: Schedule, now: datetime.datetime, pauses: Sequence[ActualRecord] = ()
    ) -> "_Bill":
        edges = [edge for pause in pauses for edge in (pause.period_start, pause.period_end)]
        rows = lines_until(answer, schedule, [now, *edges])
        frame = frame_of(answer, schedule, "amortised")
        parts: dict[SpreadName, _Part] = {}
        for index, (line, shape) in enumerate(zip(answer.cost.lines, spreads_of(answer, frame), strict=True)):
            if line.component != "contingency":
                until_now, *by_edge = (Fraction(row[index]) for row in rows)
                before = parts.get(shape.name, _Part())
                parts[shape.name] = _Part(
                    before.whole + Fraction(line.amount),
                    before.until_now + until_now,
                    before.paused + sum(by_edge[1::2]) - sum(by_edge[::2]),
                )
        return cls(
            plan=baseline_of(answer),
            frame=frame,
            term=None if frame.term_end is None else schedule.term,
            parts=parts,
            expected_hours=Fraction(exact(answer.duration.expected_wall_clock_hours)),
        )

    def part(self, name: SpreadName) -> _Part:
        return self.parts.get(name, _Part())

    @property
    def net(self) -> Fraction:
        """What is paid of a list price, by the plan's discount, credits and tax."""
        terms = self.part("in_proportion").whole
        listed = sum((part.whole for part in self.parts.values()), Fraction(0)) - terms
        return (listed + terms) / listed if listed else Fraction(1)

    @property
    def per_gpu_hour(self) -> Fraction:
        """Of a GPU-hour after set-up, the price beyond a commitment apart."""
        return self.part("run").whole / self.plan.run_gpu_hours

    def find_price(self, paid: Fraction, hours: Fraction, gpu_hours: Fraction, beyond: Fraction) -> Fraction | None:
        """The price that was paid for GPU time over the plan's, pauses left out of what was paid and of the hours; None
        where the two cannot be compared."""
        planned = self.part("setup").whole + self.per_gpu_hour * (gpu_hours - self.plan.setup_gpu_hours) + beyond
        by_hour = self.part("whole_run").whole * min(Fraction(1), hours / self.expected_hours)
        by_calendar = (self.part("retention"), self.part("term"))
        others = by_hour + sum((part.until_now - part.paused for part in by_calendar), Fraction(0))
        for_gpu_time = paid - self.net * others
        return for_gpu_time / (self.net * planned) if for_gpu_time > 0 and self.net * planned > 0 else None

    def cost_left(self, pace: Pace, price: Fraction, now: datetime.datetime) -> Fraction | None:
        """What is still to be paid; None where it lies beyond a commitment, at a price that nobody said."""
        assert pace.gpu_hours_left is not None
        beyond = self.beyond(now, pace.hours_left, pace.gpu_hours_left)
        if beyond is None:
            return None
        gpu_time = self.part("setup").whole * pace.setup_left
        if not pace.is_over:
            assert pace.per_gpu_hour is not None
            gpu_time += self.per_gpu_hour * pace.work_left / pace.per_gpu_hour
        by_hour = self.part("whole_run").whole * pace.hours_left / self.expected_hours
        kept = self.part("retention").whole - self.part("retention").until_now
        at_end = Fraction(0) if pace.is_over else self.part("end").whole
        return self.net * (price * (gpu_time + beyond) + by_hour + kept + self.unused_after(now, pace) + at_end)

    # --------------------------------------------------------------------------------------- a commitment

    def beyond(self, begin: datetime.datetime, hours: Fraction, gpu_hours: Fraction) -> Fraction | None:
        """What GPU-hours from a moment on cost more because a commitment does not cover them: all of them after its
        term, before that those over its count. None where no price says it."""
        if self.term is None:
            all_gpu_hours = self.plan.run_gpu_hours + self.plan.setup_gpu_hours
            return self.part("overflow").whole * gpu_hours / all_gpu_hours
        within = min(hours, self._term_left(begin))
        over = hours - self.frame.covered * within
        if not over:
            return Fraction(0)
        if self.term.overflow_amount is None:
            return None
        extra = Fraction(self.term.overflow_amount) - self.term.rate
        return gpu_hours * over / hours * extra

    def unused_after(self, now: datetime.datetime, pace: Pace) -> Fraction:
        """What a commitment leaves unused until its term ends, where the run is billed for all of it."""
        unused = self.part("term")
        if self.term is None or not unused.whole:
            return unused.whole - unused.until_now
        left = self._term_left(now)
        used = (1 - self.frame.spare) * min(pace.hours_left, left)
        return self.term.gpu_count * (left - used) * self.term.rate

    def _term_left(self, moment: datetime.datetime) -> Fraction:
        assert self.frame.term_end is not None
        return max(Fraction(0), hours_between(moment, self.frame.term_end))
