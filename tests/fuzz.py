"""`make fuzz`: over 20,000 generated requests against a live server, on both databases, with and without keys.

The number of requests and the first seed can be given: `python -m tests.fuzz 50000 123`.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from service.access.keys import key_id_of
from tests.contract.configs import KEYED, OPEN, config_text
from tests.contract.hooks import OWN_KEY_ID
from tests.support.keys import bearer, make_key_now
from tests.support.postgres import Postgres
from tests.support.server import ROOT, Server

_EXAMPLES_PER_OPERATION = 50
_DEFAULT_CASES = 20_000
_LEAST_ROUNDS, _MAX_ROUNDS = 4, 50  # four: each database with and without keys
_WITHOUT_LIMITS = {f"rate_{kind}": "0" for kind in ("estimates", "reads", "writes", "imports", "failures")}
_GENERATED = re.compile(r"(\d+) generated, (\d+) passed")


def main(wanted: int = _DEFAULT_CASES, first_seed: int = 1) -> int:
    """Rounds with one seed each, until enough cases have passed; the exit code."""
    began = time.monotonic()
    passed = 0
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "schemathesis.toml"
        postgres = Postgres()
        try:
            urls = (f"sqlite+aiosqlite:///{directory}/fuzz.db", postgres.new_database())
            for round_number in range(_MAX_ROUNDS):
                url, seed = urls[round_number % 2], first_seed + round_number
                kind = (OPEN, KEYED)[(round_number + 1) // 2 % 2]  # each on both databases within four rounds
                # The tests repeat themselves; this looks further with each seed.
                config.write_text(config_text(kind).replace("deterministic = true", ""))
                generated, held = _round(url, seed, config, kind)
                passed += held
                took, where = time.monotonic() - began, url.partition("+")[0]
                print(f"seed {seed}: {held} of {generated} passed on {where}, {kind}; {took:.0f} s", flush=True)
                if held != generated:
                    return 1
                if passed >= wanted and round_number + 1 >= _LEAST_ROUNDS:
                    break
        finally:
            postgres.close()
    print(f"{passed} passed, 0 failed")
    return 0


def _round(url: str, seed: int, config: Path, kind: str) -> tuple[int, int]:
    """One run of the fuzzer against a server of its own: cases generated, cases passed."""
    auth = "on" if kind == KEYED else "off"
    with Server(url, "--migrate", auth=auth, **_WITHOUT_LIMITS) as server:  # type: ignore[arg-type]  # settings
        key = make_key_now(url) if kind == KEYED else ""
        sent = [f"{name}: {value}" for name, value in bearer(key).items()] if key else []
        run = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                "--config-file",
                config,
                "run",
                f"{server.base}/openapi.json",
                "--max-examples",
                str(_EXAMPLES_PER_OPERATION),
                "--seed",
                str(seed),
                "--no-color",
                *(word for header in sent for word in ("--header", header)),
            ],
            cwd=ROOT,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.contract.hooks", OWN_KEY_ID: key_id_of(key) or ""},
            capture_output=True,
            text=True,
            check=False,
        )
    counted = _GENERATED.search(run.stdout)
    if run.returncode or counted is None:
        print(run.stdout, run.stderr, sep="\n")
    if counted is None:
        return 1, 0
    return int(counted.group(1)), int(counted.group(2)) - (1 if run.returncode else 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
