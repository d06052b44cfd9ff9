"""Rates in the database: written in bulk, listed by filters, read whole, over revisions, and compared."""

import datetime
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType
from sqlalchemy import ColumnElement, and_, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.aside import aside
from service.http.encoding import encoded
from service.http.paging import count_key, read_cursor, write_cursor
from service.prices.offers import accelerator_of, encoded_rate, offer_key, rate_digest, start_of
from service.prices.revision_store import Head
from service.prices.schemas import GpuRate, Rate
from service.prices.table_schemas import HistoryQuery, RateQuery, Revision
from service.prices.tables import price_rates, price_revisions

_C = price_rates.c
_R = price_revisions.c
# As many at a time as keeps a chunk's work on the event loop at a few milliseconds.
_CHUNK = 500
_NAMES = tuple(column.name for column in price_rates.columns)
# Only names from our own table stand in it.
_INSERT = f"INSERT INTO price_rates ({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"  # noqa: S608


_EQUAL = ("provider", "region", "purchase", "gpu_count", "kind")


class ListedRates(Struct, frozen=True):
    """A page as it is answered, and the cursor of the next."""

    body: bytes
    next_cursor: str | None


class _Page(Struct, frozen=True):
    """`table_schemas.RatePage` with the stored bytes in their place."""

    table: str
    currency: str
    revision: int
    revision_id: int
    as_of: datetime.date | None
    items: list[Raw]
    next_cursor: str | None


class _HistoryRow(Struct, frozen=True):
    revision: int
    revision_id: int
    revision_as_of: datetime.date | None
    created_at: datetime.datetime
    rate: Raw


class _HistoryPage(Struct, frozen=True):
    """`table_schemas.HistoryPage` with the stored bytes in their place."""

    table: str
    currency: str
    items: list[_HistoryRow]
    next_cursor: str | None


class Filters(Struct, frozen=True):
    """The filters of a list in the form in which the columns hold them."""

    accelerators: tuple[str, ...] = ()
    provider: str | None = None
    region: str | None = None
    purchase: str | None = None
    gpu_count: float | None = None
    kind: str | None = None

    @classmethod
    def of(cls, asked: RateQuery | HistoryQuery, accelerators: tuple[str, ...]) -> "Filters":
        """As they were asked, the accelerators found out by the caller."""
        return cls(
            accelerators,
            _folded(asked.provider),
            _folded(asked.region),
            None if asked.purchase is UNSET else asked.purchase,
            None if asked.gpu_count is UNSET else asked.gpu_count,
            None if asked.kind is UNSET else asked.kind,
        )

    def conditions(self) -> list[ColumnElement[bool]]:
        """Each filter that was given, as a condition."""
        conditions = [_C[name] == value for name in _EQUAL if (value := getattr(self, name)) is not None]
        if len(self.accelerators) == 1:  # an equality keeps the order of the index
            return [_C.accelerator == self.accelerators[0], *conditions]
        return [_C.accelerator.in_(self.accelerators), *conditions] if self.accelerators else conditions


async def insert_rates(connection: AsyncConnection, revision_id: int, rates: Sequence[Rate]) -> None:
    """All rates of a new revision, in their order. Rows are made in a thread, a chunk at a time."""
    numbered = enumerate(rates)
    write = _insert_on_sqlite if connection.dialect.name == "sqlite" else _copy_to_postgresql
    while rows := await aside(_rows, revision_id, list(islice(numbered, _CHUNK)), connection.dialect.name):
        await write(connection, rows)


async def list_rates(
    connection: AsyncConnection, revision: Revision, asked: RateQuery, accelerators: tuple[str, ...]
) -> ListedRates:
    """One page of a revision's rates, in its order."""
    filters = Filters.of(asked, accelerators)
    q = None if asked.q is UNSET else asked.q
    as_of = None if asked.as_of is UNSET else asked.as_of
    question = [revision.id, filters, q, as_of]
    statement = select(_C.position, _C.body).where(_C.revision_id == revision.id, *filters.conditions())
    if q is not None:
        statement = statement.where(_C.words.contains(q.casefold(), autoescape=True))
    if as_of is not None:
        statement = statement.where(_holding(as_of))
    if asked.cursor is not UNSET:
        statement = statement.where(_C.position > read_cursor(asked.cursor, question, (count_key,))[0])
    rows = (await connection.execute(statement.order_by(_C.position).limit(asked.limit + 1))).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].position]) if len(rows) > len(page) else None
    answer = _Page(
        revision.table,
        revision.currency,
        revision.number,
        revision.id,
        as_of,
        [Raw(row.body) for row in page],
        cursor,
    )
    return ListedRates(encoded(answer), cursor)


async def list_history(
    connection: AsyncConnection, head: Head, asked: HistoryQuery, accelerators: tuple[str, ...]
) -> ListedRates:
    """One page of the rates that pass, in every revision that has them, the newest revision first."""
    filters = Filters.of(asked, accelerators)
    question = [head.id, filters]
    statement = (
        select(_R.number, _R.id, _R.as_of, _R.created_at, _C.position, _C.body)
        .join(price_revisions, _C.revision_id == _R.id)
        .where(_R.table_id == head.id, *filters.conditions())
    )
    if asked.cursor is not UNSET:
        number, position = read_cursor(asked.cursor, question, (count_key, count_key))
        statement = statement.where(
            or_(_R.number < number, and_(_R.number == number, _C.position > position)), _R.number <= number
        )
    statement = statement.order_by(_R.number.desc(), _C.position).limit(asked.limit + 1)
    rows = (await connection.execute(statement)).all()
    page = rows[: asked.limit]
    cursor = write_cursor(question, [page[-1].number, page[-1].position]) if len(rows) > len(page) else None
    items = [_HistoryRow(row.number, row.id, row.as_of, row.created_at, Raw(row.body)) for row in page]
    return ListedRates(encoded(_HistoryPage(head.name, head.currency, items, cursor)), cursor)


async def read_bodies(connection: AsyncConnection, revision_id: int) -> AsyncIterator[list[bytes]]:
    """Every rate of a revision as it is stored, in order, a chunk at a time."""
    last = -1
    while True:
        rows = (
            await connection.execute(
                select(_C.position, _C.body)
                .where(_C.revision_id == revision_id, _C.position > last)
                .order_by(_C.position)
                .limit(_CHUNK)
            )
        ).all()
        if not rows:
            return
        last = rows[-1].position
        yield [row.body for row in rows]


def _holding(as_of: datetime.date) -> ColumnElement[bool]:
    """`lookup.holding_rates` as a condition: it holds on the day, and none of the same offer replaces it."""
    other = price_rates.alias("other")
    better = or_(
        and_(other.c.starts_on <= as_of, or_(_C.starts_on > as_of, other.c.starts_on > _C.starts_on)),
        and_(other.c.starts_on > as_of, _C.starts_on > as_of, other.c.starts_on < _C.starts_on),
    )
    replaced = (
        select(literal(1))
        .where(
            other.c.revision_id == _C.revision_id,
            other.c.offer_key == _C.offer_key,
            _effective(other.c, as_of),
            better,
        )
        .exists()
    )
    return and_(_effective(_C, as_of), ~replaced)


def _effective(columns: Any, as_of: datetime.date) -> ColumnElement[bool]:
    return and_(
        or_(columns.valid_from.is_(None), columns.valid_from <= as_of),
        or_(columns.valid_to.is_(None), columns.valid_to > as_of),
    )


def _rows(revision_id: int, numbered: list[tuple[int, Rate]], dialect: str) -> list[tuple[Any, ...]]:
    """Rows in the order of the columns, in the driver's own types: the framework's are ten times slower."""
    day = _day_of_sqlite if dialect == "sqlite" else _day_of_postgresql
    rows = []
    for position, rate in numbered:
        body = encoded_rate(rate)
        gpu = rate if isinstance(rate, GpuRate) else None
        accelerator = None if gpu is None else accelerator_of(gpu)
        words = (
            accelerator,
            rate.provider,
            rate.region,
            *(() if gpu is None else (gpu.accelerator_name, gpu.instance, gpu.purchase_word)),
        )
        rows.append(
            (
                revision_id,
                position,
                rate.__struct_config__.tag,
                offer_key(rate),
                rate_digest(body),
                accelerator,
                rate.provider.casefold(),
                None if rate.region is None else rate.region.casefold(),
                None if gpu is None else gpu.purchase,
                None if gpu is None or gpu.gpu_count is None else float(gpu.gpu_count),
                day(start_of(rate)),
                day(rate.valid_from),
                day(rate.valid_to),
                " ".join(word for word in words if word).casefold(),
                body,
            )
        )
    return rows


def _day_of_sqlite(day: datetime.date | None) -> str | None:
    return None if day is None else day.isoformat()


def _day_of_postgresql(day: datetime.date | None) -> datetime.date | None:
    return day


async def _insert_on_sqlite(connection: AsyncConnection, rows: list[tuple[Any, ...]]) -> None:
    await connection.exec_driver_sql(_INSERT, rows)


async def _copy_to_postgresql(connection: AsyncConnection, rows: list[tuple[Any, ...]]) -> None:
    """COPY, within the transaction that is open: three times as fast as INSERT."""
    raw = await connection.get_raw_connection()
    driver: Any = raw.driver_connection
    await driver.copy_records_to_table("price_rates", records=rows, columns=_NAMES)


def _folded(text: str | UnsetType) -> str | None:
    return None if text is UNSET else text.casefold()
