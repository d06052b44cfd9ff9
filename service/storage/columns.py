"""Column types that mean the same on SQLite and PostgreSQL."""

import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Integer, Numeric, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect

_MILLIONTHS = 6

# SQLite numbers rows by itself only where the type is INTEGER.
BigId = BigInteger().with_variant(Integer, "sqlite")

# Sorted and compared by code point on both; a PostgreSQL locale would order names in its own way.
CodePointText = Text().with_variant(Text(collation="C"), "postgresql")

Document = JSON().with_variant(JSONB(), "postgresql")


class Amount(TypeDecorator[Decimal]):
    """Exact money: NUMERIC(18, 6) on PostgreSQL, an INTEGER of millionths on SQLite, whose NUMERIC is a float."""

    impl = Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        kind = BigInteger() if dialect.name == "sqlite" else Numeric(18, _MILLIONTHS)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        millionths = value.scaleb(_MILLIONTHS)
        if millionths != millionths.to_integral_value():
            raise ValueError("an amount of money has at most 6 fraction digits")
        return int(millionths)

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        if value is None or dialect.name != "sqlite":
            return value  # type: ignore[no-any-return]  # PostgreSQL gives a Decimal
        return Decimal(value).scaleb(-_MILLIONTHS)


class Instant(TypeDecorator[datetime.datetime]):
    """A point in time, aware and in UTC on both; SQLite stores it without an offset."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime.datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime is no point in time")
        in_utc = value.astimezone(datetime.UTC)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime.datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            return value.replace(tzinfo=datetime.UTC)  # type: ignore[no-any-return]
        return value.astimezone(datetime.UTC)  # type: ignore[no-any-return]
