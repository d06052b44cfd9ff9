"""How the tools are found, installed and run: quietly, from the lock, with nobody told of it."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILD = HERE / "build"
DOCUMENT = ROOT / "openapi.yaml"
_LOCK = HERE / "package-lock.json"
_INSTALLED = HERE / "node_modules" / ".package-lock.json"
_SILENT = {"DO_NOT_TRACK": "1", "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1", "REDOCLY_TELEMETRY": "off"}
_SECONDS = 600


class Failure(Exception):
    """A check that failed: why, and what the tool printed."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(f"{reason}\n{output.rstrip()}" if output.strip() else reason)


def load_document() -> dict[str, Any]:
    """openapi.yaml."""
    return parse_document(DOCUMENT.read_text(encoding="utf-8"))


def parse_document(text: str) -> dict[str, Any]:
    """An OpenAPI document in YAML."""
    document = yaml.safe_load(text)
    assert isinstance(document, dict)
    return document


def execute(
    command: Sequence[str | Path], *, cwd: Path = HERE, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; whatever its exit code, what it printed is kept. Failure if it did not run at all."""
    try:
        return subprocess.run(  # noqa: S603 -- our own commands
            [str(part) for part in command],
            cwd=cwd,
            env={**os.environ, **_SILENT, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{command[0]} did not run: {error}") from error


def must(
    reason: str, command: Sequence[str | Path], *, cwd: Path = HERE, environment: Mapping[str, str] | None = None
) -> str:
    """What a command printed; Failure if its exit code is not 0."""
    done = execute(command, cwd=cwd, environment=environment)
    if done.returncode:
        raise Failure(f"{reason} (exit code {done.returncode})", done.stdout + done.stderr)
    return done.stdout


def node_tool(name: str) -> Path:
    """A command that an installed Node package brings."""
    return HERE / "node_modules" / ".bin" / name


def install() -> str:
    """`npm ci`, where what is installed is not what the lock says."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Failure("npm is not here: install Node.js 20 or later with npm")
    if _INSTALLED.exists() and _INSTALLED.stat().st_mtime >= _LOCK.stat().st_mtime:
        return "as locked already"
    must("npm ci failed", [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"])
    return "installed as locked"
