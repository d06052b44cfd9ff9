"""The README's example is a real request, and what it shows is the real answer."""

import json
import re
from typing import Any

import httpx

from tests.support.server import ROOT

README = (ROOT / "README.md").read_text()


def shown_answer() -> str:
    found = re.search(r"```json\n(.*?)```", README, re.DOTALL)
    assert found
    return found.group(1)


async def test_the_example_shows_the_real_answer(api: httpx.AsyncClient) -> None:
    request = re.search(r"-d '(\{.*?\n  \})'", README, re.DOTALL)
    assert request
    answer = (await api.post("/v1/estimates", json=json.loads(request.group(1)))).json()
    shown = json.loads(shown_answer())
    assert shown == part_of(answer, shown)
    assert shown_answer() == json.dumps(shown, indent=2) + "\n"


def part_of(answer: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """Of an answer the fields that the other one has."""
    return {
        name: part_of(answer[name], value) if isinstance(value, dict) else answer[name] for name, value in like.items()
    }


async def test_the_link_and_the_command_are_the_same_question(api: httpx.AsyncClient) -> None:
    link = re.search(r"curl 'http://127.0.0.1:8000(/v1/estimates\?[^']+)'", README)
    command = re.search(r"traincost estimate (.+)", README)
    assert link
    assert command
    assert (await api.get(link.group(1))).status_code == 200
    options = re.findall(r"--([a-z-]+) (\S+)", command.group(1))
    asked = dict(httpx.URL(link.group(1)).params)
    assert {name.replace("-", "_"): value for name, value in options} == asked


def test_every_path_that_a_document_names_exists() -> None:
    for document in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "bench").glob("*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_target_that_the_readme_names_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z]+)`", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
