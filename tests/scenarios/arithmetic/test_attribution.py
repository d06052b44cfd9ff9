"""Why two evaluations differ: by hand, and for any two requests, price revisions, versions and rates to the cent."""

import datetime
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimates.operations import estimate
from service.scenarios.arithmetic.attribution import (
    Attribution,
    Evaluation,
    Point,
    PriceVersion,
    attributed,
    changes,
    substituted,
)
from service.scenarios.arithmetic.rates import ExchangeRates, converted
from tests.support.bills import a_run, request_of

NOW = "2.0.0"
DAY = datetime.date(2027, 1, 4)
_AMOUNT_OF_REVISION = {1: "2.00", 2: "2.50", 3: "1.99"}


def rates(dollars: str | None) -> ExchangeRates | None:
    """What a euro costs in dollars."""
    if dollars is None:
        return None
    return ExchangeRates(currency="USD", as_of=DAY, rates={"EUR": Decimal(dollars)}, source="stated")


def a_point(
    body: dict[str, Any] | None = None, revision: int | None = None, version: str = NOW, dollars: str | None = None
) -> Point:
    prices = None if revision is None else PriceVersion(table="list", revision=revision, as_of=DAY)
    return Point(request=a_run() if body is None else body, prices=prices, model_version=version, rates=rates(dollars))


def evaluate(point: Point) -> Decimal:
    """By the current model: a table's price in place of the request's, and euros where there are rates."""
    body = point.request
    assert point.prices is None or isinstance(point.prices, PriceVersion)
    assert point.rates is None or isinstance(point.rates, ExchangeRates)
    if point.prices is not None:
        body = body | {"price": {"kind": "hourly", "amount": _AMOUNT_OF_REVISION[point.prices.revision]}}
    total = estimate(request_of(body)).cost.total
    return total if point.rates is None else converted(total, point.rates.rates["EUR"], "USD")


def an_evaluation(point: Point, moved: str = "0") -> Evaluation:
    """What was stored; `moved` is what an old model had more."""
    return Evaluation(point=point, currency="USD", total=evaluate(point) + Decimal(moved))


def between(before: Point, after: Point, moved: str = "0") -> Attribution:
    return attributed(an_evaluation(before, moved), an_evaluation(after), evaluate, NOW)


def told(found: Attribution) -> list[tuple[str, tuple[str, ...], str]]:
    """Kind, fields and amount of each effect."""
    assert found.effects is not None
    return [(effect.kind, effect.fields, f"{effect.amount:.2f}") for effect in found.effects]


def codes(found: Attribution) -> set[str]:
    return {note.code for note in found.notes}


def test_inputs_are_taken_in_the_order_of_the_sections() -> None:
    # 8 GPUs x 100 h x 2: 16 GPUs add 1,600; 50 % more hours another 1,600; 10 % rework 480; at 3.00 it is half more.
    before = a_point()
    after = a_point(a_run(hours=150, gpu_count=16, amount="3", rework={"kind": "buffer", "rework_percent": 10}))
    found = between(before, after)
    assert told(found) == [
        ("input", ("/cluster/gpu_count",), "1600.00"),
        ("input", ("/work/hours",), "1600.00"),
        ("input", ("/rework/rework_percent",), "480.00"),
        ("input", ("/price/amount",), "2640.00"),
    ]
    assert found.difference == Decimal("6320.00")
    assert found.difference_percent == 395.0


def test_prices_model_and_currency_come_after_the_inputs() -> None:
    # Stored 1,610.00 by an old model, 1,600 now; 200 h are 3,200, at 2.50 they are 4,000; at 1.10 that is 4,400.
    before = a_point(revision=1, version="1.0.0", dollars="1.00")
    after = a_point(a_run(hours=200), revision=2, dollars="1.10")
    found = between(before, after, moved="10.00")
    assert told(found) == [
        ("input", ("/work/hours",), "1600.00"),
        ("price", (), "800.00"),
        ("model", (), "-10.00"),
        ("currency", (), "400.00"),
    ]
    assert found.by_kind is not None
    assert found.by_kind.input == 1600
    assert found.by_kind.model == -10
    assert codes(found) == {"model-not-rerun"}


def test_two_old_totals_are_both_set_against_the_current_model() -> None:
    # 5.00 more on the earlier side and 12.00 more on the later one: the old model made the difference 7.00 larger.
    before, after = a_point(version="1.0.0"), a_point(a_run(hours=200), version="1.0.0")
    found = attributed(an_evaluation(before, "5.00"), an_evaluation(after, "12.00"), evaluate, NOW)
    assert told(found) == [("input", ("/work/hours",), "1600.00"), ("model", (), "7.00")]


def test_a_section_of_another_kind_is_one_effect() -> None:
    commitment = {"kind": "commitment", "amount": "1.50", "gpu_count": 8, "term_hours": 200}
    found = between(a_point(), a_point(a_run(price=commitment)))
    assert told(found) == [("input", ("/price",), "-400.00")]


def test_a_section_that_only_one_has_is_one_effect() -> None:
    # 16 GPUs for 5 h of set-up are 160, 8 spare ones for 100 h are 1,600.
    found = between(a_point(), a_point(a_run(idle={"setup_hours": 5, "spare_nodes": 1})))
    assert told(found) == [("input", ("/idle",), "1760.00")]


def test_fields_that_cannot_be_without_each_other_are_one_effect() -> None:
    # More GPUs than the commitment holds need a price for the others, which is the later field.
    price = {"kind": "commitment", "amount": "2", "gpu_count": 8, "term_hours": 100}
    after = a_run(gpu_count=16, price=price | {"overflow_amount": "3"})
    found = between(a_point(a_run(price=price)), a_point(after))
    assert told(found) == [("input", ("/cluster/gpu_count", "/price/overflow_amount"), "2400.00")]
    assert codes(found) == {"changes-together"}


def test_effects_of_one_change_each_are_not_said_to_be_together() -> None:
    euros = a_run(price={"kind": "hourly", "amount": "3", "currency": "EUR"})
    found = between(a_point(a_run(price={"kind": "hourly", "amount": "2", "currency": "USD"})), a_point(euros))
    assert told(found) == [("input", ("/price/amount",), "800.00"), ("currency", ("/price/currency",), "0.00")]
    assert codes(found) == set()


def test_an_exchange_alone_is_together_with_nothing() -> None:
    exchange = {"from_currency": "USD", "to_currency": "EUR", "rate": "0.9", "as_of": "2027-01-04"}
    before = Evaluation(point=a_point(), currency="EUR", total=Decimal(1))
    after = msgspec.structs.replace(before, point=a_point(a_run() | {"exchange": exchange}))
    found = attributed(before, after, lambda _: Decimal(1), NOW)
    assert [effect.fields for effect in found.effects or ()] == [("/exchange",)]
    assert codes(found) == set()


def test_a_change_that_costs_nothing_is_named_and_costs_nothing() -> None:
    found = between(a_point(), a_point(a_run(cluster={"gpu": "a100-sxm-80gb", "gpu_count": 8})))
    assert told(found) == [("input", ("/cluster/gpu",), "0.00")]


def test_an_earlier_request_that_cannot_be_any_more_goes_with_the_first_that_can() -> None:
    before = Evaluation(
        point=a_point(a_run(cluster={"gpu": "no such part", "gpu_count": 8}), version="1.0.0"),
        currency="USD",
        total=Decimal("1500.00"),
    )
    found = attributed(before, an_evaluation(a_point(a_run(hours=200))), evaluate, NOW)
    assert told(found) == [("joint", ("/cluster/gpu",), "100.00"), ("input", ("/work/hours",), "1600.00")]
    assert found.effects is not None
    assert found.effects[0].kinds == ("input", "model")


def test_a_later_request_that_cannot_be_any_more_is_reached_by_its_stored_total() -> None:
    after = Evaluation(
        point=a_point(a_run(hours=200, cluster={"gpu": "no such part", "gpu_count": 8})),
        currency="USD",
        total=Decimal("3000.00"),
    )
    found = attributed(an_evaluation(a_point()), after, evaluate, NOW)
    assert told(found) == [("input", ("/cluster/gpu", "/work/hours"), "1400.00")]


def test_a_total_that_the_same_version_does_not_meet_again_is_said() -> None:
    found = between(a_point(), a_point(), moved="3.00")
    assert told(found) == [("model", (), "-3.00")]
    assert codes(found) == {"not-reproduced"}


def test_revision_and_day_of_a_price_table_are_no_inputs() -> None:
    def table(revision: int) -> dict[str, Any]:
        return a_run() | {"price": {"kind": "table", "table": "list", "revision": revision}}

    found = between(a_point(table(1), revision=1), a_point(table(3), revision=3))
    assert told(found) == [("price", (), "-8.00")]


def test_the_currency_and_the_exchange_of_a_request_come_last_and_are_no_inputs() -> None:
    before = a_run(price={"kind": "hourly", "amount": "2", "currency": "USD"})
    after = a_run(hours=200, price={"kind": "hourly", "amount": "2", "currency": "EUR"}, idle={"setup_hours": 1})
    one = {"from_currency": "USD", "to_currency": "EUR", "rate": "0.9"}
    found = changes(before | {"exchange": one}, after | {"exchange": one | {"from_currency": "GBP", "rate": "1.2"}})
    assert [(change.pointer, change.kind) for change in found] == [
        ("/work/hours", "input"),
        ("/idle", "input"),
        ("/price/currency", "currency"),
        ("/exchange", "currency"),
    ]


def test_without_a_rate_two_currencies_have_no_difference() -> None:
    before = an_evaluation(a_point())
    found = attributed(before, msgspec.structs.replace(before, currency="EUR"), evaluate, NOW)
    assert found.difference is None
    assert found.effects is None
    assert codes(found) == {"currencies-differ"}


def test_pointers_are_escaped() -> None:
    (found,) = changes({"a/b": {"c~d": 1}}, {"a/b": {"c~d": 2}})
    assert found.pointer == "/a~1b/c~0d"


def test_a_list_is_one_field() -> None:
    assert [change.pointer for change in changes({"egress": {"tiers": [1, 2]}}, {"egress": {"tiers": [1, 3]}})] == [
        "/egress/tiers"
    ]


def test_an_attribution_goes_on_the_wire() -> None:
    found = between(a_point(), a_point(a_run(hours=200)))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Attribution) == found
    assert msgspec.json.schema(Attribution)


_COMMITMENT = {"kind": "commitment", "amount": "1.73", "gpu_count": 8, "term_hours": 99}
_sections: dict[str, list[dict[str, Any]]] = {
    "cluster": [{"gpu_count": 8}, {"gpu_count": 24, "gpu": "h100-sxm-80gb"}, {"gpu_count": 7}],
    "work": [{"kind": "gpu_hours", "hours": 98.7}, {"kind": "gpu_hours", "hours": 1234.5, "basis": "total"}],
    "scaling": [{"kind": "fixed", "efficiency_percent": 83.3}, {"kind": "interconnect", "preset": "ib-ndr-400"}],
    "rework": [{"kind": "buffer", "rework_percent": 15}, {"kind": "buffer", "rework_percent": 7}],
    "price": [
        {"kind": "hourly", "amount": "2.17"},
        {"kind": "hourly", "amount": "13.99", "per": "node", "discount_percent": 12.5},
        _COMMITMENT | {"overflow_amount": "3.01"},
        _COMMITMENT,
    ],
    "storage": [
        {"kind": "fixed", "amount": "12.34"},
        {"kind": "metered", "price_per_gb_month": "0.02", "dataset_gb": 9},
    ],
    "idle": [{"setup_hours": 3.5}, {"spare_nodes": 1}],
}
_requests = st.fixed_dictionaries({}, optional={name: st.sampled_from(kinds) for name, kinds in _sections.items()})


@st.composite
def _evaluations(draw: st.DrawFn) -> Evaluation:
    """Any that could have been stored, by this model version or an older one."""
    revision = draw(st.sampled_from([None, 1, 2, 3]))
    point = a_point(
        draw(_requests), revision, draw(st.sampled_from([NOW, "1.0.0"])), draw(st.sampled_from(["1", "1.1"]))
    )
    try:
        total = evaluate(point)
    except BrokenRule:
        total = Decimal(draw(st.integers(0, 10**7))) / 100  # it could be once
    if point.model_version != NOW:
        total += Decimal(draw(st.integers(-100, 100))) / 100
    return Evaluation(point=point, currency="USD", total=total)


@given(_evaluations(), _evaluations())
def test_effects_add_up_to_the_difference_to_the_cent(before: Evaluation, after: Evaluation) -> None:
    found = attributed(before, after, evaluate, NOW)
    assert found.effects is not None
    assert found.by_kind is not None
    assert sum(effect.amount for effect in found.effects) == found.difference == after.total - before.total
    assert sum(getattr(found.by_kind, name) for name in found.by_kind.__struct_fields__) == found.difference


@given(_evaluations(), _evaluations())
def test_effects_name_every_field_that_differs_and_no_other(before: Evaluation, after: Evaluation) -> None:
    found = attributed(before, after, evaluate, NOW)
    assert found.effects is not None
    named = [field for effect in found.effects for field in effect.fields]
    differ = [change.pointer for change in changes(before.point.request, after.point.request)]
    assert named == differ
    assert len(set(named)) == len(named)


@given(_evaluations(), _evaluations())
def test_the_other_way_round_the_sum_is_the_negative(before: Evaluation, after: Evaluation) -> None:
    there, back = attributed(before, after, evaluate, NOW), attributed(after, before, evaluate, NOW)
    assert there.effects is not None
    assert back.effects is not None
    assert sum(effect.amount for effect in there.effects) == -sum(effect.amount for effect in back.effects)


@given(_evaluations())
def test_without_a_difference_there_are_no_effects(one: Evaluation) -> None:
    found = attributed(one, one, evaluate, NOW)
    assert found.difference == 0
    assert found.effects == ()


@given(_requests, _requests)
def test_all_changes_together_make_the_later_request(before: dict[str, Any], after: dict[str, Any]) -> None:
    made = before
    for change in changes(before, after):
        made = substituted(made, change)
    assert made == after


@given(_requests, _requests)
def test_the_same_fields_differ_both_ways(before: dict[str, Any], after: dict[str, Any]) -> None:
    there, back = changes(before, after), changes(after, before)
    assert [change.pointer for change in there] == [change.pointer for change in back]
