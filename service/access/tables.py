"""The tables of projects and of their keys: of a key's secret there is only the SHA-256."""

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, LargeBinary, String, Table, Text

from service.storage.base import metadata
from service.storage.columns import BigId, CodePointText, Document, Instant

projects = Table(
    "projects",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", CodePointText, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="name_length"),
    Index("uq_projects_name_key", "name_key", unique=True),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("project_id", BigInteger, ForeignKey("projects.id"), nullable=False),
    Column("key_id", String(12), nullable=False),
    Column("line_id", String(12), nullable=False),  # the key_id of the first of those that follow each other
    Column("digest", LargeBinary, nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", Document, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),  # brought forward to the end of an overlap when the key is rotated
    Column("line_ends_at", Instant),  # the end that was asked for, which those that follow have too
    Column("last_used_at", Instant),
    Column("revoked_at", Instant),
    CheckConstraint("length(digest) = 32", name="digest_length"),
    CheckConstraint("length(name) BETWEEN 1 AND 100", name="name_length"),
    Index("uq_api_keys_key_id", "key_id", unique=True),
    Index("ix_api_keys_project_id_id", "project_id", "id"),
    Index("ix_api_keys_line_id", "line_id"),
)
