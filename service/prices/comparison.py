"""What changed between two revisions of a table, rate by rate: found by the database, paired here."""

import datetime
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

from msgspec import UNSET
from sqlalchemy import CTE, case, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from service.http.paging import count_key, read_cursor, text_key, write_cursor
from service.money import Money, exact_arithmetic, number
from service.prices.offers import decode_rate, start_of
from service.prices.schemas import EgressRate, GpuRate, Rate
from service.prices.table_schemas import Comparison, ComparisonQuery, RateChange, Revision
from service.prices.tables import price_rates
from service.units import PERCENT

_C = price_rates.c
_BEFORE, _AFTER = 0, 1


async def compare_revisions(
    connection: AsyncConnection, before: Revision, after: Revision, asked: ComparisonQuery
) -> Comparison:
    """A page of what was added, removed or changed, in the order of the offers, and how much there is in all.

    Rates that are the same to the byte are left out. Of what is left, an offer's old and new rates are paired, those
    that begin on the same day first, then the newest with the newest: a pair is a change, what finds no partner was
    added or removed.
    """
    question = [before.id, after.id]
    first_key, skipped = "", 0
    if asked.cursor is not UNSET:
        first_key, skipped = read_cursor(asked.cursor, question, (text_key, count_key))
    differing = _differing(before.id, after.id)
    changes = [
        (key, place, change)
        for key, rows in groupby(
            await _rows_from(connection, differing, first_key, asked.limit), key=lambda row: row[0]
        )
        for place, change in enumerate(_paired(list(rows)))
        if key != first_key or place >= skipped
    ]
    page, rest = changes[: asked.limit], changes[asked.limit :]
    return Comparison(
        after.table,
        after.currency,
        before.number,
        after.number,
        *await _count(connection, differing),
        tuple(change for *_, change in page),
        write_cursor(question, [rest[0][0], rest[0][1]]) if rest else None,
    )


def _differing(before_id: int, after_id: int) -> CTE:
    """The rates of either revision that the other does not hold to the byte."""

    def only_in(side: int, one: int, other: int) -> Any:
        there = price_rates.alias()
        same = (
            select(literal(1))
            .where(there.c.revision_id == other, there.c.offer_key == _C.offer_key, there.c.digest == _C.digest)
            .exists()
        )
        columns = (literal(side).label("side"), _C.revision_id, _C.offer_key, _C.position)
        return select(*columns).where(_C.revision_id == one, ~same)

    both = union_all(only_in(_BEFORE, before_id, after_id), only_in(_AFTER, after_id, before_id))
    return both.cte("differing")


async def _rows_from(connection: AsyncConnection, differing: CTE, first_key: str, limit: int) -> Sequence[Any]:
    """The differing rates of enough offers for a page, as offer, side and body."""
    d = differing.c
    keys = (
        select(d.offer_key).where(d.offer_key >= first_key).distinct().order_by(d.offer_key).limit(limit + 2)
    ).subquery()
    statement = (
        select(d.offer_key, d.side, _C.body)
        .join(keys, keys.c.offer_key == d.offer_key)
        .join(price_rates, (_C.revision_id == d.revision_id) & (_C.position == d.position))
        .order_by(d.offer_key, d.side, d.position)
    )
    return (await connection.execute(statement)).all()


async def _count(connection: AsyncConnection, differing: CTE) -> tuple[int, int, int]:
    """How many were added, removed and changed in all, by the same pairing."""
    old = func.sum(1 - differing.c.side)
    new = func.sum(differing.c.side)
    by_offer = (
        select(
            case((new > old, new - old), else_=0).label("added"),
            case((old > new, old - new), else_=0).label("removed"),
            case((old < new, old), else_=new).label("changed"),
        )
        .group_by(differing.c.offer_key)
        .subquery()
    )
    sums = (func.coalesce(func.sum(column), 0) for column in by_offer.c)
    added, removed, changed = (await connection.execute(select(*sums))).one()
    return int(added), int(removed), int(changed)


def _paired(rows: list[Any]) -> Iterator[RateChange]:
    """An offer's old rates with its new ones: those that begin on the same day, then the newest with the newest."""
    old, new = ([decode_rate(row.body) for row in rows if row.side == side] for side in (_BEFORE, _AFTER))
    begun: dict[datetime.date, list[Rate]] = {}
    for rate in reversed(new):
        begun.setdefault(start_of(rate), []).append(rate)
    pairs = [(rate, begun[start_of(rate)].pop()) for rate in old if begun.get(start_of(rate))]
    paired = {id(rate) for pair in pairs for rate in pair}
    left = ([rate for rate in side if id(rate) not in paired] for side in (old, new))
    for before, after in [*pairs, *zip_longest(*left)]:
        if before is None:
            yield RateChange("added", None, after, (), None)
        elif after is None:
            yield RateChange("removed", before, None, (), None)
        else:
            fields = tuple(name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name))
            yield RateChange("changed", before, after, fields, _percent(_price(before), _price(after)))


def _price(rate: Rate) -> Money | None:
    if isinstance(rate, GpuRate):
        return rate.price_per_gpu_hour
    return rate.price_per_gb if isinstance(rate, EgressRate) else rate.price_per_gb_month


def _percent(before: Money | None, after: Money | None) -> float | None:
    if not before or after is None:
        return None
    with exact_arithmetic():
        return number((after - before) * PERCENT / before)
