"""The tables of prices: a head, its revisions, and each revision's rates as the bytes that are answered."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from service.storage.base import metadata
from service.storage.columns import BigId, CodePointText, Document, Instant

_LIVE = text("deleted_at IS NULL")

price_tables = Table(
    "price_tables",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("project_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", CodePointText, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("description", Text, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("gaps", Document, nullable=False),
    Column("latest_number", Integer, nullable=False),  # 0 before the first revision
    Column("version", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("deleted_at", Instant),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="name_length"),
    CheckConstraint("length(currency) = 3", name="currency_length"),
    CheckConstraint("latest_number >= 0", name="latest_not_negative"),
    CheckConstraint("version >= 1", name="version_positive"),
    # A name is free again once its table is deleted.
    Index(
        "uq_price_tables_live_name",
        "project_id",
        "name_key",
        unique=True,
        postgresql_where=_LIVE,
        sqlite_where=_LIVE,
    ),
)

price_revisions = Table(
    "price_revisions",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("table_id", BigInteger, ForeignKey("price_tables.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("author", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("licence", Text, nullable=False),
    Column("as_of", Date),
    Column("content_hash", String(64), nullable=False),
    Column("rate_count", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("number >= 1", name="number_positive"),
    CheckConstraint("rate_count >= 0", name="rate_count_not_negative"),
    Index("uq_price_revisions_table_id_number", "table_id", "number", unique=True),
)

price_rates = Table(
    "price_rates",
    metadata,
    Column("revision_id", BigInteger, ForeignKey("price_revisions.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(20), nullable=False),
    Column("offer_key", CodePointText, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("accelerator", CodePointText),
    Column("provider", CodePointText, nullable=False),
    Column("region", CodePointText),
    Column("purchase", String(20)),
    Column("gpu_count", Float),
    Column("starts_on", Date, nullable=False),
    Column("valid_from", Date),
    Column("valid_to", Date),
    Column("words", Text, nullable=False),  # what q looks in, case folded
    Column("body", LargeBinary, nullable=False),
    Index("ix_price_rates_revision_id_accelerator", "revision_id", "accelerator", "provider", "position"),
    Index("ix_price_rates_revision_id_provider", "revision_id", "provider", "position"),
    Index("ix_price_rates_revision_id_offer_key", "revision_id", "offer_key", "digest"),
)

# Who relies on a table: it cannot be deleted while somebody does.
price_table_uses = Table(
    "price_table_uses",
    metadata,
    Column("table_id", BigInteger, ForeignKey("price_tables.id"), primary_key=True, autoincrement=False),
    Column("kind", String(40), primary_key=True),
    Column("used_by_id", BigInteger, primary_key=True, autoincrement=False),
)
