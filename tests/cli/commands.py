"""The command `traincost` as a process, from a directory of its own."""

import subprocess
import sys
from pathlib import Path

from tests.support.server import clean_environment

TRAINCOST = Path(sys.executable).with_name("traincost")


def traincost(cwd: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        [TRAINCOST, *arguments],
        cwd=cwd,
        env=clean_environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def assert_one_line(ended: subprocess.CompletedProcess[str], *says: str) -> None:
    """It ended with exit code 1 and one line that says all of this."""
    assert ended.stderr.startswith("traincost: "), ended.stderr
    assert ended.stderr.endswith(".\n"), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stdout == ""
    assert ended.returncode == 1
    for words in says:
        assert words in ended.stderr
