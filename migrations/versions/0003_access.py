"""Projects, keys, the audit log that nobody can change, and how often a key has asked."""

import datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_CODE_POINT_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_INSTANT = sa.DateTime(timezone=True)
_REFUSED = "the audit log is only added to"


def upgrade() -> None:
    projects = op.create_table(
        "projects",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", _CODE_POINT_TEXT, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name=op.f("ck_projects_name_length")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
    )
    op.create_index("uq_projects_name_key", "projects", ["name_key"], unique=True)
    op.create_table(
        "api_keys",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("key_id", sa.String(12), nullable=False),
        sa.Column("line_id", sa.String(12), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", _DOCUMENT, nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=True),
        sa.Column("last_used_at", _INSTANT, nullable=True),
        sa.Column("revoked_at", _INSTANT, nullable=True),
        sa.CheckConstraint("length(digest) = 32", name=op.f("ck_api_keys_digest_length")),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name=op.f("ck_api_keys_name_length")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_api_keys_project_id_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index("uq_api_keys_key_id", "api_keys", ["key_id"], unique=True)
    op.create_index("ix_api_keys_project_id_id", "api_keys", ["project_id", "id"])
    op.create_index("ix_api_keys_line_id", "api_keys", ["line_id"])
    op.create_table(
        "audit_log",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("key_id", sa.String(12), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.String(20), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("name", _CODE_POINT_TEXT, nullable=False),
        sa.Column("before_hash", sa.String(64), nullable=True),
        sa.Column("after_hash", sa.String(64), nullable=True),
        sa.Column("request_id", sa.String(100), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index("ix_audit_log_project_id_id", "audit_log", ["project_id", "id"])
    op.create_table(
        "rate_windows",
        sa.Column("key_id", sa.String(12), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("taken", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "kind", name=op.f("pk_rate_windows")),
    )
    # What is there already belongs to project 1. Its number comes from the database, so that the next one is 2.
    now = datetime.datetime.now(datetime.UTC)
    if op.get_bind().dialect.name == "sqlite":
        now = now.replace(tzinfo=None)
    first = {"name": "default", "name_key": "default", "description": "What there was before there were projects"}
    op.execute(sa.insert(projects).values(created_at=now, **first))
    _keep_audit_log()


def _keep_audit_log() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_log_kept_on_{event.lower()} BEFORE {event} ON audit_log "
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION audit_log_kept() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSED}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_log_kept()"
    )


def downgrade() -> None:
    op.drop_table("rate_windows")
    op.drop_table("audit_log")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_log_kept()")
    op.drop_table("api_keys")
    op.drop_table("projects")
