"""Dockerfile and docker-compose.yml, read: settings that exist, an order that holds, nothing open, no secret."""

import json
import re
import subprocess
from typing import Any
from urllib.parse import urlsplit

import pytest

from service.settings import Settings, load_settings, variable_of
from tests.deploy.recipes import (
    compose,
    copied,
    dockerfile,
    environment_of,
    health_command,
    image,
    image_health_command,
    last,
    removed_from_image,
)
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.server import ROOT

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = ["migrate", "service"]


@pytest.mark.parametrize("name", OURS)
def test_its_settings_exist_and_load(name: str) -> None:
    environment = environment_of(name, POSTGRES_PASSWORD="x")
    ours = {variable for variable in environment if variable.startswith("TRAINCOST_")}
    assert ours <= {variable_of(setting) for setting in Settings.__struct_fields__}
    assert all(isinstance(value, str) for value in environment.values())
    settings = load_settings(environment)
    assert settings.database_url == "postgresql+asyncpg://traincost@database:5432/traincost"


def test_the_migration_waits_for_the_database_and_the_service_for_both() -> None:
    healthy, completed = {"condition": "service_healthy"}, {"condition": "service_completed_successfully"}
    assert "depends_on" not in SERVICES["database"]
    assert SERVICES["migrate"]["depends_on"] == {"database": healthy}
    assert SERVICES["service"]["depends_on"] == {"database": healthy, "migrate": completed}
    assert SERVICES["migrate"]["restart"] == "no"


def test_only_loopback_is_published() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"service": ["127.0.0.1:8000:8000"]}
    assert environment_of("service", POSTGRES_PASSWORD="x")["TRAINCOST_PORT"] == "8000"
    assert not any("network_mode" in service for service in SERVICES.values())


def test_the_password_comes_from_outside_and_has_no_default() -> None:
    for service in SERVICES.values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY", name):
                assert re.fullmatch(r"\$\{POSTGRES_PASSWORD:\?[^}]+\}", value)
            if "://" in value:
                assert urlsplit(value).password is None


def test_the_database_is_pinned_and_keeps_its_data_in_a_volume() -> None:
    assert re.fullmatch(r"postgres:17\.\d+", SERVICES["database"]["image"])
    assert SERVICES["database"]["volumes"] == ["database:/var/lib/postgresql/data"]
    assert list(compose()["volumes"]) == ["database"]
    told = environment_of("database", POSTGRES_PASSWORD="x")
    url = urlsplit(environment_of("service", POSTGRES_PASSWORD="x")["TRAINCOST_DATABASE_URL"])
    assert (url.username, url.hostname, url.path) == (told["POSTGRES_USER"], "database", f"/{told['POSTGRES_DB']}")


@pytest.mark.parametrize("name", OURS)
def test_it_may_do_no_more_than_it_must(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "user", "volumes", "cap_add"} & set(service)


def test_both_run_the_image_and_the_service_runs_what_it_runs_by_itself() -> None:
    assert SERVICES["migrate"]["image"] == SERVICES["service"]["image"]
    assert SERVICES["service"]["command"] == json.loads(last("CMD"))
    assert health_command("service") == image_health_command()


def test_the_image_does_not_run_as_root() -> None:
    user, group = last("USER").split(":")
    assert int(user) > 999
    assert int(group) > 999
    order = [instruction.word for instruction in image()]
    assert "RUN" not in order[order.index("USER") :]
    assert f"useradd --uid {user} " in " ".join(instruction.rest for instruction in image())


def test_the_image_copies_files_that_exist_and_that_reach_the_builder() -> None:
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in allowed
    assert {line[1:] for line in allowed if line.startswith("!")} == {source.removeprefix("./") for source in copied()}
    for source in copied():
        assert (ROOT / source).exists()


def test_the_image_ships_nothing_that_builds() -> None:
    assert all(stage[0].rest.startswith("python:3.11-slim-") for stage in dockerfile())
    assert not re.search("pip |apt|gcc|wheel", " ".join(one.rest for one in image() if one.word == "RUN"))
    assert removed_from_image() == build_tools()


def test_no_instruction_names_a_secret() -> None:
    names = " ".join(one.rest for stage in dockerfile() for one in stage if one.word in {"ARG", "ENV"})
    assert not re.search("PASSWORD|SECRET|TOKEN|KEY", names)


def test_the_database_is_healthy_when_it_takes_connections_and_not_before(postgres: Postgres) -> None:
    program, *arguments = health_command("database")

    def asked(port: int) -> int:
        command = [str(postgres.binaries / program), *arguments]
        return subprocess.run(command, env={"PGPORT": str(port)}, capture_output=True, check=False).returncode

    assert asked(postgres.port) == 0
    assert asked(free_port()) == 2


def build_tools() -> set[str]:
    """What requirements.txt holds for the sake of hatchling only."""
    wanted_by: dict[str, set[str]] = {}
    name = ""
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        if found := re.match(r"([a-z0-9.-]+)==", line):
            name = found[1]
            wanted_by[name] = set()
        elif found := re.match(r"    # (?:via)? *(\S+)", line):
            wanted_by[name].add(found[1])
    tools = {"hatchling"}
    while more := {name for name, by in wanted_by.items() if by and by <= tools} - tools:
        tools |= more
    return tools
