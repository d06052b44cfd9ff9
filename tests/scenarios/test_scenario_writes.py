"""Writing scenarios: created, replaced, patched, deleted, and only on the version that was seen."""

from typing import Any

import httpx
import msgspec
import pytest

from service.scenarios import heads
from service.scenarios.heads import Wire
from service.scenarios.schemas import Scenario

BODY: dict[str, Any] = {"request": {"cluster": {"gpu_count": 8}}, "description": "first", "labels": {"team": "llm"}}
URL = "/v1/scenarios/run"


async def create(api: httpx.AsyncClient, name: str = "run", **changes: Any) -> httpx.Response:
    answer = await api.put(f"/v1/scenarios/{name}", json={**BODY, **changes})
    assert answer.status_code == 201, answer.text
    return answer


def code(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    kind: str = answer.json()["type"]
    return kind.removeprefix("/errors/")


async def test_a_new_name_creates(stored_api: httpx.AsyncClient) -> None:
    answer = await create(stored_api)
    assert answer.headers["location"] == URL
    found = await stored_api.get(URL)
    assert found.status_code == 200
    assert found.content == answer.content
    assert found.headers["etag"] == answer.headers["etag"]
    assert found.headers["cache-control"] == "private, no-cache"
    assert found.headers["vary"] == "Authorization, X-API-Key"
    assert found.json()["estimate"]["cost"]["total"] == "3800.00"
    assert found.json()["version"] == 1


async def test_what_is_stored_is_what_an_estimate_would_have_said(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
    stored = bytes(raw.decode((await stored_api.get(URL)).content)["estimate"])
    assert stored == (await stored_api.post("/v1/estimates", json=BODY["request"])).content


async def test_a_stored_scenario_has_the_documented_shape(stored_api: httpx.AsyncClient) -> None:
    def hook(kind: type, value: Any) -> Any:
        return kind(value)

    answer = await create(stored_api, request={"price": {"kind": "hourly", "amount": 2.5}})
    msgspec.json.decode(answer.content, type=Scenario, dec_hook=hook)
    assert list(answer.json()) == list(Scenario.__struct_fields__) == list(Wire.__struct_fields__)


async def test_a_tag_of_a_release_that_sent_other_json_is_no_tag_of_this_one(
    stored_api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = (await create(stored_api)).headers["etag"]
    assert (await stored_api.get(URL, headers={"If-None-Match": etag})).status_code == 304
    number, version, _ = etag.strip('"').split("-")
    assert (await stored_api.get(URL, headers={"If-None-Match": f'"{number}-{version}"'})).status_code == 200
    monkeypatch.setattr(heads, "GENERATION", heads.GENERATION + 1)
    again = await stored_api.get(URL, headers={"If-None-Match": etag})
    assert (again.status_code, again.json()["version"]) == (200, 1)
    assert (await stored_api.get("/v1/scenarios")).json()["items"][0]["etag"] == again.headers["etag"] != etag


async def test_a_stored_request_can_be_sent_again(stored_api: httpx.AsyncClient) -> None:
    answer = await create(stored_api, request={"price": {"kind": "hourly", "amount": 2.5}, "cluster": {"gpu": "L40S"}})
    again = await stored_api.put("/v1/scenarios/copy", json={"request": answer.json()["request"]})
    assert again.status_code == 201
    assert again.json()["estimate"] == answer.json()["estimate"]


async def test_replacing_needs_the_version_that_was_seen(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api)).headers["etag"]
    without = await stored_api.put(URL, json=BODY)
    assert (without.status_code, code(without)) == (428, "precondition-required")
    assert without.json()["errors"] == [
        {"in": "header", "pointer": "If-Match", "message": "Required for a write to an existing object"}
    ]
    replaced = await stored_api.put(URL, json={**BODY, "description": "second"}, headers={"If-Match": etag})
    assert replaced.status_code == 200
    assert replaced.json()["version"] == 2
    assert replaced.headers["etag"] != etag
    stale = await stored_api.put(URL, json={**BODY, "description": "third"}, headers={"If-Match": etag})
    assert (stale.status_code, code(stale)) == (412, "precondition-failed")
    assert (await stored_api.get(URL)).json()["description"] == "second"


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_patch_and_delete_need_the_version_too(stored_api: httpx.AsyncClient, method: str) -> None:
    etag = (await create(stored_api)).headers["etag"]
    body = {} if method == "DELETE" else {"json": {"description": "x"}}
    assert (await stored_api.request(method, URL, **body)).status_code == 428  # type: ignore[arg-type]
    stale = await stored_api.request(method, URL, headers={"If-Match": '"9-9"'}, **body)  # type: ignore[arg-type]
    assert stale.status_code == 412
    done = await stored_api.request(method, URL, headers={"If-Match": etag}, **body)  # type: ignore[arg-type]
    assert done.status_code in (200, 204)


async def test_any_version_matches_a_star(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    assert (await stored_api.put(URL, json=BODY, headers={"If-Match": "*"})).status_code == 200


async def test_one_of_several_tags_matches_and_a_weak_one_does_not(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api)).headers["etag"]
    weak = await stored_api.put(URL, json=BODY, headers={"If-Match": f"W/{etag}"})
    assert weak.status_code == 412
    listed = await stored_api.put(URL, json=BODY, headers={"If-Match": f'"other", {etag}'})
    assert listed.status_code == 200


async def test_if_none_match_star_only_creates(stored_api: httpx.AsyncClient) -> None:
    only_new = {"If-None-Match": "*"}
    assert (await stored_api.put(URL, json=BODY, headers=only_new)).status_code == 201
    again = await stored_api.put(URL, json=BODY, headers=only_new)
    assert (again.status_code, code(again)) == (412, "precondition-failed")


async def test_if_match_on_a_new_name_fails(stored_api: httpx.AsyncClient) -> None:
    for tag in ("*", '"1-1"'):
        answer = await stored_api.put(URL, json=BODY, headers={"If-Match": tag})
        assert (answer.status_code, code(answer)) == (412, "precondition-failed")
    assert (await stored_api.get(URL)).status_code == 404


@pytest.mark.parametrize("tag", ["1-1", '"a', "W/1", '"a" "b"', "*, *", ""])
async def test_a_malformed_tag_is_refused(stored_api: httpx.AsyncClient, tag: str) -> None:
    await create(stored_api)
    answer = await stored_api.put(URL, json=BODY, headers={"If-Match": tag})
    assert (answer.status_code, code(answer)) == (400, "malformed-parameter")
    assert answer.json()["errors"][0]["in"] == "header"
    assert answer.json()["errors"][0]["pointer"] == "If-Match"


async def test_what_the_caller_has_is_not_sent_again(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api)).headers["etag"]
    for tag in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        answer = await stored_api.get(URL, headers={"If-None-Match": tag})
        assert answer.status_code == 304
        assert answer.content == b""
        assert answer.headers["etag"] == etag
    assert (await stored_api.get(URL, headers={"If-None-Match": '"x"'})).status_code == 200


async def test_a_patch_merges_and_leaves_the_answer_alone(stored_api: httpx.AsyncClient) -> None:
    before = await create(stored_api, labels={"team": "llm", "quarter": "q2"})
    answer = await stored_api.patch(
        URL,
        content=b'{"labels":{"team":null,"cost-centre":"42"}}',
        headers={"If-Match": before.headers["etag"], "Content-Type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["labels"] == {"quarter": "q2", "cost-centre": "42"}
    assert answer.json()["description"] == "first"
    raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for field in ("request", "estimate"):
        assert bytes(raw.decode(answer.content)[field]) == bytes(raw.decode(before.content)[field])


async def test_null_clears_in_a_patch(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api)).headers["etag"]
    answer = await stored_api.patch(URL, json={"labels": None, "description": None}, headers={"If-Match": etag})
    assert answer.json()["labels"] == {}
    assert answer.json()["description"] == ""


async def test_a_patch_cannot_touch_the_request(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api)).headers["etag"]
    answer = await stored_api.patch(URL, json={"request": {}}, headers={"If-Match": etag})
    assert (answer.status_code, code(answer)) == (422, "invalid-body")
    assert answer.json()["errors"][0]["pointer"] == "/request"


async def test_labels_stay_within_their_number(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api, labels={f"a{i}": "x" for i in range(32)})).headers["etag"]
    answer = await stored_api.patch(URL, json={"labels": {"one-more": "x"}}, headers={"If-Match": etag})
    assert (answer.status_code, code(answer)) == (422, "broken-rule")
    assert answer.json()["errors"][0]["pointer"] == "/labels"


async def test_a_deleted_name_is_free_again(stored_api: httpx.AsyncClient) -> None:
    first = await create(stored_api)
    gone = await stored_api.delete(URL, headers={"If-Match": first.headers["etag"]})
    assert gone.status_code == 204
    assert gone.content == b""
    assert (await stored_api.get(URL)).status_code == 404
    second = await create(stored_api)
    assert second.headers["etag"] != first.headers["etag"]
    stale = await stored_api.put(URL, json=BODY, headers={"If-Match": first.headers["etag"]})
    assert stale.status_code == 412


async def test_what_is_not_there_is_404(stored_api: httpx.AsyncClient) -> None:
    for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        answer = await stored_api.request(method, URL, json=body, headers={"If-Match": "*"})
        assert (answer.status_code, code(answer)) == (404, "not-found")
        assert answer.json()["errors"][0] == {
            "in": "path",
            "pointer": "name",
            "message": "No scenario is called 'run'.",
        }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Run", "rUN"),
        ("stra\u00dfe", "STRASSE"),
        ("caf\u00e9", "cafe\u0301"),
        ("\uff12\uff10", "20"),
        ("\u2168", "ix"),
        ("\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c2"),
    ],
)
async def test_names_that_read_the_same_are_one(stored_api: httpx.AsyncClient, one: str, other: str) -> None:
    await create(stored_api, one)
    assert (await stored_api.get(f"/v1/scenarios/{other}")).status_code == 200
    assert (await stored_api.put(f"/v1/scenarios/{other}", json=BODY)).status_code == 428


async def test_a_rule_broken_in_the_request_names_its_field(stored_api: httpx.AsyncClient) -> None:
    answer = await stored_api.put(URL, json={"request": {"cluster": {"gpu": "h100"}}})
    assert (answer.status_code, code(answer)) == (422, "ambiguous-name")
    assert answer.json()["errors"][0]["pointer"] == "/request/cluster/gpu"
    assert (await stored_api.get(URL)).status_code == 404


async def test_a_replacement_that_is_refused_changes_nothing(stored_api: httpx.AsyncClient) -> None:
    before = await create(stored_api)
    answer = await stored_api.put(
        URL,
        json={"request": {"budget": {}}, "description": "never"},
        headers={"If-Match": before.headers["etag"]},
    )
    assert answer.status_code == 422
    assert (await stored_api.get(URL)).content == before.content


async def test_a_name_too_long_when_folded_is_refused(stored_api: httpx.AsyncClient) -> None:
    answer = await stored_api.put("/v1/scenarios/" + "\ufdfa" * 100, json=BODY)
    assert (answer.status_code, code(answer)) == (422, "broken-rule")
    assert answer.json()["errors"][0]["in"] == "path"


async def test_a_name_of_100_characters_is_the_longest(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api, "n" * 100)
    assert (await stored_api.put(f"/v1/scenarios/{'n' * 101}", json=BODY)).status_code == 400


LABEL_FAULTS = [
    ({"a": 5}, "/labels/a"),
    ({"ok": "x", "A": "x"}, "/labels/A"),
    ({"a/b": "x"}, "/labels/a~1b"),
    ({"ok": "x", "b": "y" * 201}, "/labels/b"),
    ({"c": "line\n"}, "/labels/c"),
    ({"d": ["x"]}, "/labels/d"),
]


@pytest.mark.parametrize(("labels", "pointer"), LABEL_FAULTS, ids=[pointer for _, pointer in LABEL_FAULTS])
async def test_a_bad_label_is_named_by_its_key(
    stored_api: httpx.AsyncClient, labels: dict[str, Any], pointer: str
) -> None:
    put = await stored_api.put(URL, json={**BODY, "labels": labels})
    assert put.status_code == 422
    assert [fault["pointer"] for fault in put.json()["errors"]] == [pointer]
    await create(stored_api)
    patched = await stored_api.patch(URL, json={"labels": labels}, headers={"If-Match": "*"})
    assert patched.status_code == 422
    assert [fault["pointer"] for fault in patched.json()["errors"]] == [pointer]


async def test_null_is_no_label_in_a_put(stored_api: httpx.AsyncClient) -> None:
    answer = await stored_api.put(URL, json={**BODY, "labels": {"a": None}})
    assert answer.json()["errors"][0]["pointer"] == "/labels/a"


async def test_a_failed_precondition_names_its_header(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    for header, tag in (("If-Match", '"9-9"'), ("If-None-Match", "*")):
        answer = await stored_api.put(URL, json=BODY, headers={header: tag})
        assert answer.status_code == 412
        assert [(fault["in"], fault["pointer"]) for fault in answer.json()["errors"]] == [("header", header)]


async def test_times_are_kept_in_utc(stored_api: httpx.AsyncClient) -> None:
    request = {"start_at": "2027-01-04T09:00:00+05:30", "budget": {"deadline": "2027-03-01T00:00:00-08:00"}}
    stored = (await create(stored_api, request=request)).json()["request"]
    assert stored["start_at"] == "2027-01-04T03:30:00Z"
    assert stored["budget"]["deadline"] == "2027-03-01T08:00:00Z"


async def test_replacing_by_another_spelling_keeps_the_name(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api, "Alpha")
    answer = await stored_api.put("/v1/scenarios/ALPHA", json=BODY, headers={"If-Match": "*"})
    assert answer.json()["name"] == "Alpha"


async def test_what_was_deleted_can_be_restored(stored_api: httpx.AsyncClient) -> None:
    before = await create(stored_api)
    await stored_api.delete(URL, headers={"If-Match": before.headers["etag"]})
    restored = await stored_api.post(f"{URL}/restore")
    assert restored.status_code == 200, restored.text
    assert restored.headers["etag"] != before.headers["etag"]
    assert (await stored_api.get(URL)).content == restored.content
    raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for field in ("name", "description", "labels", "request", "estimate", "created_at"):
        assert bytes(raw.decode(restored.content)[field]) == bytes(raw.decode(before.content)[field])
    stale = await stored_api.put(URL, json=BODY, headers={"If-Match": before.headers["etag"]})
    assert stale.status_code == 412


async def test_the_last_deleted_of_a_name_comes_back(stored_api: httpx.AsyncClient) -> None:
    for description in ("older", "newer"):
        await create(stored_api, description=description)
        await stored_api.delete(URL, headers={"If-Match": "*"})
    assert (await stored_api.post(f"{URL}/restore")).json()["description"] == "newer"


async def test_a_name_that_is_taken_again_is_not_overwritten(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await stored_api.delete(URL, headers={"If-Match": "*"})
    taken = await create(stored_api, description="taken")
    answer = await stored_api.post(f"{URL}/restore")
    assert (answer.status_code, code(answer)) == (409, "conflict")
    assert answer.json()["errors"][0]["pointer"] == "name"
    assert (await stored_api.get(URL)).content == taken.content


async def test_what_was_never_deleted_cannot_be_restored(stored_api: httpx.AsyncClient) -> None:
    assert (await stored_api.post(f"{URL}/restore")).status_code == 404
    await create(stored_api)
    assert (await stored_api.post(f"{URL}/restore")).status_code == 404
