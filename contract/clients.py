"""Clients generated from openapi.yaml, compiled under strict rules, and used for real calls."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from contract.tools import DOCUMENT, HERE, load_document, must, node_tool

_TYPESCRIPT = HERE / "typescript"
_PYTHON_SMOKE = HERE / "python" / "smoke.py"
_PACKAGE = "traincost_client"


def build_typescript(target: Path) -> str:
    """Types by openapi-typescript; they and the program that uses them compile under `tsc --strict`."""
    shutil.copytree(_TYPESCRIPT, target)
    # A field with a default may be left out of a request; without the option its type says that it must be there.
    must(
        "openapi-typescript failed",
        [node_tool("openapi-typescript"), DOCUMENT, "--output", "schema.d.ts", "--default-non-nullable", "false"],
        cwd=target,
    )
    must("tsc refuses the client", [node_tool("tsc"), "--project", target])
    return f"{_lines([target / 'schema.d.ts'])} lines of types"


def use_typescript(target: Path, base: str, key: str) -> str:
    """The calls of typescript/smoke.ts."""
    return must("the TypeScript client failed", ["node", target / "smoke.js", base, key]).strip()


def build_python(target: Path) -> str:
    """A package by openapi-python-client, nothing of the document left out; it and its user pass mypy."""
    target.mkdir()
    settings = target / "settings.json"
    # Its hooks only format; a CSV file is bytes to it.
    options = {"post_hooks": [], "content_type_overrides": {"text/csv": "application/octet-stream"}}
    settings.write_text(json.dumps(options), encoding="utf-8")
    document = target / "openapi.json"
    document.write_text(json.dumps(_with_plain_headers(load_document())), encoding="utf-8")
    must(
        "openapi-python-client failed",
        [
            *(Path(sys.executable).with_name("openapi-python-client"), "generate", "--path", document),
            *("--output-path", target / _PACKAGE, "--config", settings, "--meta", "none", "--fail-on-warning"),
        ],
    )
    must("the client does not compile", [sys.executable, "-m", "compileall", "-q", target])
    must(
        "mypy refuses the client",
        [
            *(sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", target / ".mypy_cache"),
            *("--check-untyped-defs", target / _PACKAGE, _PYTHON_SMOKE),
        ],
        environment={"MYPYPATH": str(target)},
    )
    files = list((target / _PACKAGE).rglob("*.py"))
    return f"{len(files)} modules, {_lines(files)} lines"


def _with_plain_headers(document: dict[str, Any]) -> dict[str, Any]:
    """openapi-python-client takes no union in a header (`*` or tags): to it, a tag header is a plain string."""
    for item in document["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "header" and "anyOf" in parameter["schema"]:
                    parameter["schema"] = {"type": "string"}
    return document


def use_python(target: Path, base: str, key: str) -> str:
    """The calls of python/smoke.py."""
    environment = {"PYTHONPATH": str(target), "PYTHONWARNINGS": "error"}
    return must("the Python client failed", [sys.executable, _PYTHON_SMOKE, base, key], environment=environment).strip()


def _lines(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
