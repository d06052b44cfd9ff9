"""Spectral over openapi.yaml: OpenAPI's rules, OWASP's that fit, and our own in spectral.yaml."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.tools import DOCUMENT, HERE, Failure, execute, node_tool, parse_document

RULESET = HERE / "spectral.yaml"


@dataclass(frozen=True)
class Finding:
    """One rule broken at one place of one file."""

    file: str
    line: int
    rule: str
    place: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        return f"  {self.file}:{self.line}  {self.rule}  {' > '.join(self.place)}\n      {self.message}"


def own_rules() -> set[str]:
    """The rules that spectral.yaml defines itself."""
    rules = parse_document(RULESET.read_text(encoding="utf-8"))["rules"]
    return {name for name, rule in rules.items() if isinstance(rule, dict)}


def findings(files: Sequence[Path]) -> list[Finding]:
    """What Spectral has to say about these documents."""
    options = ("--ruleset", RULESET, "--format", "json", "--quiet", "--fail-severity", "hint")
    done = execute([node_tool("spectral"), "lint", *options, *files])
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        raise Failure("Spectral did not run", done.stdout + done.stderr) from None
    if bool(found) != bool(done.returncode):
        raise Failure(f"Spectral ended with {done.returncode} and {len(found)} findings", done.stderr)
    return [
        Finding(
            file=Path(one["source"]).name,
            line=one["range"]["start"]["line"] + 1,
            rule=one["code"],
            place=tuple(str(part) for part in one["path"]),
            message=one["message"],
        )
        for one in found
    ]


def check() -> str:
    """No finding of any severity."""
    found = findings([DOCUMENT])
    if found:
        raise Failure(f"{len(found)} findings", "\n".join(str(finding) for finding in found))
    return f"no findings; {len(own_rules())} rules of our own"
