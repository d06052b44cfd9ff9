"""Scenarios in revisions, with a life cycle, labels to find them by and links that show them.

What there is becomes revision 1, its request and its answer byte for byte. Down again, each scenario keeps the newest
of its revisions.
"""

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_CODE_POINT_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DOCUMENT = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_INSTANT = sa.DateTime(timezone=True)
_AMOUNT = sa.Numeric(18, 6).with_variant(sa.BigInteger(), "sqlite")
_LIVE = sa.text("deleted_at IS NULL")
_REFUSED = "a revision never changes"
_AT_ONCE = 1000

# The columns that both forms of the table have, in the order in which they are copied.
_KEPT = (
    "id, project_id, name, name_key, description, labels, currency, total, model_version, version, created_at, "
    "updated_at, deleted_at"
)
_INDEXES = (
    ("ix_scenarios_project_id_created_at_id", ["project_id", "created_at", "id"]),
    ("ix_scenarios_project_id_updated_at_id", ["project_id", "updated_at", "id"]),
)
_NEW_INDEXES = (
    ("ix_scenarios_project_id_total_id", ["project_id", "total", "id"]),
    ("ix_scenarios_project_id_owner_name_key", ["project_id", "owner", "name_key"]),
    ("ix_scenarios_project_id_cost_centre_name_key", ["project_id", "cost_centre", "name_key"]),
)
_NEW_CHECKS = (
    ("ck_scenarios_status_known", "status IN ('draft', 'approved', 'archived')"),
    ("ck_scenarios_latest_positive", "latest_number >= 1"),
    ("ck_scenarios_budget_whole", "(budget_amount IS NULL) = (budget_currency IS NULL)"),
)


def upgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    if is_sqlite:
        _drop_indexes(_INDEXES)
        op.rename_table("scenarios", "scenarios_before")
        _create_scenarios(_new_columns(), _NEW_CHECKS)
        op.execute(
            f"INSERT INTO scenarios ({_KEPT}, words, status, latest_number) "  # noqa: S608  # names of columns
            f"SELECT {_KEPT}, '', 'draft', 1 FROM scenarios_before"
        )
        _create_indexes((*_INDEXES, *_NEW_INDEXES))
    else:
        for column in _new_columns():
            known = {"words": "", "status": "draft", "latest_number": "1"}.get(column.name)
            if known is None:
                op.add_column("scenarios", column)
            else:
                column.server_default = sa.DefaultClause(sa.text(f"'{known}'"))
                op.add_column("scenarios", column)
                op.alter_column("scenarios", column.name, server_default=None)
        for name, rule in _NEW_CHECKS:
            op.create_check_constraint(op.f(name), "scenarios", rule)
        for name, columns in _NEW_INDEXES:
            op.create_index(name, "scenarios", columns)
    _create_parts()
    before = "scenarios_before" if is_sqlite else "scenarios"
    kept = "request, estimate, currency, total, model_version"
    op.execute(
        f"INSERT INTO scenario_revisions (scenario_id, number, {kept}, note, created_at) "  # noqa: S608  # names
        f"SELECT id, 1, {kept}, '', updated_at FROM {before}"
    )
    _fill_words_and_labels()
    if is_sqlite:
        op.drop_table("scenarios_before")
    else:
        op.drop_column("scenarios", "request")
        op.drop_column("scenarios", "estimate")
    _keep_revisions()


def _new_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("words", _CODE_POINT_TEXT, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("owner", _CODE_POINT_TEXT, nullable=True),
        sa.Column("cost_centre", _CODE_POINT_TEXT, nullable=True),
        sa.Column("planned_start", _INSTANT, nullable=True),
        sa.Column("budget_amount", _AMOUNT, nullable=True),
        sa.Column("budget_currency", sa.String(3), nullable=True),
        sa.Column("latest_number", sa.Integer(), nullable=False),
        sa.Column("approved_number", sa.Integer(), nullable=True),
    ]


def _create_scenarios(columns: list[sa.Column[Any]], checks: tuple[tuple[str, str], ...]) -> None:
    """SQLite adds no column that must not be null: the table is made anew."""
    op.create_table(
        "scenarios",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", _CODE_POINT_TEXT, nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("labels", _DOCUMENT, nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("total", _AMOUNT, nullable=False),
        sa.Column("model_version", sa.String(40), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("deleted_at", _INSTANT, nullable=True),
        *columns,
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name=op.f("ck_scenarios_name_length")),
        sa.CheckConstraint("length(currency) = 3", name=op.f("ck_scenarios_currency_length")),
        sa.CheckConstraint("total >= 0", name=op.f("ck_scenarios_total_not_negative")),
        sa.CheckConstraint("version >= 1", name=op.f("ck_scenarios_version_positive")),
        *[sa.CheckConstraint(rule, name=op.f(name)) for name, rule in checks],
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scenarios")),
    )


def _create_indexes(indexes: tuple[tuple[str, list[str]], ...]) -> None:
    op.create_index(
        "uq_scenarios_live_name",
        "scenarios",
        ["project_id", "name_key"],
        unique=True,
        postgresql_where=_LIVE,
        sqlite_where=_LIVE,
    )
    for name, columns in indexes:
        op.create_index(name, "scenarios", columns)


def _drop_indexes(indexes: tuple[tuple[str, list[str]], ...]) -> None:
    for name in ("uq_scenarios_live_name", *(name for name, _ in indexes)):
        op.drop_index(name, "scenarios")


def _create_parts() -> None:
    op.create_table(
        "scenario_revisions",
        sa.Column("scenario_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("estimate", sa.LargeBinary(), nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("total", _AMOUNT, nullable=False),
        sa.Column("model_version", sa.String(40), nullable=False),
        sa.Column("price_table", sa.Text(), nullable=True),
        sa.Column("price_revision", sa.Integer(), nullable=True),
        sa.Column("price_revision_id", sa.BigInteger(), nullable=True),
        sa.Column("price_as_of", sa.Date(), nullable=True),
        sa.Column("exchange", sa.LargeBinary(), nullable=True),
        sa.Column("restored_from", sa.Integer(), nullable=True),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("key_id", sa.String(12), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_scenario_revisions_number_positive")),
        sa.CheckConstraint("total >= 0", name=op.f("ck_scenario_revisions_total_not_negative")),
        sa.ForeignKeyConstraint(
            ["scenario_id"], ["scenarios.id"], name=op.f("fk_scenario_revisions_scenario_id_scenarios")
        ),
        sa.PrimaryKeyConstraint("scenario_id", "number", name=op.f("pk_scenario_revisions")),
    )
    op.create_table(
        "scenario_labels",
        sa.Column("scenario_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", _CODE_POINT_TEXT, nullable=False),
        sa.Column("value", _CODE_POINT_TEXT, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scenario_id"], ["scenarios.id"], name=op.f("fk_scenario_labels_scenario_id_scenarios")
        ),
        sa.PrimaryKeyConstraint("scenario_id", "key", name=op.f("pk_scenario_labels")),
    )
    op.create_index(
        "ix_scenario_labels_project_id_key_value", "scenario_labels", ["project_id", "key", "value", "scenario_id"]
    )
    op.create_table(
        "scenario_shares",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("scenario_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.Column("revoked_at", _INSTANT, nullable=True),
        sa.CheckConstraint("length(digest) = 32", name=op.f("ck_scenario_shares_digest_length")),
        sa.ForeignKeyConstraint(
            ["scenario_id", "number"],
            ["scenario_revisions.scenario_id", "scenario_revisions.number"],
            name=op.f("fk_scenario_shares_scenario_id_scenario_revisions"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scenario_shares")),
    )
    op.create_index("uq_scenario_shares_digest", "scenario_shares", ["digest"], unique=True)
    op.create_index("ix_scenario_shares_scenario_id_id", "scenario_shares", ["scenario_id", "id"])


def _fill_words_and_labels() -> None:
    connection = op.get_bind()
    for rows in _scenarios_in_parts(connection):
        words = [{"one": row.id, "words": f"{_folded(row.name)}\n{_folded(row.description)}"} for row in rows]
        connection.execute(sa.text("UPDATE scenarios SET words = :words WHERE id = :one"), words)
        labels = [
            {"scenario_id": row.id, "project_id": row.project_id, "key": key, "value": value}
            for row in rows
            for key, value in _labels(row.labels).items()
        ]
        if labels:
            connection.execute(
                sa.text(
                    "INSERT INTO scenario_labels (scenario_id, key, value, project_id) "
                    "VALUES (:scenario_id, :key, :value, :project_id)"
                ),
                labels,
            )


def _scenarios_in_parts(connection: sa.Connection) -> Iterator[list[Any]]:
    last = 0
    asked = sa.text(
        "SELECT id, project_id, name, description, labels FROM scenarios WHERE id > :last ORDER BY id LIMIT :most"
    )
    while rows := list(connection.execute(asked, {"last": last, "most": _AT_ONCE})):
        yield rows
        last = rows[-1].id


def _labels(stored: Any) -> dict[str, str]:
    made: dict[str, str] = json.loads(stored) if isinstance(stored, str) else stored
    return made


def _folded(text: str) -> str:
    """As the service folds what is searched for."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _keep_revisions() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER scenario_revisions_kept BEFORE UPDATE ON scenario_revisions "
            f"BEGIN SELECT RAISE(ABORT, '{_REFUSED}'); END"
        )
        return
    op.execute(
        "CREATE FUNCTION scenario_revisions_kept() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSED}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER scenario_revisions_kept BEFORE UPDATE ON scenario_revisions "
        "FOR EACH STATEMENT EXECUTE FUNCTION scenario_revisions_kept()"
    )


def downgrade() -> None:
    newest = "scenario_revisions WHERE scenario_id = scenarios.id AND number = scenarios.latest_number"
    if op.get_bind().dialect.name == "sqlite":
        _go_back_on_sqlite()
    else:
        for name in ("request", "estimate"):
            op.add_column("scenarios", sa.Column(name, sa.LargeBinary(), nullable=True))
            op.execute(f"UPDATE scenarios SET {name} = (SELECT {name} FROM {newest})")  # noqa: S608
            op.alter_column("scenarios", name, nullable=False)
        for name, _ in _NEW_INDEXES:
            op.drop_index(name, "scenarios")
        for name, _ in _NEW_CHECKS:
            op.drop_constraint(op.f(name), "scenarios")
        for column in _new_columns():
            op.drop_column("scenarios", column.name)
        op.drop_table("scenario_shares")
        op.drop_table("scenario_labels")
        op.drop_table("scenario_revisions")
        op.execute("DROP FUNCTION scenario_revisions_kept()")
    op.execute("DELETE FROM price_table_uses WHERE kind = 'scenario'")


def _go_back_on_sqlite() -> None:
    """What refers to a table goes before it does."""
    _drop_indexes((*_INDEXES, *_NEW_INDEXES))
    op.execute(
        f"CREATE TEMPORARY TABLE scenarios_after AS SELECT {', '.join('s.' + name for name in _KEPT.split(', '))}, "  # noqa: S608
        "r.request, r.estimate FROM scenarios s "
        "JOIN scenario_revisions r ON r.scenario_id = s.id AND r.number = s.latest_number"
    )
    for name in ("scenario_shares", "scenario_labels", "scenario_revisions", "scenarios"):
        op.drop_table(name)
    _create_scenarios([sa.Column(name, sa.LargeBinary(), nullable=False) for name in ("request", "estimate")], ())
    op.execute(f"INSERT INTO scenarios ({_KEPT}, request, estimate) SELECT * FROM scenarios_after")  # noqa: S608
    op.execute("DROP TABLE scenarios_after")
    _create_indexes(_INDEXES)
