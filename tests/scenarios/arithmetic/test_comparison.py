"""Scenarios side by side: by hand, and what holds of any set of them."""

import datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.scenarios.arithmetic.comparison import Candidate, ScenarioComparison, compared
from service.scenarios.arithmetic.rates import ExchangeRates
from tests.support.plans import a_line, an_estimate

DAY = datetime.date(2027, 1, 4)


def in_dollars(euro: str = "1.10") -> ExchangeRates:
    return ExchangeRates(currency="USD", as_of=DAY, rates={"EUR": Decimal(euro), "JPY": Decimal("0.0067")}, source="x")


def a_candidate(name: str, compute: str, storage: str = "0", days: float = 10.0, currency: str = "USD") -> Candidate:
    lines = [a_line("compute", Decimal(compute)), a_line("storage", Decimal(storage))]
    return Candidate(name, an_estimate(lines, currency, hours=days * 24))


def test_totals_components_and_days_stand_beside_the_first() -> None:
    found = compared([a_candidate("a", "800", "200"), a_candidate("b", "700", "50", days=12)])
    other = found.scenarios[1]
    assert other.delta == -250
    assert (other.delta_percent, other.delta_days) == (-25.0, 2.0)
    assert [(part.component, str(part.amount), str(part.delta)) for part in other.components] == [
        ("compute", "700.00", "-100.00"),
        ("storage", "50.00", "-150.00"),
    ]
    assert (found.baseline, found.cheapest, found.fastest) == ("a", ("b",), ("a",))
    assert found.scenarios[0].delta == 0


def test_a_component_that_only_one_has_costs_nothing_in_the_other() -> None:
    spares = Candidate("spares", an_estimate([a_line("compute", "10.00"), a_line("idle_spares", "5.00")], hours=240))
    found = compared([a_candidate("plain", "10"), spares])
    amounts = {part.component: part.amount for part in found.scenarios[0].components}
    assert amounts["idle_spares"] == 0


def test_dearer_and_slower_is_dominated() -> None:
    found = compared([a_candidate("a", "10", days=1), a_candidate("b", "11", days=2), a_candidate("c", "9", days=3)])
    assert [one.dominated for one in found.scenarios] == [False, True, False]
    assert found.scenarios[1].dominated_by == ("a",)


def test_equals_do_not_dominate_each_other() -> None:
    found = compared([a_candidate("a", "10"), a_candidate("b", "10")])
    assert found.cheapest == found.fastest == ("a", "b")
    assert [one.dominated for one in found.scenarios] == [False, False]


def test_without_a_rate_what_depends_on_it_is_not_known() -> None:
    found = compared([a_candidate("a", "10"), a_candidate("b", "1", currency="EUR")])
    other = found.scenarios[1]
    assert (other.comparable_total, other.delta, other.delta_percent, other.cheapest) == (None, None, None, None)
    assert all(part.amount is None for part in other.components)
    assert found.cheapest is None
    assert [one.dominated for one in found.scenarios] == [None, None]
    assert [note.code for note in found.notes] == ["no-rate"]
    assert found.fastest == ("a", "b")


def test_a_slower_one_cannot_dominate_whatever_it_costs() -> None:
    found = compared([a_candidate("a", "10", days=1), a_candidate("b", "1", days=2, currency="EUR")])
    assert found.scenarios[0].dominated is False
    assert found.scenarios[1].dominated is None


def test_with_a_rate_currencies_are_compared() -> None:
    # 100.00 EUR at 1.10 are 110.00 USD: 10 % over the baseline.
    found = compared([a_candidate("a", "100"), a_candidate("b", "90", "10", currency="EUR")], in_dollars())
    other = found.scenarios[1]
    assert other.total == 100
    assert other.comparable_total == Decimal("110.00")
    assert other.delta_percent == 10.0
    assert [part.amount for part in other.components] == [99, 11]
    assert found.notes == ()


def test_rates_into_another_currency_are_no_help() -> None:
    euros = ExchangeRates(currency="EUR", as_of=DAY, rates={"USD": Decimal("0.9")}, source="x")
    found = compared([a_candidate("a", "100"), a_candidate("b", "90", currency="EUR")], euros)
    assert found.scenarios[1].comparable_total is None


def test_in_one_currency_totals_are_compared_as_they_are() -> None:
    # Both are 0.01 USD once they are converted, and one of them is a yen cheaper.
    one, other = (a_candidate(name, amount, currency="JPY") for name, amount in (("b", "1"), ("c", "2")))
    found = compared([a_candidate("a", "5", days=20), one, other], in_dollars())
    assert found.scenarios[1].comparable_total == found.scenarios[2].comparable_total == Decimal("0.01")
    assert found.scenarios[2].dominated_by == ("b",)


def test_a_baseline_of_nothing_has_no_percents() -> None:
    found = compared([a_candidate("a", "0"), a_candidate("b", "5")])
    assert found.scenarios[1].delta_percent is None


def test_a_contingency_in_only_some_is_said() -> None:
    padded = Candidate("b", an_estimate([a_line("compute", "10.00"), a_line("contingency", "5.00")]))
    assert [note.code for note in compared([a_candidate("a", "10"), padded]).notes] == ["contingency-in-some"]


@pytest.mark.parametrize("count", [0, 1, 21])
def test_a_comparison_has_two_to_twenty(count: int) -> None:
    with pytest.raises(BrokenRule):
        compared([a_candidate(str(index), "1") for index in range(count)])


def test_a_comparison_goes_on_the_wire() -> None:
    found = compared([a_candidate("a", "10"), a_candidate("b", "1", currency="EUR")], in_dollars())
    assert msgspec.json.decode(msgspec.json.encode(found), type=ScenarioComparison) == found
    assert msgspec.json.schema(ScenarioComparison)


_candidates = st.lists(
    st.builds(
        lambda compute, storage, days, currency: a_candidate("x", compute, storage, days, currency),
        st.integers(0, 50).map(str),
        st.integers(0, 50).map(str),
        st.integers(0, 4).map(float),
        st.sampled_from(["USD", "EUR", "JPY"]),
    ),
    min_size=1,
    max_size=19,
).map(lambda others: [a_candidate("base", "20"), *others])


@given(_candidates, st.sampled_from([None, in_dollars(), in_dollars("0.9137")]))
def test_components_and_deltas_add_up(candidates: list[Candidate], rates: ExchangeRates | None) -> None:
    found = compared(candidates, rates)
    for one in found.scenarios:
        if one.comparable_total is not None and one.delta is not None:
            parts = [(part.amount, part.delta) for part in one.components]
            assert sum(amount for amount, _ in parts if amount is not None) == one.comparable_total
            assert sum(delta for _, delta in parts if delta is not None) == one.delta


@given(_candidates, st.sampled_from([None, in_dollars()]))
def test_the_cheapest_of_the_fastest_is_never_dominated(
    candidates: list[Candidate], rates: ExchangeRates | None
) -> None:
    found = compared(candidates, rates)
    if found.cheapest is None:
        assert rates is None
        return
    fastest = [one for one in found.scenarios if one.fastest and one.comparable_total is not None]
    least = min(one.comparable_total for one in fastest if one.comparable_total is not None)
    # Of those that are converted to one amount, at least one is on the frontier.
    assert any(one.dominated is False for one in fastest if one.comparable_total == least)
