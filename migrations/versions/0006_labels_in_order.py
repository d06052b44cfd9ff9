"""Labels with their scenario's name and owner, so that a page of those with a label is read in order from an index."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_CODE_POINT_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BEFORE = "scenario_labels_before"
_KEPT = "scenario_id, key, value, project_id"
_OLD_INDEXES = (("ix_scenario_labels_project_id_key_value", ["project_id", "key", "value", "scenario_id"]),)
_INDEXES = (
    (
        "ix_scenario_labels_project_id_key_value_name_key",
        ["project_id", "key", "value", "name_key", "scenario_id"],
    ),
    (
        "ix_scenario_labels_project_id_key_value_owner_name_key",
        ["project_id", "key", "value", "owner", "name_key", "scenario_id"],
    ),
)


def upgrade() -> None:
    _make_again(
        (
            sa.Column("name_key", _CODE_POINT_TEXT, nullable=False),
            sa.Column("owner", _CODE_POINT_TEXT, nullable=True),
        ),
        _INDEXES,
        f"INSERT INTO scenario_labels ({_KEPT}, name_key, owner) "  # noqa: S608  # names of columns
        f"SELECT scenario_id, key, value, {_BEFORE}.project_id, scenarios.name_key, scenarios.owner "
        f"FROM {_BEFORE} JOIN scenarios ON scenarios.id = scenario_id",
    )


def downgrade() -> None:
    kept = f"INSERT INTO scenario_labels ({_KEPT}) SELECT {_KEPT} FROM {_BEFORE}"  # noqa: S608  # names of columns
    _make_again((), _OLD_INDEXES, kept)


def _make_again(columns: tuple[sa.Column[str], ...], indexes: tuple[tuple[str, list[str]], ...], kept: str) -> None:
    """The table with these columns beside those of both forms, and its rows."""
    op.execute(f"CREATE TABLE {_BEFORE} AS SELECT {_KEPT} FROM scenario_labels")  # noqa: S608  # names of columns
    op.drop_table("scenario_labels")
    op.create_table(
        "scenario_labels",
        sa.Column("scenario_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", _CODE_POINT_TEXT, nullable=False),
        sa.Column("value", _CODE_POINT_TEXT, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(
            ["scenario_id"], ["scenarios.id"], name=op.f("fk_scenario_labels_scenario_id_scenarios")
        ),
        sa.PrimaryKeyConstraint("scenario_id", "key", name=op.f("pk_scenario_labels")),
    )
    op.execute(kept)
    op.drop_table(_BEFORE)
    for name, fields in indexes:
        op.create_index(name, "scenario_labels", fields)
