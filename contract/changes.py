"""What has changed for callers since the document before, and whether a change that breaks them is owned up to."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contract.tools import DOCUMENT, HERE, ROOT, Failure, execute, load_document, must, parse_document

_SHOWN = 40
_UNRELEASED = re.compile(r"^## \[?Unreleased\]?.*?$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Change:
    """One difference, at one operation."""

    breaking: bool
    place: str
    text: str


def compare(before: dict[str, Any], afters: Sequence[dict[str, Any]]) -> list[list[Change]]:
    """How each of these documents differs from the one before, for callers."""
    with TemporaryDirectory() as name:
        files = []
        for index, document in enumerate((before, *afters)):
            file = Path(name) / f"{index}.json"
            file.write_text(json.dumps(document), encoding="utf-8")
            files.append(file)
        printed = must("the comparison failed", ["node", HERE / "breaking.mjs", *files])
    return [[Change(**change) for change in changes] for changes in json.loads(printed)]


def document_before() -> tuple[str, dict[str, Any]] | None:
    """The last release's document, or else the last commit's; None where there is no history of it."""
    if shutil.which("git") is None:
        return None
    tag = execute(["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"], cwd=ROOT)
    for revision in (*tag.stdout.split(), "HEAD"):
        shown = execute(["git", "show", f"{revision}:{DOCUMENT.name}"], cwd=ROOT)
        if shown.returncode == 0:
            return revision, parse_document(shown.stdout)
    return None


def is_announced() -> bool:
    """CHANGELOG.md says under Unreleased that something breaks."""
    changelog = ROOT / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8") if changelog.exists() else ""
    unreleased = _UNRELEASED.search(text)
    return unreleased is not None and "breaking" in unreleased[1].lower()


def check() -> str:
    """Nothing breaks callers, or CHANGELOG.md says so."""
    before = document_before()
    if before is None:
        return "no document before this one"
    revision, document = before
    changes = compare(document, [load_document()])[0]
    breaking = [change for change in changes if change.breaking]
    result = f"{len(changes)} since {revision}, {len(breaking)} breaking"
    if breaking and not is_announced():
        raise Failure(f'{result}, and "Breaking" is not under Unreleased in CHANGELOG.md', _listed(changes))
    return f"{result}\n{_listed(changes)}" if changes else result


def _listed(changes: list[Change]) -> str:
    """What breaks first; the same change of a schema in several operations once."""
    places: dict[tuple[bool, str], list[str]] = {}
    for change in sorted(changes, key=lambda change: not change.breaking):
        places.setdefault((change.breaking, change.text), []).append(change.place)
    lines = []
    for (breaking, text), found in places.items():
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        lines.append(f"  {'breaking' if breaking else 'fine    '}  {found[0]}{others}: {text}")
    left = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join([*lines[:_SHOWN], *left])
