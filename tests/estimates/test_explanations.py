"""Every derived number is explained: each formula computes to its result, and each result is in the answer."""

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimates.examples import EXAMPLES
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.money import MINOR_DIGITS
from tests.golden.cases import CASES
from tests.support.detailed import REQUESTS
from tests.support.explained import explained, money
from tests.support.formulas import computed
from tests.support.tables import list_prices

_ALL = (
    {f"example {name}": example["value"] for name, example in EXAMPLES.items()}
    | REQUESTS
    | {f"golden {case.name}": msgspec.json.decode(case.body()) for case in CASES}
)
_NAMED_BY = ("component", "cause", "option", "input", "field")
_TERMS = ("discount", "credits", "tax", "contingency")
_UP_TO_SIX = "half-up to at most six digits"

# What no formula makes: what was given or looked up, and how often it was drawn.
_GIVEN = re.compile(
    r"cost\.lines\[[^]]*\]\.(quantity|unit_price|amount)|duration\.setup_hours|performance\.(parameters|active_parameters)"
    r"|performance\.peak_tflops_per_gpu|performance\.layout\.(?!data).*|memory\.capacity_bytes"
    r"|reliability\.(checkpoint_seconds|restart_minutes)|energy\.(tdp_watts|server_power_ratio|load_percent|pue)"
    r"|verdict\.cost\.amount|risk\.(samples|seed)"
)
_SECTIONS = (
    "cost", "duration", "gpu_hours", "expected_gpu_hours", "unit_costs", "verdict", "performance", "memory",
    "reliability", "risk", "commitment", "owned", "energy", "break_evens",
)  # fmt: skip


def at(answer: Any, path: str) -> Any:
    """What stands at a path: elements of lists by what they are named by, or by their index."""
    for part, element in re.findall(r"([a-z_0-9]+)(?:\[([^]]+)\])?", re.sub(r"\]\.", "]~", path).replace("~", ".")):
        answer = answer[part]
        if element:
            answer = answer[int(element)] if element.isdigit() else _only(answer, element)
    return answer


def _only(elements: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (one for one in elements if name in (one.get(key) for key in _NAMED_BY))
    return found


def numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Every number of the answer and where it stands, that are not 0: amounts of money too."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{path}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            if isinstance(part, dict):
                name = next((part[key] for key in _NAMED_BY if key in part), str(index))
                twice = sum(name in one.values() for one in value) > 1
                yield from numbers(part, f"{path}[{index if twice else name}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from [(path, value)] if value else []
    elif isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value) and Decimal(value):
        yield path, float(value)


@pytest.mark.parametrize("request_", _ALL.values(), ids=_ALL)
class TestEachRequest:
    def test_every_formula_computes_to_its_result(self, request_: dict[str, Any]) -> None:
        for found in explained(request_)["explanations"]:
            value = computed(found["substituted"])
            assert value == pytest.approx(found["result"], rel=1e-9, abs=1e-12), found

    def test_every_symbol_is_named_and_put_in(self, request_: dict[str, Any]) -> None:
        for found in explained(request_)["explanations"]:
            for symbol in found["symbols"]:
                assert re.search(rf"\b{symbol['symbol']}\b", found["formula"]), found
                assert symbol["meaning"], found
            assert found["source"], found
            assert found["unit"], found

    def test_every_result_is_in_the_answer(self, request_: dict[str, Any]) -> None:
        answer = explained(request_)
        for found in answer["explanations"]:
            if found["field"] is None:
                continue
            shown = at(answer, found["field"])
            if found["rounding"] is None:
                assert float(shown) == pytest.approx(found["result"], rel=1e-12), found
            else:
                assert Decimal(str(shown)) == _rounded(found, answer["cost"]["currency"]), found

    def test_every_number_is_explained_once(self, request_: dict[str, Any]) -> None:
        answer = explained(request_)
        fields = [found["field"] for found in answer["explanations"] if found["field"] is not None]
        assert len(set(fields)) == len(fields), sorted(field for field in fields if fields.count(field) > 1)
        unexplained = {
            path
            for section in _SECTIONS
            for path, _ in numbers(answer.get(section), section)
            if path not in fields and not _is_given(answer, path)
        }
        assert unexplained == set()

    def test_explaining_changes_nothing_else(self, request_: dict[str, Any]) -> None:
        answer = explained(request_)
        plain = estimate(msgspec.convert(request_, EstimateRequest, dec_hook=money), tables=list_prices())
        del answer["explanations"]
        assert answer == msgspec.json.decode(msgspec.json.encode(plain))


def _rounded(found: dict[str, Any], currency: str) -> Decimal:
    """Half-up to the currency's minor unit, or to six digits."""
    digits = 6 if found["rounding"] == _UP_TO_SIX else MINOR_DIGITS[currency]
    return Decimal(repr(found["result"])).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _is_given(answer: dict[str, Any], path: str) -> bool:
    """Whether it is what was put in: a line of one amount, a price, a figure of a machine."""
    if not _GIVEN.fullmatch(path):
        return False
    line = re.match(r"(cost\.lines\[[^]]*\])\.(quantity|amount)", path)
    if line is None:
        return True
    shown = at(answer, line[1])
    return shown["unit"] == "run" and (line[2] == "quantity" or shown["component"] not in _TERMS)


def test_the_classic_formulas_are_there() -> None:
    found = {one["field"]: one for one in explained({})["explanations"]}
    assert found["duration.wall_clock_hours"]["substituted"] == "120 / (80 / 100)"
    assert found["gpu_hours"]["substituted"] == "64 * 150"
    assert found["cost.lines[compute].amount"]["substituted"] == "9600 * 2.5"
    assert found["cost.lines[rework].amount"]["substituted"] == "(64 * 150 * 2.5) * 15 / 100"
    assert found["cost.total"]["substituted"] == "24000 + 3600 + 200 + 150"
    assert found["cost.total"]["result"] == 27950.0


def test_half_a_cent_is_explained_as_it_is_rounded() -> None:
    tie = {
        "cluster": {"gpu_count": 3},
        "work": {"kind": "gpu_hours", "hours": 0.5},
        "scaling": {"kind": "fixed", "efficiency_percent": 85},
        "price": {"kind": "hourly", "amount": "1.87"},
    }
    found = {one["field"]: one for one in explained(tie)["explanations"]}
    assert found["cost.lines[rework].amount"]["result"] == 0.495
    assert found["cost.lines[rework].amount"]["rounding"] == "half-up to 0.01 USD"


_SECTIONS_GIVEN = {
    section: [request[section] for request in _ALL.values() if section in request]
    for section in dict.fromkeys(key for request in _ALL.values() for key in request)
}


@settings(max_examples=150)
@given(st.fixed_dictionaries({}, optional={name: st.sampled_from(each) for name, each in _SECTIONS_GIVEN.items()}))
def test_any_sections_together_are_explained(request_: dict[str, Any]) -> None:
    try:
        answer = explained(request_)
    except BrokenRule:  # they contradict each other
        return
    fields = {found["field"] for found in answer["explanations"]}
    assert {"cost.total", "duration.wall_clock_hours"} <= fields
    for found in answer["explanations"]:
        assert computed(found["substituted"]) == pytest.approx(found["result"], rel=1e-9, abs=1e-12), found


async def test_the_route_explains_when_it_is_asked(api: httpx.AsyncClient) -> None:
    plain = await api.post("/v1/estimates", json={})
    asked = await api.post("/v1/estimates", params={"explain": "true"}, json={})
    assert "explanations" not in plain.json()
    assert asked.json()["explanations"][0]["field"] == "duration.ideal_hours"
    again = await api.post("/v1/estimates", params={"explain": "true"}, json={})
    assert asked.content == again.content
