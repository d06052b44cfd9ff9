"""When a line of keys that follow each other ends, beside when each of them does: an overlap ends a key, not its line.

An overlap only ever brings an end forward, and the first that follows a key has the end that was asked for. So the last
end in a line, of revoked keys too, is the line's own; where one has none, the line has none. No key becomes good for
longer by this: what a key's own end is stays as it is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("line_ends_at", sa.DateTime(timezone=True), nullable=True))
    op.execute(
        "UPDATE api_keys SET line_ends_at = ("
        "SELECT CASE WHEN count(*) = count(same.expires_at) THEN max(same.expires_at) END "
        "FROM api_keys AS same WHERE same.line_id = api_keys.line_id)"
    )


def downgrade() -> None:
    op.drop_column("api_keys", "line_ends_at")
