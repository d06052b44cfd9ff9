"""Price tables over HTTP: heads, revisions that never change, and what is read of them."""

from typing import Any

import httpx
import msgspec
import pytest

from service.prices import rate_store, table_schemas
from tests.prices.rates import row

URL = "/v1/price-tables/ours"


async def create(api: httpx.AsyncClient, url: str = URL, currency: str = "USD") -> httpx.Response:
    answer = await api.put(url, json={"currency": currency, "description": "Contract prices"})
    assert answer.status_code == 201, answer.text
    return answer


async def revise(api: httpx.AsyncClient, *rates: dict[str, Any], status: int = 201, **fields: Any) -> httpx.Response:
    headers = fields.pop("headers", {})
    answer = await api.post(f"{URL}/revisions", json={"rates": rates, **fields}, headers=headers)
    assert answer.status_code == status, answer.text
    return answer


def code(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    kind: str = answer.json()["type"]
    return kind.removeprefix("/errors/")


async def test_a_new_name_creates_an_empty_table(stored_api: httpx.AsyncClient) -> None:
    answer = await create(stored_api)
    assert answer.headers["location"] == URL
    found = await stored_api.get(URL)
    assert found.content == answer.content
    assert found.json()["latest"] is None
    again = await stored_api.get(URL, headers={"If-None-Match": found.headers["etag"]})
    assert again.status_code == 304


async def test_writes_need_the_version_that_was_seen(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api)).headers["etag"]
    body = {"currency": "EUR"}
    assert code(await stored_api.put(URL, json=body)) == "precondition-required"
    assert code(await stored_api.put(URL, json=body, headers={"If-Match": '"0-0"'})) == "precondition-failed"
    assert (await stored_api.put(URL, json=body, headers={"If-Match": etag})).status_code == 200
    assert code(await stored_api.patch(URL, json={}, headers={"If-Match": etag})) == "precondition-failed"
    assert code(await stored_api.delete(URL)) == "precondition-required"


async def test_a_description_is_patched(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    answer = await stored_api.patch(URL, json={"description": None}, headers={"If-Match": "*"})
    assert answer.json()["description"] == ""


async def test_a_currency_is_fixed_once_there_are_prices(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(stored_api, row())
    answer = await stored_api.put(URL, json={"currency": "EUR"}, headers={"If-Match": "*"})
    assert code(answer) == "conflict"


async def test_a_revision_keeps_who_made_it_and_why(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    told: dict[str, Any] = {
        "author": "finance",
        "note": "Q1",
        "source": "contract 7",
        "licence": "internal",
        "as_of": "2026-11-01",
    }
    answer = await revise(stored_api, row(), **told)
    assert answer.headers["location"] == f"{URL}/revisions/1"
    found = await stored_api.get(f"{URL}/revisions/1")
    assert found.json().items() >= {**told, "number": 1, "rate_count": 1, "currency": "USD", "table": "ours"}.items()
    assert (await stored_api.get(URL)).json()["latest"] == found.json()
    tagged = await stored_api.get(f"{URL}/revisions/1", headers={"If-None-Match": found.headers["etag"]})
    assert tagged.status_code == 304


async def test_the_same_rates_in_any_order_make_no_new_revision(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    first, second = row("2.00"), row("3.00", provider="gcp")
    made = await revise(stored_api, first, second)
    same = await revise(stored_api, {**second, "price_per_gpu_hour": 3}, row("2.0"), status=200)
    assert same.json() == made.json()
    assert "location" not in same.headers
    assert (await revise(stored_api, first)).json()["number"] == 2


async def test_old_revisions_stay_readable(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(stored_api, row("2.00"))
    before = (await stored_api.get(f"{URL}/rates?revision=1")).content
    for price in ("3.00", "4.00"):
        await revise(stored_api, row(price))
    assert (await stored_api.get(f"{URL}/rates?revision=1")).content == before
    newest = (await stored_api.get(f"{URL}/rates")).json()
    assert (newest["revision"], newest["items"][0]["price_per_gpu_hour"]) == (3, "4")
    numbers = [item["number"] for item in (await stored_api.get(f"{URL}/revisions")).json()["items"]]
    assert numbers == [3, 2, 1]
    assert code(await stored_api.get(f"{URL}/rates?revision=9")) == "not-found"


async def test_a_deleted_table_keeps_its_revisions_by_id_and_can_be_restored(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    revision = (await revise(stored_api, row())).json()
    assert (await stored_api.delete(URL, headers={"If-Match": "*"})).status_code == 204
    assert code(await stored_api.get(URL)) == "not-found"
    by_id = f"/v1/price-revisions/{revision['id']}"
    assert (await stored_api.get(by_id)).json() == revision
    assert b"h100-sxm-80gb" in (await stored_api.get(f"{by_id}/export")).content
    assert (await stored_api.post(f"{URL}/restore")).json()["latest"] == revision
    assert code(await stored_api.post(f"{URL}/restore")) == "not-found"


async def test_a_restored_name_that_is_taken_conflicts(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await stored_api.delete(URL, headers={"If-Match": "*"})
    await create(stored_api)
    assert code(await stored_api.post(f"{URL}/restore")) == "conflict"


@pytest.mark.parametrize(
    ("rate", "pointer"),
    [
        (row(None), "/rates/0/price_per_gpu_hour"),
        (row("0"), "/rates/0/price_per_gpu_hour"),
        (row("1", unknown_reason="why"), "/rates/0/unknown_reason"),
        (row("1", accelerator_id=None), "/rates/0/accelerator_id"),
        (row("1", valid_from="2026-02-01", valid_to="2026-02-01"), "/rates/0/valid_to"),
        (row("1", provider=" "), "/rates/0/provider"),
    ],
)
async def test_a_rate_that_cannot_be_is_refused(api: httpx.AsyncClient, rate: dict[str, Any], pointer: str) -> None:
    await create(api)
    answer = await revise(api, rate, status=422)
    assert code(answer) == "broken-rule"
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


async def test_a_revision_of_no_table_is_not_found(stored_api: httpx.AsyncClient) -> None:
    await revise(stored_api, row(), status=404)


async def test_a_revision_may_ask_for_the_version_it_is_based_on(stored_api: httpx.AsyncClient) -> None:
    etag = (await create(stored_api)).headers["etag"]
    await revise(stored_api, row("1"), headers={"If-Match": etag})
    await revise(stored_api, row("2"), headers={"If-Match": etag}, status=412)


async def test_rates_are_filtered_and_paged_in_a_stable_order(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    rates = [
        row(f"{n}.00", provider=provider, region=region, purchase=purchase)
        for n, (provider, region, purchase) in enumerate(
            [
                (provider, region, purchase)
                for provider in ("aws", "gcp")
                for region in ("us-east-1", "eu-west-1")
                for purchase in ("on_demand", "spot")
            ],
            1,
        )
    ]
    await revise(stored_api, *rates, row("9", accelerator_id="l40s-48gb", gpu_count=4, instance="g6e.12xlarge"))

    async def count(query: str) -> int:
        answer = await stored_api.get(f"{URL}/rates?{query}")
        assert answer.status_code == 200, answer.text
        return len(answer.json()["items"])

    assert await count("gpu=H100+SXM") == 8
    assert await count("provider=GCP") == 4
    assert await count("region=us-east-1&purchase=spot") == 2
    assert await count("gpu_count=4") == 1
    assert await count("q=12XL") == 1
    assert await count("q=%25") == 0
    assert await count("kind=storage") == 0
    everything = (await stored_api.get(f"{URL}/rates")).json()["items"]
    paged: list[Any] = []
    url = f"{URL}/rates?limit=2"
    while url:
        page = await stored_api.get(url)
        paged += page.json()["items"]
        url = page.links["next"]["url"] if "next" in page.links else ""
    assert paged == everything
    assert len(everything) == 9


async def test_only_what_holds_on_a_day_is_listed_for_it(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(
        stored_api,
        row("1", valid_from="2026-01-01"),
        row("2", valid_from="2026-03-01", valid_to="2026-04-01"),
        row("3", provider="gcp", seen_on="2026-02-01"),
        row("4", provider="gcp", seen_on="2026-03-01"),
    )
    for day, expected in (
        ("2025-12-31", ["3"]),
        ("2026-02-01", ["1", "3"]),
        ("2026-03-15", ["2", "4"]),
        ("2026-04-01", ["1", "4"]),
    ):
        items = (await stored_api.get(f"{URL}/rates?as_of={day}")).json()["items"]
        assert [item["price_per_gpu_hour"] for item in items] == expected, day


async def test_a_choice_names_revision_date_and_what_it_beat(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(stored_api, row("2", seen_on="2026-01-01"), row("3", provider="gcp"))
    answer = (await stored_api.get(f"{URL}/choice?gpu=H100+SXM&gpu_count=512&as_of=2026-11-30")).json()
    assert answer["rate"]["price_per_gpu_hour"] == "2"
    assert [rate["provider"] for rate in answer["beaten"]] == ["gcp"]
    assert (answer["revision"], answer["as_of"], answer["age_days"]) == (1, "2026-11-30", 333)
    assert [note["code"] for note in answer["notes"]] == ["price_stale"]
    await revise(stored_api, row("5"))
    assert (await stored_api.get(f"{URL}/choice?gpu=h100-sxm-80gb")).json()["rate"]["price_per_gpu_hour"] == "5"
    old = (await stored_api.get(f"{URL}/choice?gpu=h100-sxm-80gb&revision=1")).json()
    assert (old["revision"], old["rate"]["price_per_gpu_hour"]) == (1, "2")


async def test_a_choice_that_cannot_be_made_says_what_there_is(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    assert code(await stored_api.get(f"{URL}/choice?gpu=h100-sxm-80gb")) == "not-found"
    await revise(stored_api, row("2"))
    answer = await stored_api.get(f"{URL}/choice?gpu=h100-sxm-80gb&purchase=spot")
    assert code(answer) == "broken-rule"
    assert answer.json()["errors"][0]["pointer"] == "purchase"
    assert "on_demand at aws" in answer.json()["detail"]
    missing = await stored_api.get(f"{URL}/choice")
    assert code(missing) == "malformed-parameter"
    assert missing.json()["errors"][0] == {"in": "query", "pointer": "gpu", "message": "Required and missing"}
    assert code(await stored_api.get(f"{URL}/choice?gpu=h100")) == "ambiguous-name"


async def test_two_revisions_are_compared_rate_by_rate(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(stored_api, row("2.00"), row("1.00", provider="gone"), row("7.00", provider="same"))
    await revise(stored_api, row("2.50"), row("3.00", provider="new"), row("7.00", provider="same"))
    answer = (await stored_api.get(f"{URL}/comparison")).json()
    assert (answer["added"], answer["removed"], answer["changed"]) == (1, 1, 1)
    assert (answer["from_revision"], answer["to_revision"]) == (1, 2)
    changed, removed, added = answer["items"]
    assert (changed["change"], changed["fields"], changed["percent"]) == ("changed", ["price_per_gpu_hour"], 25)
    assert (removed["change"], removed["before"]["provider"], removed["after"]) == ("removed", "gone", None)
    assert (added["change"], added["after"]["provider"]) == ("added", "new")
    backwards = (await stored_api.get(f"{URL}/comparison?from=2&to=1")).json()
    assert (backwards["added"], backwards["removed"], backwards["items"][0]["percent"]) == (1, 1, -20)
    nothing = (await stored_api.get(f"{URL}/comparison?from=1&to=1")).json()
    assert (nothing["added"], nothing["removed"], nothing["changed"], nothing["items"]) == (0, 0, 0, [])


async def test_rates_that_begin_on_the_same_day_are_compared_with_each_other(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(stored_api, row("2.00", valid_from="2026-01-01"))
    ended = row("2.00", valid_from="2026-01-01", valid_to="2026-09-01")
    await revise(stored_api, ended, row("4.00", valid_from="2026-09-01"))
    answer = (await stored_api.get(f"{URL}/comparison")).json()
    assert (answer["added"], answer["removed"], answer["changed"]) == (1, 0, 1)
    changed, added = answer["items"]
    assert (changed["change"], changed["fields"], changed["percent"]) == ("changed", ["valid_to"], 0)
    assert (added["change"], added["after"]["price_per_gpu_hour"]) == ("added", "4")


async def test_a_comparison_is_paged_without_losing_a_change(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    hosts = [row(f"{n}", purchase="marketplace", provider=f"p{n % 3}") for n in range(1, 12)]
    await revise(stored_api, *hosts)
    await revise(stored_api, *(row(f"{n}.5", purchase="marketplace", provider=f"p{n % 3}") for n in range(1, 12)))
    whole = (await stored_api.get(f"{URL}/comparison")).json()
    assert whole["changed"] == len(whole["items"]) == 11
    paged: list[Any] = []
    url = f"{URL}/comparison?limit=2"
    while url:
        page = await stored_api.get(url)
        assert len(page.json()["items"]) <= 2
        paged += page.json()["items"]
        url = page.links["next"]["url"] if "next" in page.links else ""
    assert paged == whole["items"]


async def test_a_rate_has_a_history(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    for price in ("1", "2", "3"):
        await revise(stored_api, row(price), row("9", provider="gcp"), as_of=f"2026-0{price}-01")
    answer = (await stored_api.get(f"{URL}/history?gpu=h100-sxm-80gb&provider=aws")).json()
    assert [(item["revision"], item["rate"]["price_per_gpu_hour"]) for item in answer["items"]] == [
        (3, "3"),
        (2, "2"),
        (1, "1"),
    ]
    assert answer["items"][0]["revision_as_of"] == "2026-03-01"
    first = await stored_api.get(f"{URL}/history?gpu=h100-sxm-80gb&limit=4")
    second = await stored_api.get(first.links["next"]["url"])
    assert len(first.json()["items"] + second.json()["items"]) == 6


async def test_a_history_is_one_of_egress_too(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    tier = {"kind": "egress", "provider": "aws", "route": "internet", "source": "a test", "price_per_gb": "0.09"}
    await revise(stored_api, row("1"), tier)
    items = (await stored_api.get(f"{URL}/history?kind=egress")).json()["items"]
    assert [item["rate"]["price_per_gb"] for item in items] == ["0.09"]


async def test_a_deleted_table_prices_nothing_from_then_on(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(stored_api, row("1"))
    body = {"cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 8}, "price": {"kind": "table", "table": "ours"}}
    async with stored_api._transport.app.state.prices.snapshots.watched():  # type: ignore[attr-defined]
        assert (await stored_api.post("/v1/estimates", json=body)).status_code == 200
        etag = (await stored_api.get(URL)).headers["etag"]
        assert (await stored_api.delete(URL, headers={"If-Match": etag})).status_code == 204
        assert (await stored_api.post("/v1/estimates", json=body)).status_code == 422
        assert (await stored_api.post(f"{URL}/restore")).status_code == 200
        assert (await stored_api.post("/v1/estimates", json=body)).status_code == 200


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("rates?revision=99", "revision"),
        ("choice?gpu=h100-sxm-80gb&revision=99", "revision"),
        ("comparison?to=99", "to"),
        ("comparison?from=99", "from"),
    ],
)
async def test_a_revision_that_is_not_there_is_said_of_its_parameter(
    stored_api: httpx.AsyncClient, query: str, parameter: str
) -> None:
    await create(stored_api)
    await revise(stored_api, row("1"))
    answer = await stored_api.get(f"{URL}/{query}")
    assert answer.status_code == 404
    assert answer.json()["errors"][0] == {"in": "query", "pointer": parameter, "message": "No such revision"}


async def test_a_name_of_no_accelerator_is_kept_and_found(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    await revise(stored_api, row("1", accelerator_id=None, accelerator_name="Mystery GPU"))
    items = (await stored_api.get(f"{URL}/rates?gpu=mystery+gpu")).json()["items"]
    assert [item["accelerator_name"] for item in items] == ["Mystery GPU"]


async def test_a_generic_name_finds_every_accelerator_that_it_fits(stored_api: httpx.AsyncClient) -> None:
    await create(stored_api)
    ids = ("h100-sxm-80gb", "h100-pcie-80gb", "l40s-48gb")
    await revise(
        stored_api, *(row(accelerator_id=gpu) for gpu in ids), row(accelerator_id=None, accelerator_name="H100")
    )
    items = (await stored_api.get(f"{URL}/rates?gpu=h100")).json()["items"]
    assert [item["accelerator_id"] for item in items] == [None, "h100-pcie-80gb", "h100-sxm-80gb"]


async def test_lists_of_tables_are_filtered_and_paged(stored_api: httpx.AsyncClient) -> None:
    for name in ("b", "a", "c"):
        await create(stored_api, f"/v1/price-tables/{name}")
    first = await stored_api.get("/v1/price-tables?limit=2")
    assert [item["name"] for item in first.json()["items"]] == ["a", "b"]
    rest = await stored_api.get(first.links["next"]["url"])
    assert [item["name"] for item in rest.json()["items"]] == ["c"]
    assert [item["name"] for item in (await stored_api.get("/v1/price-tables?q=B")).json()["items"]] == ["b"]


def test_what_is_put_together_from_stored_bytes_has_the_documented_shape() -> None:
    for wire, documented in (
        (rate_store._Page, table_schemas.RatePage),
        (rate_store._HistoryPage, table_schemas.HistoryPage),
        (rate_store._HistoryRow, table_schemas.HistoryRow),
    ):
        assert [field.name for field in msgspec.structs.fields(wire)] == [
            field.name for field in msgspec.structs.fields(documented)
        ]
