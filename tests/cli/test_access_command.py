"""`traincost keys` and `projects`: the first key in three commands, what is printed where, what is refused."""

import re
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import assert_one_line, traincost
from tests.conftest import NewDatabase
from tests.support.keys import bearer
from tests.support.server import Server


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


def test_the_first_key_comes_by_the_command_line_and_opens_the_service(tmp_path: Path, url: str) -> None:
    with Server(url, auth="on") as server:
        assert "there is none: make one with `traincost keys create`" in server.output()
        made = traincost(tmp_path, "keys", "create", database_url=url)
        assert made.returncode == 0, made.stderr
        assert re.fullmatch(r"tc_[a-z0-9]{12}_[A-Za-z0-9]{43}\n", made.stdout)
        assert made.stdout.strip() not in made.stderr
        key = made.stdout.strip()
        answer = httpx.get(f"{server.base}/v1/api-keys", headers=bearer(key), trust_env=False)
        assert answer.json()["items"][0]["name"] == "first key"
        listed = traincost(tmp_path, "keys", "list", database_url=url).stdout
        assert key[3:15] in listed
        assert key[16:] not in listed
        gone = traincost(tmp_path, "keys", "revoke", key[3:15], database_url=url)
        assert gone.returncode == 0, gone.stderr
    with Server(url, auth="on") as server:
        assert httpx.get(f"{server.base}/v1/api-keys", headers=bearer(key), trust_env=False).status_code == 401
    again = traincost(tmp_path, "keys", "revoke", key[3:15], database_url=url)
    assert_one_line(again, f"No key is called '{key[3:15]}'")


def test_where_nobody_is_asked_the_start_says_so(url: str) -> None:
    with Server(url) as server:
        assert "Nobody is asked for a key; for that, set TRAINCOST_AUTH=on." in server.output()


def test_a_project_and_a_key_of_it_with_scopes_and_an_end(tmp_path: Path, url: str) -> None:
    made = traincost(tmp_path, "projects", "create", "research", "--description", "runs", database_url=url)
    assert (made.returncode, made.stderr) == (0, "")
    assert "traincost keys create --project 'research'" in made.stdout
    listed = traincost(tmp_path, "projects", "list", database_url=url).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["name", "default", "research"]
    words = ["--project=research", "--name=dashboard", "--scope=exports:read", "--scope=prices:read", "--days=30"]
    assert traincost(tmp_path, "keys", "create", *words, database_url=url).returncode == 0
    row = traincost(tmp_path, "keys", "list", "--project=research", database_url=url).stdout.splitlines()[1]
    assert "prices:read,exports:read" in row or "exports:read,prices:read" in row
    assert "never" not in row
    assert len(traincost(tmp_path, "keys", "list", database_url=url).stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["keys", "create", "--scope=everything"], "--scope: everything is no scope; the scopes are estimates:run"),
        (["keys", "create", "--project=nowhere"], "No project is called 'nowhere'"),
        (["keys", "create", "--name="], "--name: a name has 1 to 100 characters"),
        (["keys", "create", "--name=a\nb"], "--name: a name has 1 to 100 characters"),
        (["keys", "list", "--project=nowhere"], "No project is called 'nowhere'"),
        (["keys", "revoke", "nobody"], "No key is called 'nobody'"),
        (["projects", "create", "default"], "There is a project called 'default' already"),
        (["projects", "create", "a/b"], "A name has 1 to 100 characters"),
        (["projects", "create", "a", "--description=a\x07"], "--description"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_one_line(tmp_path: Path, new_database: NewDatabase, words: list[str], says: str) -> None:
    assert_one_line(traincost(tmp_path, *words, database_url=new_database("sqlite")), says)


def test_keys_need_a_migrated_database(tmp_path: Path) -> None:
    assert_one_line(traincost(tmp_path, "keys", "create"), "run `traincost migrate`")


def test_prices_go_into_the_project_that_is_named(tmp_path: Path, url: str) -> None:
    traincost(tmp_path, "projects", "create", "research", database_url=url)
    exported = traincost(tmp_path, "prices", "export", "--table=list-prices", database_url=url)
    assert exported.returncode == 1  # not seeded: that is done by `serve`
    with Server(url):
        pass
    rates = traincost(tmp_path, "prices", "export", "--table=list-prices", "--project=research", database_url=url)
    assert rates.returncode == 0, rates.stderr
    (tmp_path / "rates.csv").write_text(rates.stdout)
    words = ["prices", "import", "rates.csv", "--table=ours", "--create", "--project=research"]
    imported = traincost(tmp_path, *words, database_url=url)
    assert imported.returncode == 0, imported.stderr
    there = traincost(tmp_path, "prices", "export", "--table=ours", "--project=research", database_url=url)
    assert there.stdout == rates.stdout
    assert_one_line(traincost(tmp_path, "prices", "export", "--table=ours", database_url=url), "No price table")
