"""Dockerfile and docker-compose.yml as data."""

import json
import re
from typing import Any, NamedTuple

import yaml

from tests.support.server import ROOT


class Instruction(NamedTuple):
    """A line of a Dockerfile, joined with those that continue it."""

    word: str
    rest: str


def dockerfile() -> list[list[Instruction]]:
    """Its stages, each a list of instructions."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    stages: list[list[Instruction]] = []
    for word, rest in lines:
        if word == "FROM":
            stages.append([])
        stages[-1].append(Instruction(word, " ".join(rest.split())))
    return stages


def image() -> list[Instruction]:
    """The last stage: what is shipped."""
    return dockerfile()[-1]


def last(word: str) -> str:
    """What the last such instruction of the image says."""
    return [instruction.rest for instruction in image() if instruction.word == word][-1]


def image_health_command() -> list[str]:
    """What the image's HEALTHCHECK runs."""
    command: list[str] = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    return command


def copied() -> set[str]:
    """What the Dockerfile takes from the checkout."""
    copies = [one.rest.split() for stage in dockerfile() for one in stage if one.word == "COPY"]
    return {source for words in copies if not words[0].startswith("--") for source in words[:-1]}


def removed_from_image() -> set[str]:
    """The distributions that the Dockerfile takes out again: they build, and do not serve."""
    commands = " && ".join(one.rest for stage in dockerfile() for one in stage if one.word == "RUN").split(" && ")
    [removal] = [command for command in commands if " uninstall " in command]
    return set(removal.partition("--yes ")[2].split())


def compose() -> dict[str, Any]:
    """The compose file."""
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return parsed


def environment_of(service: str, **variables: str) -> dict[str, str]:
    """A service's environment in the compose file, with `${NAME:?message}` replaced from these variables."""
    found: dict[str, str] = compose()["services"][service].get("environment", {})
    pattern = re.compile(r"\$\{(\w+):\?[^}]*\}")
    return {name: pattern.sub(lambda match: variables[match[1]], value) for name, value in found.items()}


def health_command(service: str) -> list[str]:
    """What a service's health check in the compose file runs."""
    test: list[str] = compose()["services"][service]["healthcheck"]["test"]
    assert test[0] == "CMD"
    return test[1:]
