"""Writing scenarios: created, replaced, patched, deleted, and only on the version that was seen."""

import httpx

BODY = {"request": {"cluster": {"gpu_count": 8}}, "description": "first", "labels": {"team": "llm"}}


async def create(api: httpx.AsyncClient, name: str = "run", **changes: object) -> httpx.Response:
    answer = await api.put(f"/v1/scenarios/{name}", json={**BODY, **changes})
    assert answer.status_code == 201, answer.text
    return answer


async def test_a_new_name_creates(stored_api: httpx.AsyncClient) -> None:
    answer = await create(stored_api)
    assert answer.headers["location"] == "/v1/scenarios/run"
    found = await stored_api.get("/v1/scenarios/run")
    assert found.status_code == 200
    assert found.content == answer.content
    assert found.headers["etag"] == answer.headers["etag"]
    assert found.json()["estimate"]["cost"]["total"] == "3800.00"
