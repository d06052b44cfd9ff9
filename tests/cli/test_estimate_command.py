"""`traincost estimate`, `migrate`, `openapi` and `--version`: what they print."""

import re
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from service import __version__
from service.cli import main
from tests.cli.commands import assert_one_line, traincost
from tests.support.examples import EXAMPLES, Example
from tests.support.server import ROOT

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.total)


def options(example: Example) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in example.query.items()]


def run(*arguments: str) -> Result:
    """The command in this process, which saves starting one."""
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@each_example
def test_the_table_shows_every_figure_of_the_classic_calculator(example: Example) -> None:
    printed = run("estimate", *options(example))
    assert printed.exit_code == 0, printed.output
    rows = {line.split()[0]: line.split()[1:] for line in printed.stdout.splitlines() if line.strip()}
    hours, price = f"{Decimal(example.gpu_hours):,.2f}", f"{Decimal(example.price):.2f}"
    assert rows["compute"] == [hours, "GPU-hour", price, f"{Decimal(example.compute_cost):,}"]
    assert rows["rework"][-1] == f"{Decimal(example.rework_cost):,}"
    assert rows["storage"][-1] == f"{Decimal(example.storage):,.2f}"
    assert rows["egress"][-1] == f"{Decimal(example.egress):,.2f}"
    assert rows["total"] == [f"{Decimal(example.total):,}"]
    hours, days = f"{Decimal(example.wall_clock_hours):,.2f}", f"{Decimal(example.wall_clock_days):,.2f}"
    assert f"wall clock  {hours} h ({days} days)" in printed.stdout


@each_example
async def test_the_json_is_what_the_service_answers_byte_for_byte(api: httpx.AsyncClient, example: Example) -> None:
    answer = await api.get("/v1/estimates", params=example.query)
    printed = run("estimate", "--format=json", *options(example))
    assert printed.stdout_bytes == answer.content + b"\n"


def test_without_options_it_is_the_classic_default() -> None:
    assert "27,950.00" in run("estimate").stdout


def test_a_warning_is_printed_under_the_table() -> None:
    printed = run("estimate", "--scaling-efficiency-percent=60").stdout
    assert re.search(r"^warning +\S", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--gpu-count", "0"),
        ("--gpu-count", "many"),
        ("--gpu-count", "1.5"),
        ("--ideal-gpu-hours", "0"),
        ("--ideal-gpu-hours", "nan"),
        ("--gpu-cost-per-hour", "-1"),
        ("--gpu-cost-per-hour", "1e400"),
        ("--scaling-efficiency-percent", "101"),
        ("--failed-run-rework-percent", "-0.1"),
        ("--storage-cost", "a lot"),
        ("--egress-cost", ""),
    ],
)
def test_a_bad_value_names_its_option(option: str, value: str) -> None:
    ended = run("estimate", f"{option}={value}")
    assert ended.exit_code == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"traincost: {option}: ")
    assert ended.stderr.count("\n") == 1


def test_the_command_itself_estimates_without_a_database(tmp_path: Path) -> None:
    ended = traincost(tmp_path, "estimate")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "27,950.00" in ended.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("revision", [[], ["head"], ["0001"]], ids=["head by default", "head", "by name"])
def test_migrate_reaches_the_revision_and_says_which(tmp_path: Path, revision: list[str]) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/new.db"
    first = traincost(tmp_path, "migrate", *revision, database_url=url)
    assert (first.returncode, first.stderr) == (0, "")
    assert re.fullmatch(r"The database is at revision \d{4}\.\n", first.stdout)
    assert revision != ["0001"] or "0001" in first.stdout
    again = traincost(tmp_path, "migrate", *revision, database_url=url)
    assert again.stdout == first.stdout


def test_migrate_takes_a_bad_setting_for_one_line(tmp_path: Path) -> None:
    assert_one_line(traincost(tmp_path, "migrate", wrokers="2"), "TRAINCOST_WROKERS is no setting")


def test_openapi_writes_the_committed_contract(tmp_path: Path) -> None:
    written = traincost(tmp_path, "openapi")
    assert written.stdout == (ROOT / "openapi.yaml").read_text()
    assert traincost(tmp_path, "openapi", "--output", "contract.yaml").stdout == ""
    assert (tmp_path / "contract.yaml").read_text() == written.stdout


def test_version_says_which_release() -> None:
    assert run("--version").stdout == f"traincost, version {__version__}\n"


@pytest.mark.parametrize("command", ["serve", "migrate", "openapi", "estimate"])
def test_every_command_is_in_the_help_and_has_its_own(command: str) -> None:
    assert command in run("--help").stdout
    assert run(command, "--help").exit_code == 0
