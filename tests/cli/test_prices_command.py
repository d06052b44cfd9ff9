"""`traincost prices import` and `export`: what they store, print and refuse."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service.cli import main
from service.prices.importers.own_csv import COLUMNS
from tests.cli.commands import assert_one_line, traincost
from tests.conftest import NewDatabase

OFFERS = {
    "offers": [
        {"provider": "acme", "gpu": "h100-sxm", "vram_gb": 80, "usd_hr": 2.5, "kind": "on-demand", "source_url": "x"},
        {"provider": "acme", "gpu": "h100", "vram_gb": 80, "usd_hr": 2.25, "kind": "community", "source_url": "x"},
        {"provider": "acme", "gpu": "b200", "vram_gb": 180, "usd_hr": 700, "kind": "spot", "source_url": "x"},
    ]
}
TABLE = "card,who,usd\nL4,acme,0.80\nL4,other,call us\n"
MAPPING = {"columns": {"accelerator": "card", "provider": "who", "price_per_gpu_hour": "usd"}}


@pytest.fixture
def database(new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fresh database that the command finds by its setting."""
    url = new_database("sqlite")
    monkeypatch.setenv("TRAINCOST_DATABASE_URL", url)
    return url


@pytest.fixture
def offers(tmp_path: Path) -> str:
    return _file(tmp_path / "offers.json", json.dumps(OFFERS))


@pytest.fixture
def table(tmp_path: Path) -> str:
    return _file(tmp_path / "table.csv", TABLE)


@pytest.fixture
def mapping(tmp_path: Path) -> str:
    return _file(tmp_path / "mapping.json", json.dumps(MAPPING))


def _file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def prices(*arguments: str) -> Result:
    """The command in this process, which saves starting one."""
    return CliRunner().invoke(main, ["prices", *arguments], catch_exceptions=False)


def test_a_file_becomes_a_revision_and_the_report_says_what_became_of_its_rows(database: str, offers: str) -> None:
    printed = prices("import", offers, "--table=market", "--create", "--author=finance")
    assert printed.exit_code == 0, printed.output
    assert "rows      3: 3 accepted, 0 skipped, 0 rejected" in printed.stdout
    assert "names     ambiguous in 1 of the rows, unknown in 0" in printed.stdout
    assert "700 an hour is outside the plausible" in printed.stdout
    assert printed.stdout.endswith("Stored as revision 1 of market; rates: 3.\n")
    again = prices("import", offers, "--table=market")
    assert again.stdout.endswith("Nothing is new: revision 1 of market has these rates.\n")


def test_what_is_exported_is_imported_as_the_same_revision(database: str, offers: str, tmp_path: Path) -> None:
    prices("import", offers, "--table=market", "--create")
    copy = tmp_path / "copy.csv"
    assert prices("export", "--table=market", f"--output={copy}").exit_code == 0
    assert copy.read_bytes() == prices("export", "--table=market", "--revision=1").stdout_bytes
    assert copy.read_text().splitlines()[0] == ",".join(COLUMNS)
    same = prices("import", str(copy), "--table=market")
    assert "Nothing is new: revision 1" in same.stdout
    other = json.loads(prices("import", str(copy), "--table=other", "--create", "--json").stdout)
    first = json.loads(prices("import", str(copy), "--table=market", "--json").stdout)
    assert other["revision"]["content_hash"] == first["revision"]["content_hash"]


def test_a_rejected_row_stores_nothing_until_it_may_be_left_out(database: str, table: str, mapping: str) -> None:
    refused = prices("import", table, f"--mapping={mapping}", "--table=list", "--create")
    assert refused.exit_code == 1
    assert "3     usd     'call us' is not a number" in refused.stdout
    assert "Nothing is stored" in refused.stdout
    taken = prices("import", table, f"--mapping={mapping}", "--table=list", "--create", "--on-error=skip")
    assert taken.exit_code == 0
    assert taken.stdout.endswith("Stored as revision 1 of list; rates: 1.\n")


def test_a_dry_run_stores_nothing_and_needs_no_database(offers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINCOST_DATABASE_URL", "sqlite+aiosqlite:////nowhere/at/all.db")
    printed = prices("import", offers, "--dry-run", "--json")
    answer = json.loads(printed.stdout)
    assert answer["revision"] is None
    assert answer["report"]["rows"]["total"] == 3
    assert prices("import", offers, "--dry-run").stdout.endswith("this was a dry run.\n")


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_file_without_a_rate_fails_and_the_report_says_why(
    database: str, offers: str, tmp_path: Path, dry: list[str]
) -> None:
    prices("import", offers, "--table=market", "--create")
    empty = _file(tmp_path / "empty.csv", "accelerator,provider,price_per_gpu_hour\n,acme,1\n")
    printed = prices("import", empty, "--table=market", *dry)
    assert printed.exit_code == 1
    assert "The row has no accelerator" in printed.stdout
    assert printed.stdout.endswith("Nothing is stored: no row gives a rate, and a file never empties a table.\n")
    header = _file(tmp_path / "header.csv", ",".join(COLUMNS) + "\n")
    if not dry:
        assert prices("import", header, "--table=market").exit_code == 1
    assert prices("import", offers, "--table=market").stdout.endswith(
        "Nothing is new: revision 1 of market has these rates.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["{offers}", "--dry-run", "--on-error=foo"],
            "--on-error: Invalid enum value 'foo'; it is one of reject, skip.",
        ),
        (["{offers}", "--dry-run", "--currency=eur"], "--currency: Invalid enum value 'eur'; write it EUR."),
        (["{offers}", "--dry-run", "--currency=money"], "such as USD."),
        (["{offers}", "--dry-run", "--format=own_csv", "--mapping={mapping}"], "A mapping is for a flat table"),
        (["nowhere.csv", "--dry-run"], "Cannot read nowhere.csv"),
        (["{offers}"], "--table"),
        (["{offers}", "--table=market"], "No price table is called 'market'"),
        (["{offers}", "--table=list-prices", "--create"], "comes with the release"),
        (["{offers}", "--dry-run", "--format=excel"], "--format: Invalid enum value 'excel'"),
        (["{offers}", "--dry-run", "--seen-on=yesterday"], "--seen-on: Invalid"),
        (["{offers}", "--dry-run", "--mapping={offers}"], "no column mapping"),
        (["{table}", "--dry-run"], "does not say who rents out"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    database: str, offers: str, table: str, mapping: str, arguments: list[str], says: str
) -> None:
    printed = prices(
        "import", *(argument.format(offers=offers, table=table, mapping=mapping) for argument in arguments)
    )
    assert printed.exit_code == 1
    assert printed.stdout == ""
    assert printed.stderr.startswith("traincost: ")
    assert printed.stderr.endswith(".\n")
    assert printed.stderr.count("\n") == 1
    assert says in printed.stderr


def test_a_table_that_is_not_there_cannot_be_exported(database: str) -> None:
    printed = prices("export", "--table=market")
    assert (printed.exit_code, printed.stdout) == (1, "")
    assert "No price table is called 'market'" in printed.stderr


def test_a_database_that_is_not_migrated_is_said_in_one_line(tmp_path: Path, offers: str) -> None:
    ended = traincost(tmp_path, "prices", "import", offers, "--table=market", "--create")
    assert_one_line(ended, "traincost migrate")


def test_a_failure_on_the_way_leaves_no_table_behind(
    database: str, offers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.prices import contents

    async def fail(*_: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(contents, "insert_rates", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        prices("import", offers, "--table=market", "--create")
    monkeypatch.undo()
    monkeypatch.setenv("TRAINCOST_DATABASE_URL", database)
    assert "No price table is called" in prices("export", "--table=market").stderr
