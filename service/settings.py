"""Every setting, its default and its meaning. Each is read from TRAINCOST_<NAME> in the environment."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from service.errors import StartupError

PREFIX = "TRAINCOST_"
DEFAULT_DATABASE_URL = "sqlite+aiosqlite:///traincost.db"
_LOOPBACK = ("127.", "::1", "localhost")


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator can set. README and docs/operations.md show the same table; a test compares them."""

    database_url: Annotated[
        str,
        Meta(
            pattern=r"^(sqlite\+aiosqlite|postgresql\+asyncpg)://",
            description="SQLAlchemy URL: `sqlite+aiosqlite:///file.db` or `postgresql+asyncpg://user@host/name`.",
        ),
    ] = DEFAULT_DATABASE_URL
    host: Annotated[str, Meta(min_length=1, description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8000
    workers: Annotated[
        int, Meta(ge=1, le=64, description="Server processes. SQLite serves one; PostgreSQL serves many.")
    ] = 1
    pool_size: Annotated[int, Meta(ge=1, le=200, description="Database connections a process may hold.")] = 10
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least severe message that is logged."),
    ] = "info"
    allow_open_bind: Annotated[
        bool,
        Meta(
            description="Listen on an address that is not loopback, although nobody is asked for a key. Only "
            "behind something that keeps strangers out, as the compose file's own network does."
        ),
    ] = False


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in an environment; StartupError names a variable that is unknown or has a bad value."""
    given = {name.removeprefix(PREFIX).lower(): value for name, value in environment.items() if name.startswith(PREFIX)}
    unknown = sorted(set(given) - set(Settings.__struct_fields__))
    if unknown:
        known = ", ".join(PREFIX + name.upper() for name in Settings.__struct_fields__)
        raise StartupError(f"{PREFIX}{unknown[0].upper()} is no setting; the settings are {known}.")
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        raise StartupError(f"{PREFIX}{path.rstrip('`').upper()}: {message}.") from None
    _refuse_contradictions(settings)
    return settings


def _refuse_contradictions(settings: Settings) -> None:
    if settings.workers > 1 and settings.database_url.startswith("sqlite"):
        raise StartupError("TRAINCOST_WORKERS: SQLite serves one worker; use PostgreSQL for more.")
    if not settings.host.startswith(_LOOPBACK) and not settings.allow_open_bind:
        raise StartupError(
            f"TRAINCOST_HOST is {settings.host}, which others can reach, and nobody is asked for a key: listen on "
            "127.0.0.1, or set TRAINCOST_ALLOW_OPEN_BIND=true where something else keeps strangers out."
        )
