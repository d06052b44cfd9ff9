"""Price tables, their revisions and rates; who relies on them; keys of requests that act once."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_CODE_POINT_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_INSTANT = sa.DateTime(timezone=True)
_LIVE = sa.text("deleted_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "price_tables",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", _CODE_POINT_TEXT, nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("gaps", _DOCUMENT, nullable=False),
        sa.Column("latest_number", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("deleted_at", _INSTANT, nullable=True),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name=op.f("ck_price_tables_name_length")),
        sa.CheckConstraint("length(currency) = 3", name=op.f("ck_price_tables_currency_length")),
        sa.CheckConstraint("latest_number >= 0", name=op.f("ck_price_tables_latest_not_negative")),
        sa.CheckConstraint("version >= 1", name=op.f("ck_price_tables_version_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_tables")),
    )
    op.create_index(
        "uq_price_tables_live_name",
        "price_tables",
        ["project_id", "name_key"],
        unique=True,
        postgresql_where=_LIVE,
        sqlite_where=_LIVE,
    )
    op.create_table(
        "price_revisions",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("licence", sa.Text(), nullable=False),
        sa.Column("as_of", sa.Date(), nullable=True),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("rate_count", sa.Integer(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_price_revisions_number_positive")),
        sa.CheckConstraint("rate_count >= 0", name=op.f("ck_price_revisions_rate_count_not_negative")),
        sa.ForeignKeyConstraint(
            ["table_id"], ["price_tables.id"], name=op.f("fk_price_revisions_table_id_price_tables")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_revisions")),
    )
    op.create_index("uq_price_revisions_table_id_number", "price_revisions", ["table_id", "number"], unique=True)
    op.create_table(
        "price_rates",
        sa.Column("revision_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("offer_key", _CODE_POINT_TEXT, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("accelerator", _CODE_POINT_TEXT, nullable=True),
        sa.Column("provider", _CODE_POINT_TEXT, nullable=False),
        sa.Column("region", _CODE_POINT_TEXT, nullable=True),
        sa.Column("purchase", sa.String(20), nullable=True),
        sa.Column("gpu_count", sa.Float(), nullable=True),
        sa.Column("starts_on", sa.Date(), nullable=False),
        sa.Column("valid_from", sa.Date(), nullable=True),
        sa.Column("valid_to", sa.Date(), nullable=True),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision_id"], ["price_revisions.id"], name=op.f("fk_price_rates_revision_id_price_revisions")
        ),
        sa.PrimaryKeyConstraint("revision_id", "position", name=op.f("pk_price_rates")),
    )
    op.create_index(
        "ix_price_rates_revision_id_accelerator", "price_rates", ["revision_id", "accelerator", "provider", "position"]
    )
    op.create_index("ix_price_rates_revision_id_provider", "price_rates", ["revision_id", "provider", "position"])
    op.create_index("ix_price_rates_revision_id_offer_key", "price_rates", ["revision_id", "offer_key", "digest"])
    op.create_table(
        "price_table_uses",
        sa.Column("table_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("used_by_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["table_id"], ["price_tables.id"], name=op.f("fk_price_table_uses_table_id_price_tables")
        ),
        sa.PrimaryKeyConstraint("table_id", "kind", "used_by_id", name=op.f("pk_price_table_uses")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("project_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def downgrade() -> None:
    op.drop_table("idempotency_keys")
    op.drop_table("price_table_uses")
    op.drop_table("price_rates")
    op.drop_table("price_revisions")
    op.drop_table("price_tables")
