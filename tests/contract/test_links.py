"""Links of the document: sequences reach what names scenarios in its body, and what a link says is answered."""

from copy import deepcopy
from typing import Any

import httpx
import pytest
import schemathesis

from service.app import create_document

DOCUMENT = create_document()
BY_ID = {one["operationId"]: one for item in DOCUMENT["paths"].values() for one in item.values()}


def test_sequences_reach_differences_and_comparisons() -> None:
    machine: Any = schemathesis.openapi.from_dict(deepcopy(DOCUMENT)).as_state_machine()
    sources = {
        label: {link.source.definition.raw["operationId"] for link in transitions.incoming if not link.is_inferred}
        for label, transitions in machine._transitions.operations.items()
    }
    assert {"putScenario", "getScenario", "duplicateScenario"} <= sources["POST /v1/scenario-diffs"]
    assert {"duplicateScenario", "getScenarioRevision"} <= sources["POST /v1/scenario-comparisons"]


def put_in(said: Any, name: str, answered: Any) -> Any:
    """A link's body with what was asked and answered in the place of its expressions."""
    if isinstance(said, dict):
        return {key: put_in(value, name, answered) for key, value in said.items()}
    if isinstance(said, list):
        return [put_in(value, name, answered) for value in said]
    if said == "$request.path.name":
        return name
    return answered[said.removeprefix("$response.body#/")]


@pytest.mark.parametrize(
    ("operation", "status", "method", "path"),
    [
        ("putScenario", "201", "PUT", "/v1/scenarios/run"),
        ("getScenario", "200", "GET", "/v1/scenarios/run"),
        ("duplicateScenario", "201", "POST", "/v1/scenarios/run/duplicate"),
        ("getScenarioRevision", "200", "GET", "/v1/scenarios/run/revisions/1"),
    ],
)
async def test_what_a_link_says_is_answered(
    api: httpx.AsyncClient, operation: str, status: str, method: str, path: str
) -> None:
    for number, body in enumerate([{"request": {}}, {"request": {"cluster": {"gpu_count": 8}}}]):
        await api.put("/v1/scenarios/run", json=body, headers={"If-Match": "*"} if number else {})
    sent: Any = {"json": {"name": "copy"}} if method == "POST" else {}
    sent = {"json": {"request": {}}, "headers": {"If-Match": "*"}} if method == "PUT" else sent
    answered = (await api.request(method, path, **sent)).json()
    links = BY_ID[operation]["responses"][status]["links"].values()
    bodies = {link["operationId"]: link["requestBody"] for link in links if "requestBody" in link}
    assert "diffScenarios" in bodies
    for target, said in bodies.items():
        url = {"diffScenarios": "/v1/scenario-diffs", "compareScenarios": "/v1/scenario-comparisons"}[target]
        answer = await api.post(url, json=put_in(said, "run", answered))
        assert answer.status_code == 200, (target, answer.text)
