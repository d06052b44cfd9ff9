"""Scenarios: a named request, and the answer as the bytes that were sent."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_CODE_POINT_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_AMOUNT = sa.Numeric(18, 6).with_variant(sa.BigInteger(), "sqlite")
_INSTANT = sa.DateTime(timezone=True)
_LIVE = sa.text("deleted_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "scenarios",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", _CODE_POINT_TEXT, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("labels", _DOCUMENT, nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("estimate", sa.LargeBinary(), nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("total", _AMOUNT, nullable=False),
        sa.Column("model_version", sa.String(40), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("deleted_at", _INSTANT, nullable=True),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name=op.f("ck_scenarios_name_length")),
        sa.CheckConstraint("length(currency) = 3", name=op.f("ck_scenarios_currency_length")),
        sa.CheckConstraint("total >= 0", name=op.f("ck_scenarios_total_not_negative")),
        sa.CheckConstraint("version >= 1", name=op.f("ck_scenarios_version_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scenarios")),
    )
    op.create_index(
        "uq_scenarios_live_name",
        "scenarios",
        ["project_id", "name_key"],
        unique=True,
        postgresql_where=_LIVE,
        sqlite_where=_LIVE,
    )
    op.create_index("ix_scenarios_project_id_created_at_id", "scenarios", ["project_id", "created_at", "id"])
    op.create_index("ix_scenarios_project_id_updated_at_id", "scenarios", ["project_id", "updated_at", "id"])


def downgrade() -> None:
    op.drop_table("scenarios")
