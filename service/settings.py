"""Every setting, its default and its meaning. Each is read from TRAINCOST_<NAME> in the environment."""

import os
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Literal, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from service.errors import StartupError

PREFIX = "TRAINCOST_"
DEFAULT_DATABASE_URL = "sqlite+aiosqlite:///traincost.db"


_MOST = 100_000_000


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator can set. docs/operations.md shows the same table; a test compares them."""

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
        Meta(description="The least severe message that is logged: `debug`, `info`, `warning` or `error`."),
    ] = "info"
    auth: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="Whether everybody is asked for a key: `on`, `off`, or `auto`, which is `off` on a loopback "
            "address and `on` elsewhere. `off` is refused elsewhere; behind a proxy on this machine it must be `on`."
        ),
    ] = "auto"
    rate_estimates: Annotated[
        int, Meta(ge=0, le=_MOST, description="Estimates that a key may ask for in a minute; 0 for any number.")
    ] = 60_000
    rate_reads: Annotated[
        int, Meta(ge=0, le=_MOST, description="Other GET requests of a key in a minute; 0 for any number.")
    ] = 12_000
    rate_writes: Annotated[
        int, Meta(ge=0, le=_MOST, description="Other requests of a key in a minute; 0 for any number.")
    ] = 3_000
    rate_imports: Annotated[
        int, Meta(ge=0, le=_MOST, description="Price files of a key in a minute; 0 for any number.")
    ] = 60
    rate_failures: Annotated[
        int,
        Meta(
            ge=0,
            le=_MOST,
            description="Keys and links that are no good that an address may send in a minute; 0 for any number.",
        ),
    ] = 60

    @property
    def asks_for_keys(self) -> bool:
        """Whether somebody without a key is refused."""
        return self.auth == "on" or (self.auth == "auto" and not _is_loopback(self.host))


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in an environment; StartupError names a variable that is unknown or has a bad value."""
    given = {name.removeprefix(PREFIX).lower(): value for name, value in environment.items() if name.startswith(PREFIX)}
    unknown = sorted(set(given) - set(Settings.__struct_fields__))
    if unknown:
        known = ", ".join(map(variable_of, Settings.__struct_fields__))
        raise StartupError(f"{variable_of(unknown[0])} is no setting; the settings are {known}.")
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        message = message.replace("got `str`", f"got {given[name]!r}")
        raise StartupError(f"{variable_of(name)}: {message}. {meaning_of(name)}") from None
    _refuse_contradictions(settings)
    return settings


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def meaning_of(name: str) -> str:
    """What a setting means, in a sentence or two."""
    meta: Meta = get_type_hints(Settings, include_extras=True)[name].__metadata__[0]
    return meta.description or ""


def _refuse_contradictions(settings: Settings) -> None:
    if not _is_readable(settings.database_url):  # the URL is not shown: it may hold a password
        raise StartupError(
            "TRAINCOST_DATABASE_URL cannot be read as a URL: its port is a number, and special characters in its "
            "password are percent-encoded (@ is %40, / is %2F)."
        )
    if settings.database_url.startswith("sqlite") and not _is_file(settings.database_url):
        raise StartupError(
            "TRAINCOST_DATABASE_URL names no SQLite file: sqlite+aiosqlite:///traincost.db is one in this directory, "
            "and with a fourth slash a path from the root. In memory each connection would have a database of its own."
        )
    if settings.workers > 1 and settings.database_url.startswith("sqlite"):
        raise StartupError("TRAINCOST_WORKERS: SQLite serves one worker; use PostgreSQL for more.")
    if not _is_loopback(settings.host) and not settings.asks_for_keys:
        raise StartupError(
            f"TRAINCOST_HOST is {settings.host}, which others can reach, and TRAINCOST_AUTH=off asks nobody for a key: "
            "set TRAINCOST_AUTH=on and make a key with `traincost keys create`, or listen on 127.0.0.1."
        )


def _is_readable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.netloc.count("@") <= 1


def _is_file(url: str) -> bool:
    parts = urlsplit(url)
    return not parts.netloc and parts.path not in ("", "/", "/:memory:")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
