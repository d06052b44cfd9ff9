"""The catalogue over HTTP: filters, pages, spellings, caching."""

import httpx
import pytest

from service.http.paging import write_cursor


async def test_every_accelerator_is_listed_by_pages(api: httpx.AsyncClient) -> None:
    first = (await api.get("/v1/gpus")).json()
    second = (await api.get("/v1/gpus", params={"cursor": first["next_cursor"]})).json()
    ids = [item["id"] for item in first["items"] + second["items"]]
    assert len(first["items"]) == 50
    assert second["next_cursor"] is None
    assert len(ids) == len(set(ids)) == 56


@pytest.mark.parametrize(
    ("query", "present", "absent"),
    [
        ({"vendor": "amd"}, "mi300x-192gb", "h100-sxm-80gb"),
        ({"min_memory_gb": "180"}, "b200-sxm-180gb", "h100-sxm-80gb"),
        ({"min_memory_gb": "181"}, "mi300x-192gb", "b200-sxm-180gb"),
        ({"precision": "fp8"}, "h100-sxm-80gb", "a100-sxm-80gb"),
        ({"q": "hopper"}, "h100-sxm-80gb", "a100-sxm-80gb"),
        ({"q": "H100", "vendor": "nvidia"}, "h100-nvl-94gb", "h200-sxm-141gb"),
    ],
)
async def test_filters_keep_what_fits(api: httpx.AsyncClient, query: dict[str, str], present: str, absent: str) -> None:
    items = (await api.get("/v1/gpus", params={**query, "limit": 200})).json()["items"]
    ids = {item["id"] for item in items}
    assert present in ids
    assert absent not in ids


async def test_sorting_puts_the_unknown_last(api: httpx.AsyncClient) -> None:
    for sort in ("fp8_tflops", "-fp8_tflops"):
        items = (await api.get("/v1/gpus", params={"sort": sort, "limit": 200})).json()["items"]
        values = [item["fp8_tflops"] for item in items]
        known = [value for value in values if value is not None]
        assert values[: len(known)] == known == sorted(known, reverse=sort.startswith("-"))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"vendor": "voodoo"}, "vendor"),
        ({"precision": "fp64"}, "precision"),
        ({"min_memory_gb": "-1"}, "min_memory_gb"),
        ({"min_memory_gb": "lots"}, "min_memory_gb"),
        ({"sort": "price"}, "sort"),
        ({"cursor": "a b"}, "cursor"),
    ],
)
async def test_a_bad_filter_is_named(api: httpx.AsyncClient, query: dict[str, str], field: str) -> None:
    answer = await api.get("/v1/gpus", params=query)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == field


@pytest.mark.parametrize("name", ["h100-sxm-80gb", "H100 SXM", "NVIDIA H100 80GB HBM3"])
async def test_one_accelerator_is_found_by_any_of_its_names(api: httpx.AsyncClient, name: str) -> None:
    gpu = (await api.get(f"/v1/gpus/{name}")).json()
    assert gpu["id"] == "h100-sxm-80gb"
    assert gpu["bf16_tflops"] == 989.4
    assert gpu["fp8_tflops"] == 1978.9
    assert gpu["fp4_tflops"] is None
    assert gpu["source"]


async def test_physical_and_usable_memory_are_apart(api: httpx.AsyncClient) -> None:
    gpu = (await api.get("/v1/gpus/b200-sxm-180gb")).json()
    assert (gpu["memory_gb"], gpu["usable_memory_gb"]) == (192, 180)


async def test_a_generic_name_answers_with_the_candidates(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/gpus/h100")
    assert answer.status_code == 422
    assert answer.json()["type"] == "/errors/ambiguous-name"
    assert answer.json()["errors"][0]["in"] == "path"
    assert "h100-pcie-80gb" in answer.json()["detail"]


async def test_an_unknown_name_answers_with_the_nearest(api: httpx.AsyncClient) -> None:
    answer = await api.get("/v1/gpus/h100-sxm-81gb")
    assert answer.status_code == 404
    assert "h100-sxm-80gb" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/gpus",
        "/v1/gpus/l4-24gb",
        "/v1/interconnects",
        "/v1/models",
        "/v1/models/llama-3-8b",
        "/errors",
        "/openapi.json",
        "/openapi.yaml",
    ],
)
async def test_what_is_the_same_for_all_may_be_kept(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert answer.headers["cache-control"] == "public, max-age=86400"
    again = await api.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""


async def test_interconnects_say_where_their_band_comes_from(api: httpx.AsyncClient) -> None:
    items = (await api.get("/v1/interconnects")).json()["items"]
    assert len(items) == 33
    assert all(item["source"] for item in items)


async def test_a_forged_place_in_the_list_is_refused(api: httpx.AsyncClient) -> None:
    cursor = write_cursor([None] * 5, [-5])
    answer = await api.get("/v1/gpus", params={"cursor": cursor})
    assert answer.status_code == 422


async def test_models_are_listed_and_filtered(api: httpx.AsyncClient) -> None:
    every = (await api.get("/v1/models")).json()["items"]
    assert len(every) == 24
    experts = (await api.get("/v1/models", params={"architecture": "moe"})).json()["items"]
    assert experts
    assert all(item["shape"]["moe"] for item in experts)
    llamas = (await api.get("/v1/models", params={"q": "LLAMA", "limit": 3})).json()
    assert all("llama" in item["id"] for item in llamas["items"])
    assert llamas["next_cursor"]


async def test_a_model_is_found_by_its_names_and_never_guessed(api: httpx.AsyncClient) -> None:
    some = (await api.get("/v1/models")).json()["items"][0]
    for name in (some["id"], some["name"]):
        assert (await api.get(f"/v1/models/{name}")).json() == some
    assert (await api.get("/v1/models/llama 70b")).status_code == 422
    assert (await api.get("/v1/models/zzzz")).status_code == 404
