"""The table of scenarios: the answer as the bytes that were sent, the searched columns beside it."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from service.storage.base import metadata
from service.storage.columns import Amount, BigId, CodePointText, Document, Instant

_LIVE = text("deleted_at IS NULL")

scenarios = Table(
    "scenarios",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("project_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", CodePointText, nullable=False),
    Column("description", Text, nullable=False),
    Column("labels", Document, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("estimate", LargeBinary, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("total", Amount, nullable=False),
    Column("model_version", String(40), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("deleted_at", Instant),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="name_length"),
    CheckConstraint("length(currency) = 3", name="currency_length"),
    CheckConstraint("total >= 0", name="total_not_negative"),
    CheckConstraint("version >= 1", name="version_positive"),
    # A name is free again once its scenario is deleted.
    Index(
        "uq_scenarios_live_name",
        "project_id",
        "name_key",
        unique=True,
        postgresql_where=_LIVE,
        sqlite_where=_LIVE,
    ),
    Index("ix_scenarios_project_id_created_at_id", "project_id", "created_at", "id"),
    Index("ix_scenarios_project_id_updated_at_id", "project_id", "updated_at", "id"),
)
