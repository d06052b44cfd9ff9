"""The settings: each is read from its variable, and docs/operations.md says what the code says."""

import re
from typing import Any

import msgspec
import pytest

from service.settings import Settings, load_settings, meaning_of, variable_of
from tests.support.server import ROOT

GIVEN: dict[str, tuple[str, Any]] = {
    "database_url": ("postgresql+asyncpg://a@b/c", "postgresql+asyncpg://a@b/c"),
    "host": ("127.0.0.2", "127.0.0.2"),
    "port": ("9000", 9000),
    "workers": ("2", 2),
    "pool_size": ("3", 3),
    "log_level": ("debug", "debug"),
    "auth": ("on", "on"),
    "rate_estimates": ("7", 7),
    "rate_reads": ("7", 7),
    "rate_writes": ("7", 7),
    "rate_imports": ("0", 0),
    "rate_failures": ("7", 7),
}


def shown_default(value: object) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def settings_table() -> list[str]:
    """The table as the code says it."""
    rows = [
        f"| `{variable_of(field.name)}` | {shown_default(field.default)} | {meaning_of(field.name)} |"
        for field in msgspec.structs.fields(Settings)
    ]
    return ["| variable | default | meaning |", "|---|---|---|", *rows]


def test_the_table_in_the_docs_is_what_the_code_says() -> None:
    lines = (ROOT / "docs" / "operations.md").read_text().splitlines()
    start = lines.index("| variable | default | meaning |")
    table = lines[start : start + len(settings_table())]
    assert table == settings_table()
    assert not lines[start + len(table)].startswith("|")


def test_the_docs_name_no_setting_that_does_not_exist() -> None:
    named = set(re.findall(r"TRAINCOST_[A-Z_]+[A-Z]", (ROOT / "docs" / "operations.md").read_text()))
    assert named == {variable_of(name) for name in Settings.__struct_fields__}


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_a_setting_is_read_from_its_variable(name: str) -> None:
    text, value = GIVEN[name]
    required = {"TRAINCOST_DATABASE_URL": GIVEN["database_url"][0]} if name == "workers" else {}
    loaded = load_settings({**required, variable_of(name): text})
    assert getattr(loaded, name) == value
    assert value != getattr(Settings(), name)


def test_without_variables_the_defaults_hold() -> None:
    assert load_settings({"PATH": "/bin", "OTHER_PORT": "1"}) == Settings()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_nobody_is_asked_for_a_key_unless_that_is_said(host: str) -> None:
    assert not load_settings({"TRAINCOST_HOST": host}).asks_for_keys
    assert not load_settings({"TRAINCOST_HOST": host, "TRAINCOST_AUTH": "off"}).asks_for_keys
    assert load_settings({"TRAINCOST_HOST": host, "TRAINCOST_AUTH": "on"}).asks_for_keys


@pytest.mark.parametrize("auth", ["auto", "on"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "localhost.test"])
def test_elsewhere_everybody_is_asked_for_a_key(host: str, auth: str) -> None:
    assert load_settings({"TRAINCOST_HOST": host, "TRAINCOST_AUTH": auth}).asks_for_keys


@pytest.mark.parametrize(
    "url",
    [
        "sqlite+aiosqlite:///a@b.db",
        "sqlite+aiosqlite:////data/traincost.db",
        "postgresql+asyncpg://user:p%40ss%2Fword@host:5432/name",
        "postgresql+asyncpg://user@[::1]:5432/name",
        "postgresql+asyncpg://user@/name?host=/run/postgresql",
    ],
)
def test_a_url_with_encoded_characters_is_taken_as_it_is(url: str) -> None:
    assert load_settings({"TRAINCOST_DATABASE_URL": url}).database_url == url
