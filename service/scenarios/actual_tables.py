"""The table of what was paid: one row a period of a scenario, deleted ones kept."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Date,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    text,
)

from service.storage.base import metadata
from service.storage.columns import Amount, BigId, Instant

_LIVE = text("deleted_at IS NULL")

actuals = Table(
    "scenario_actuals",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("project_id", BigInteger, nullable=False),
    Column("scenario_id", BigInteger, ForeignKey("scenarios.id"), nullable=False),
    Column("period_start", Date, nullable=False),
    Column("period_end", Date, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("amount", Amount, nullable=False),
    Column("gpu_hours", Double),
    Column("tokens_done", Double),
    Column("productive_gpu_hours", Double),
    Column("note", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("deleted_at", Instant),
    CheckConstraint("period_end > period_start", name="period_has_days"),
    CheckConstraint("version >= 1", name="version_positive"),
    Index(
        "uq_scenario_actuals_live_period",
        "scenario_id",
        "period_start",
        unique=True,
        postgresql_where=_LIVE,
        sqlite_where=_LIVE,
    ),
)
