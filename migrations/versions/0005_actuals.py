"""What was paid for a scenario, period by period."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_AMOUNT = sa.Numeric(18, 6).with_variant(sa.BigInteger(), "sqlite")
_INSTANT = sa.DateTime(timezone=True)
_LIVE = sa.text("deleted_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "scenario_actuals",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("scenario_id", sa.BigInteger(), nullable=False),
        sa.Column("period_start", sa.Date(), nullable=False),
        sa.Column("period_end", sa.Date(), nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("amount", _AMOUNT, nullable=False),
        sa.Column("gpu_hours", sa.Double(), nullable=True),
        sa.Column("tokens_done", sa.Double(), nullable=True),
        sa.Column("productive_gpu_hours", sa.Double(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("deleted_at", _INSTANT, nullable=True),
        sa.CheckConstraint("period_end > period_start", name=op.f("ck_scenario_actuals_period_has_days")),
        sa.CheckConstraint("version >= 1", name=op.f("ck_scenario_actuals_version_positive")),
        sa.ForeignKeyConstraint(
            ["scenario_id"], ["scenarios.id"], name=op.f("fk_scenario_actuals_scenario_id_scenarios")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scenario_actuals")),
    )
    op.create_index(
        "uq_scenario_actuals_live_period",
        "scenario_actuals",
        ["scenario_id", "period_start"],
        unique=True,
        postgresql_where=_LIVE,
        sqlite_where=_LIVE,
    )


def downgrade() -> None:
    op.drop_table("scenario_actuals")
