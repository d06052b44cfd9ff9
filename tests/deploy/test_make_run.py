"""`make run` on a bare machine: a checkout without .venv, HOME empty; the second start installs nothing."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.ports import free_port
from tests.support.server import ROOT

_LONGEST_START_SECONDS = 240


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git would give: no environment, no database, nothing made."""
    copy = tmp_path_factory.mktemp("bare") / "traincost"
    made = shutil.ignore_patterns(
        ".git", ".venv", "node_modules", "build", "__pycache__", ".*_cache", ".hypothesis", "*.db*"
    )
    shutil.copytree(ROOT, copy, ignore=made)
    return copy


@contextmanager
def make_run(checkout: Path, home: Path) -> Iterator[tuple[str, Path]]:
    """`make run` in its own process group, until it answers; its address and what it prints."""
    home.mkdir(exist_ok=True)
    port = free_port()
    printed = checkout.parent / f"printed-{port}.txt"
    base = f"http://127.0.0.1:{port}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TRAINCOST_PORT": str(port)}
    environment.update({name: value for name, value in os.environ.items() if name.startswith("PIP_")})
    with printed.open("w") as output:
        process = subprocess.Popen(
            ["make", "run"], cwd=checkout, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + _LONGEST_START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            try:
                httpx.get(f"{base}/health/ready", timeout=1, trust_env=False).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield base, printed
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def test_make_run_answers_a_real_request_and_starts_again_at_once(checkout: Path, tmp_path: Path) -> None:
    with make_run(checkout, tmp_path / "home") as (base, printed):
        answer = httpx.post(f"{base}/v1/estimates", json={}, trust_env=False)
        assert answer.json()["cost"]["total"] == "27950.00"
        kept = httpx.put(f"{base}/v1/scenarios/kept", json={"request": {}}, trust_env=False)
        assert kept.status_code == 201
        assert f"{base}/docs" in printed.read_text()
        assert "pip install" in printed.read_text()
    with make_run(checkout, tmp_path / "home") as (base, printed):
        assert httpx.get(f"{base}/v1/scenarios/kept", trust_env=False).content == kept.content
        assert "pip install" not in printed.read_text()
