"""The tables of scenarios: heads that can be described anew, revisions that never change, labels to find them by, and
links that show one revision. An answer is kept as the bytes that were sent, the searched columns beside it."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
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

# Currency, total and model version are those of the newest revision, so that a list reads this table alone.
scenarios = Table(
    "scenarios",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("project_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", CodePointText, nullable=False),
    Column("description", Text, nullable=False),
    Column("words", CodePointText, nullable=False),  # name and description, folded, for searches
    Column("labels", Document, nullable=False),
    Column("status", String(10), nullable=False),
    Column("owner", CodePointText),
    Column("cost_centre", CodePointText),
    Column("planned_start", Instant),
    Column("budget_amount", Amount),
    Column("budget_currency", String(3)),
    Column("latest_number", Integer, nullable=False),
    Column("approved_number", Integer),  # null unless approved
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
    CheckConstraint("status IN ('draft', 'approved', 'archived')", name="status_known"),
    CheckConstraint("latest_number >= 1", name="latest_positive"),
    CheckConstraint("(budget_amount IS NULL) = (budget_currency IS NULL)", name="budget_whole"),
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
    Index("ix_scenarios_project_id_total_id", "project_id", "total", "id"),
    Index("ix_scenarios_project_id_owner_name_key", "project_id", "owner", "name_key"),
    Index("ix_scenarios_project_id_cost_centre_name_key", "project_id", "cost_centre", "name_key"),
)

# A trigger of its migration refuses every UPDATE.
scenario_revisions = Table(
    "scenario_revisions",
    metadata,
    Column("scenario_id", BigInteger, ForeignKey("scenarios.id"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("request", LargeBinary, nullable=False),
    Column("estimate", LargeBinary, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("total", Amount, nullable=False),
    Column("model_version", String(40), nullable=False),
    # What was used, whatever the request left open; null where no price table was read.
    Column("price_table", Text),
    Column("price_revision", Integer),
    Column("price_revision_id", BigInteger),
    Column("price_as_of", Date),
    Column("exchange", LargeBinary),
    Column("restored_from", Integer),
    Column("author", Text),  # null where it was saved before that was kept
    Column("key_id", String(12)),
    Column("note", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("number >= 1", name="number_positive"),
    CheckConstraint("total >= 0", name="total_not_negative"),
)

# With the name and the owner of the scenario, so that those with a label are found in the order of a list.
scenario_labels = Table(
    "scenario_labels",
    metadata,
    Column("scenario_id", BigInteger, ForeignKey("scenarios.id"), primary_key=True, autoincrement=False),
    Column("key", CodePointText, primary_key=True),
    Column("value", CodePointText, nullable=False),
    Column("project_id", BigInteger, nullable=False),
    Column("name_key", CodePointText, nullable=False),
    Column("owner", CodePointText),
    Index("ix_scenario_labels_project_id_key_value_name_key", "project_id", "key", "value", "name_key", "scenario_id"),
    Index(
        "ix_scenario_labels_project_id_key_value_owner_name_key",
        "project_id",
        "key",
        "value",
        "owner",
        "name_key",
        "scenario_id",
    ),
)

scenario_shares = Table(
    "scenario_shares",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("scenario_id", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),  # of the token, which nobody has but whoever was given it
    Column("note", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("revoked_at", Instant),
    CheckConstraint("length(digest) = 32", name="digest_length"),
    ForeignKeyConstraint(
        ["scenario_id", "number"],
        ["scenario_revisions.scenario_id", "scenario_revisions.number"],
        name="fk_scenario_shares_scenario_id_scenario_revisions",
    ),
    Index("uq_scenario_shares_digest", "digest", unique=True),
    Index("ix_scenario_shares_scenario_id_id", "scenario_id", "id"),
)
