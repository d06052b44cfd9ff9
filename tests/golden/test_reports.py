"""The golden reports: a change of the model reads as a difference, and the same request gets the same bytes."""

import difflib
import json
import math

import httpx
import pytest

from tests.golden.cases import CASES, HERE, Case, answered, case_of
from tests.golden.report import figure, report
from tests.support.server import Server

_every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@_every_case
def test_the_report_is_the_golden_one(case: Case) -> None:
    golden = case.report_path.read_text() if case.report_path.exists() else ""
    name = f"tests/golden/reports/{case.report_path.name}"
    changed = difflib.unified_diff(golden.splitlines(), report(case).splitlines(), name, "now", lineterm="")
    told = "\n".join(changed)
    if told:
        pytest.fail(f"{told}\n\nIf that is meant: make golden, and look at the difference again.", pytrace=False)


@_every_case
def test_asked_twice_and_over_http_it_answers_the_same_bytes(case: Case, shared_server: Server) -> None:
    in_process = case.answered()
    assert case.answered() == in_process
    for _ in range(2):
        answer = httpx.post(
            f"{shared_server.base}/v1/estimates",
            content=case.body(),
            headers={"Content-Type": "application/json"},
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        assert answer.content == in_process


def test_every_file_belongs_to_a_case() -> None:
    for folder, suffix in (("requests", ".json"), ("reports", ".txt")):
        assert {path.name for path in (HERE / folder).iterdir()} == {case.name + suffix for case in CASES}


def test_b200_at_6_69_is_cheaper_than_h100_at_3_99() -> None:
    assert per_million_tokens("06-70b-b200") < per_million_tokens("05-70b-h100")


def test_b200_is_dearer_than_h100_from_its_break_even_price_on() -> None:
    h100, b200 = case_of("05-70b-h100").answer(), case_of("06-70b-b200").answer()
    elsewhere = 20_000 + 5_000  # storage and egress of both
    break_even = (float(h100["cost"]["total"]) - elsewhere) / b200["expected_gpu_hours"]
    below, above = math.floor(100 * break_even) / 100, math.ceil(100 * break_even) / 100
    assert per_million_tokens("06-70b-b200", below) < per_million_tokens("05-70b-h100")
    assert per_million_tokens("06-70b-b200", above) > per_million_tokens("05-70b-h100")


def per_million_tokens(name: str, price: float | None = None) -> float:
    """What a million tokens cost, at another price of a GPU-hour if one is given."""
    request = json.loads(case_of(name).body())
    if price is not None:
        request["price"]["amount"] = f"{price:.2f}"
    answer = json.loads(answered(json.dumps(request).encode()))
    return float(answer["unit_costs"]["per_million_tokens"])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("1234567.80", "1,234,567.80"),
        ("-50171.64", "-50,171.64"),
        ("-0.50", "-0.50"),
        ("2.745970", "2.745970"),
        ("llama-3-1-405b", "llama-3-1-405b"),
        (1234567.891, "1,234,570"),
        (1732.5149, "1,732.51"),
        (0.000284915, "0.000284915"),
        (999999.7, "1,000,000"),
        (100.0, "100"),
        (0.0, "0"),
        (-0.125, "-0.125"),
        (4.0956623e25, "4.09566e+25"),
        (16384, "16,384"),
        (True, "yes"),
        (None, "unknown"),
    ],
)
def test_money_is_written_in_full_and_other_figures_with_six_digits(value: object, written: str) -> None:
    assert figure(value) == written
