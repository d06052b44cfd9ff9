"""`python -m contract`: every check in order, a line each; exit code 1 if one failed."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from contract import changes, clients, lint, selfcheck
from contract.tools import BUILD, Failure, install
from tests.support.keys import make_key_now
from tests.support.server import Server


class Report:
    """What was checked so far."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def step(self, name: str, check: Callable[[], str]) -> bool:
        """Run one check, and print its line; whether it passed."""
        try:
            result = check()
        except Failure as failure:
            return self.fail(name, str(failure))
        self.passed += 1
        print(f"ok      {name}: {result}", flush=True)
        return True

    def fail(self, name: str, why: str) -> bool:
        """Print the line of a check that failed; False."""
        self.failed += 1
        print(f"FAILED  {name}: {why}", flush=True)
        return False

    def end(self) -> int:
        """Print the sum; the exit code."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def _use(report: Report, built: Iterable[tuple[str, Callable[[str, str], str]]]) -> None:
    """Let each client that was built make its calls, by a key, against a server on a database of its own."""
    with TemporaryDirectory() as directory:
        url = f"sqlite+aiosqlite:///{Path(directory) / 'contract.db'}"
        try:
            server = Server(url, "--migrate", auth="on")
        except RuntimeError as error:
            report.fail("a server to call", str(error))
            return
        with server:
            key = make_key_now(url)
            results = [report.step(name, partial(use, server.base, key)) for name, use in built]
            printed = server.stop()
    if not all(results):
        print(printed.rstrip())


def main() -> int:
    """Check everything that can be checked."""
    report = Report()
    if not report.step("Node packages", install):
        return report.end()
    report.step("Spectral on openapi.yaml", lint.check)
    report.step("our Spectral rules bite", selfcheck.rules_bite)
    report.step("the comparison tells what breaks", selfcheck.comparison_bites)
    report.step("changes since the document before", changes.check)
    BUILD.mkdir(exist_ok=True)
    # A name with a dot: type checkers that look for sources here pass it by.
    with TemporaryDirectory(prefix=".clients-", dir=BUILD) as name:
        typescript, python = Path(name) / "typescript", Path(name) / "python"
        built: list[tuple[str, Callable[[str, str], str]]] = []
        if report.step("TypeScript client compiles", partial(clients.build_typescript, typescript)):
            built.append(("TypeScript client, live", partial(clients.use_typescript, typescript)))
        if report.step("Python client compiles", partial(clients.build_python, python)):
            built.append(("Python client, live", partial(clients.use_python, python)))
        if built:
            _use(report, built)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
