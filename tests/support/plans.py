"""Estimates to be spread over months, compared and measured against: real ones, and synthetic ones of any lines."""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from service.estimates.operations import estimate
from service.estimator.results import Component, Cost, CostLine, Duration, Estimate, UnitCosts
from service.money import MINOR_DIGITS, to_minor_unit
from service.scenarios.arithmetic.phasing import schedule_of
from service.scenarios.arithmetic.spreads import Schedule
from tests.support.bills import a_run, request_of


def at(text: str) -> datetime.datetime:
    """A moment in UTC: `at("2027-01-04")`, `at("2027-01-04T09:00")`."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def planned(start: str, **sections: Any) -> tuple[Estimate, Schedule]:
    """What a run is estimated at, and when it falls due."""
    request = request_of(a_run(**{"start_at": f"{at(start):%Y-%m-%dT%H:%M:%SZ}", **sections}))
    return estimate(request), schedule_of(request)


TOKENS = 3.6e9


def by_tokens(**sections: Any) -> tuple[Estimate, Schedule]:
    """TOKENS at 1,000 a second: 8 GPUs at 2.00 for 1,000 h from 1 January 2027, 16,000 in all, 16 an hour."""
    work = {"kind": "throughput", "tokens": TOKENS, "tokens_per_second": 1000, "per": "cluster", "overhead_percent": 0}
    return planned("2027-01-01", **{"work": work, **sections})


def a_line(component: Component, amount: Decimal | str, quantity: float = 1.0) -> CostLine:
    """A line of which only component, amount and quantity matter."""
    return CostLine(component, component, quantity, "unit", Decimal(1), Decimal(amount), "for a test")


def an_estimate(
    lines: Sequence[CostLine],
    currency: str = "USD",
    hours: float = 100.0,
    setup_hours: float | UnsetType = UNSET,
    gpu_hours: float = 800.0,
) -> Estimate:
    """An estimate of these lines and hours."""
    none = to_minor_unit(Decimal(0), currency)
    total = sum((line.amount for line in lines), none)
    contingency = sum((line.amount for line in lines if line.component == "contingency"), none)
    return Estimate(
        Cost(
            currency, total, total, none, none, none, none, None, None, tuple(lines),
            expected_total=total - contingency if contingency else UNSET,
        ),
        Duration(hours, hours, hours / 24, hours, hours / 24, None, setup_hours=setup_hours),
        gpu_hours,
        gpu_hours,
        UnitCosts(Decimal(1), Decimal(1), None),
        None,
        (),
        (),
        "1.0.0",
    )  # fmt: skip


_LISTED: tuple[Component, ...] = (
    "compute", "overhead", "rework_hardware", "rework_spot_fallback", "idle_setup", "idle_spares", "storage",
    "storage_filesystem", "storage_checkpoints", "egress", "commitment_overflow", "commitment_unused",
)  # fmt: skip

currencies = st.sampled_from(["USD", "EUR", "JPY", "KWD"])
starts = st.datetimes(
    min_value=datetime.datetime(1999, 12, 1),  # noqa: DTZ001  # hypothesis adds the zone
    max_value=datetime.datetime(2101, 3, 1),  # noqa: DTZ001
    timezones=st.just(datetime.UTC),
) | st.sampled_from(
    [at("2028-02-29T23:59:59"), at("2027-02-28T12:00"), at("2100-02-28"), at("2027-12-31T23:00"), at("2027-01-01")]
)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    """Lines of every kind in any of the currencies, over nothing to two years."""
    currency = draw(currencies)
    digits = MINOR_DIGITS[currency]

    def amount(low: int, high: int) -> Decimal:
        return Decimal(draw(st.integers(low, high))).scaleb(-digits)

    listed = draw(st.lists(st.sampled_from(_LISTED), min_size=1, max_size=8))
    lines = [a_line(component, amount(0, 10**9), 700.0) for component in listed]
    total = sum(line.amount for line in lines)
    due = total
    for component in ("discount", "credits"):
        share = Decimal(draw(st.integers(0, 1000))) / 1000
        off = to_minor_unit(due * share, currency)
        due -= off
        lines.append(a_line(component, -off))
    lines.append(a_line("tax", to_minor_unit(due * Decimal("0.19"), currency)))
    lines.append(a_line("contingency", amount(0, 10**6)))
    hours = draw(st.sampled_from([0.0, 1e-9, 0.5, 744.0, 17_544.0]) | st.floats(0, 20_000))
    setup = draw(st.just(UNSET) | st.floats(0, 1).map(lambda share: share * hours))
    return an_estimate(lines, currency, hours, setup)
