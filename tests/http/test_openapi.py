"""The OpenAPI document: committed as it is served, the same whatever the hash seed, and complete."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from service.app import create_app, create_document
from service.estimator.results import Estimate
from service.http.openapi import as_yaml
from service.prices.default import seed_default_table
from service.settings import Settings
from tests.conftest import NewDatabase, client_of
from tests.support.server import ROOT

DOCUMENT = create_document()
OPERATIONS = [
    (path, method, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
]
each_operation = pytest.mark.parametrize(
    ("path", "method", "operation"), OPERATIONS, ids=[op["operationId"] for *_, op in OPERATIONS]
)


async def test_what_is_committed_is_what_is_served(api: httpx.AsyncClient) -> None:
    committed = (ROOT / "openapi.yaml").read_bytes()
    assert (await api.get("/openapi.yaml")).content == committed
    assert yaml.safe_load(committed) == (await api.get("/openapi.json")).json()


def test_the_document_is_the_same_for_every_hash_seed() -> None:
    written = {
        subprocess.run(
            [sys.executable, "-m", "service", "openapi"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert written == {as_yaml(DOCUMENT)}


def test_every_route_is_documented_or_is_the_documentation() -> None:
    app = create_app(Settings())
    undocumented = {route.path_format for route in app.routes} - set(DOCUMENT["paths"])
    assert undocumented == {"/", "/docs", "/docs/assets/{name}", "/openapi.json", "/openapi.yaml"}


@each_operation
def test_every_operation_documents_its_errors_as_problems(path: str, method: str, operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        if status.startswith(("4", "5")):
            name = response["$ref"].removeprefix("#/components/responses/")
            content = DOCUMENT["components"]["responses"][name]["content"]
            assert content == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert {"400", "500"} <= set(operation["responses"])
    assert operation["summary"]
    assert operation["description"]


def test_what_is_sent_is_closed_and_what_is_answered_is_open() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("EstimateRequest", "Cluster", "HourlyPrice", "ScenarioWrite", "ScenarioPatch", "Budget"):
        assert schemas[name]["additionalProperties"] is False
    for name in ("Estimate", "Scenario", "Accelerator", "Problem"):
        assert "additionalProperties" not in schemas[name]
    for name in ("Scenario", "Accelerator", "Problem"):
        assert schemas[name]["required"] == list(schemas[name]["properties"])


def test_only_sections_that_may_not_apply_can_be_missing_from_an_estimate() -> None:
    estimate = DOCUMENT["components"]["schemas"]["Estimate"]
    optional = {field.encode_name for field in msgspec.structs.fields(Estimate) if not field.required}
    assert set(estimate["properties"]) - set(estimate["required"]) == optional


def test_unions_name_their_kinds() -> None:
    scaling = DOCUMENT["components"]["schemas"]["EstimateRequest"]["properties"]["scaling"]
    assert scaling["discriminator"]["propertyName"] == "kind"
    assert set(scaling["discriminator"]["mapping"]) == {"communication", "fixed", "interconnect", "measured", "model"}


@pytest.fixture
async def stocked(new_database: NewDatabase) -> AsyncIterator[httpx.AsyncClient]:
    """The service in process, with the price table that comes with the release."""
    url = new_database("sqlite")
    await seed_default_table(url)
    async with client_of(url) as client:
        yield client


async def store_what_is_named(api: httpx.AsyncClient) -> None:
    """Every scenario that an example names, in two revisions."""
    euros = {"kind": "hourly", "amount": "2.10", "currency": "EUR"}
    for name, price in (("base-model", {}), ("on-aws", {}), ("on-spot", {}), ("in-frankfurt", {"price": euros})):
        for gpu_count in (8, 16):
            body = {"request": {"cluster": {"gpu_count": gpu_count}, **price}}
            headers = {} if gpu_count == 8 else {"If-Match": "*"}
            assert (await api.put(f"/v1/scenarios/{name}", json=body, headers=headers)).is_success


@pytest.mark.parametrize(
    ("path", "method", "operation"),
    [one for one in OPERATIONS if "examples" in str(one[2].get("requestBody"))],
    ids=lambda value: value.get("operationId") if isinstance(value, dict) else "",
)
async def test_the_examples_are_answered(
    stocked: httpx.AsyncClient, path: str, method: str, operation: dict[str, Any]
) -> None:
    await store_what_is_named(stocked)
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        for name, example in content.get("examples", {}).items():
            if path.startswith("/v1/scenarios/{name}/"):
                await stocked.put(f"/v1/scenarios/{name}", json={"request": {}})
            url = path.replace("{name}", name).replace("{period}", "2027-01-01..2027-02-01").replace("{number}", "1")
            sent: Any = {"content": example["value"], "headers": {"Content-Type": kind}}
            if kind != "text/csv":
                sent = {"json": example["value"], "headers": {"If-Match": "*"} if "{number}" in path else {}}
            answer = await stocked.request(method.upper(), url, **sent)
            assert answer.status_code in (200, 201), answer.text
            amount = example["summary"].rpartition(": ")[2].removesuffix(" USD").replace(",", "")
            if amount.replace(".", "").isdigit():
                assert answer.json()["cost"]["total"] == amount
