""".ci/run: every check in its order, whatever the environment; a tree that changed is a failure."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server import ROOT

TARGETS = ["check", "test", "contract", "browser"]


def run_ci(
    directory: Path, *, present: tuple[str, ...], fails: str = "", changed: str = ""
) -> tuple[int, str, list[str]]:
    """Run it with stand-ins for what it calls: its exit code, what it printed, what it called."""
    (directory / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", directory / ".ci/run")
    tools = directory / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "mktemp"):
        (tools / name).symlink_to(shutil.which(name) or "")
    for name in ("make", "apt-get", "python3", *present):
        stand_in = tools / name
        stand_in.write_text(f'#!{shutil.which("bash")}\necho {name} "$@" >>called\n[ "${{@: -1}}" != "{fails}" ]\n')
        stand_in.chmod(0o755)
    git = tools / "git"
    git.write_text(f"#!{shutil.which('bash')}\nprintf '%s' '{changed}'\n")
    git.chmod(0o755)
    ended = subprocess.run(
        [directory / ".ci/run"],
        cwd="/",
        env={"PATH": str(tools), "HOME": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        preexec_fn=lambda: os.close(0),
    )
    return ended.returncode, ended.stdout, (directory / "called").read_text().splitlines()


def made(called: list[str]) -> list[str]:
    return [line.split()[-1] for line in called if line.startswith("make ")]


def test_it_runs_every_check_in_order_with_no_home_and_no_input(tmp_path: Path) -> None:
    code, printed, called = run_ci(tmp_path, present=("npm", "chromium"))
    assert code == 0, printed
    assert made(called) == TARGETS
    assert re.findall("=== make .* (.*) ===", printed) == TARGETS
    assert not any(line.startswith("apt-get") for line in called)


def test_it_installs_only_what_is_missing(tmp_path: Path) -> None:
    code, _, called = run_ci(tmp_path, present=("npm",))
    assert code == 0
    assert [line for line in called if line.startswith("apt-get")] == [
        "apt-get update -qq",
        "apt-get install -qq -y --no-install-recommends chromium",
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_the_first_failure_ends_it(tmp_path: Path, target: str) -> None:
    code, printed, called = run_ci(tmp_path, present=("npm", "chromium"), fails=target)
    assert code != 0
    assert made(called)[-1] == target
    assert "passes" not in printed


def test_a_working_tree_that_changed_is_a_failure(tmp_path: Path) -> None:
    code, printed, _ = run_ci(tmp_path, present=("npm", "chromium"), changed=" M openapi.yaml")
    assert code == 1
    assert " M openapi.yaml" in printed


def test_the_makefile_has_every_target_that_it_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in TARGETS)
    assert os.access(ROOT / ".ci/run", os.X_OK)
