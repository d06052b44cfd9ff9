"""The five worked examples, to the cent, through both forms; and that both forms say the same."""

from decimal import Decimal
from typing import Any

import httpx
import msgspec
import pytest

from service.estimator.results import Estimate
from tests.support.examples import EXAMPLES, Example, to_hundredths

pytestmark = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.total)


def assert_shows(example: Example, answer: dict[str, Any]) -> None:
    cost, duration = answer["cost"], answer["duration"]
    assert cost["currency"] == "USD"
    assert cost["compute"] == example.compute_cost
    assert cost["rework"] == example.rework_cost
    assert cost["total"] == example.total
    assert Decimal(cost["storage"]) == example.storage
    assert Decimal(cost["egress"]) == example.egress
    assert duration["ideal_hours"] == example.ideal_hours
    assert to_hundredths(duration["wall_clock_hours"]) == Decimal(example.wall_clock_hours)
    assert to_hundredths(duration["wall_clock_days"]) == Decimal(example.wall_clock_days)
    assert to_hundredths(answer["gpu_hours"]) == Decimal(example.gpu_hours)


async def test_the_get_form_shows_every_figure(api: httpx.AsyncClient, example: Example) -> None:
    answer = await api.get("/v1/estimates", params=example.query)
    assert answer.status_code == 200, answer.text
    assert_shows(example, answer.json())


async def test_the_post_form_shows_every_figure(api: httpx.AsyncClient, example: Example) -> None:
    answer = await api.post("/v1/estimates", json=example.body)
    assert answer.status_code == 200, answer.text
    assert_shows(example, answer.json())


async def test_both_forms_give_the_same_bytes(api: httpx.AsyncClient, example: Example) -> None:
    by_get = await api.get("/v1/estimates", params=example.query)
    by_post = await api.post("/v1/estimates", json=example.body)
    raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
    assert bytes(raw.decode(by_get.content)["cost"]) == bytes(raw.decode(by_post.content)["cost"])


async def test_the_answer_has_the_documented_shape(api: httpx.AsyncClient, example: Example) -> None:
    answer = await api.post("/v1/estimates", json=example.body)
    decoded = msgspec.json.decode(answer.content, type=Estimate)
    assert sum(line.amount for line in decoded.cost.lines) == decoded.cost.total
    classic = {field.encode_name for field in msgspec.structs.fields(Estimate) if field.required}
    assert set(answer.json()) == classic
