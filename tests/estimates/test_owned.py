"""Hardware that was bought: what the run adds, what the books say, and what it bears in full."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import refused, said
from tests.support.bills import a_run, amounts, answer_to, line_of, total


def bought(**changed: Any) -> dict[str, Any]:
    """512 GPUs for 20.48 M over 4 years at 8 %, 2 M a year around them, used 80 % of the time."""
    return {
        "kind": "owned",
        "capex": "20480000",
        "gpu_count": 512,
        "life_years": 4,
        "capital_percent_per_year": 8,
        "energy_amount_per_kwh": "0.0826",
        "colocation_per_year": "1000000",
        "support_per_year": "600000",
        "staff_per_year": "400000",
        "utilisation_percent": 80,
        **changed,
    }


# A tenth of a year of all 512 GPUs: 448,819.2 GPU-hours. An H100 of 700 W, its server 10.2/5.6 of that, 75 % loaded,
# PUE 1.1: 1.051875 kWh an hour.
HOURS = 876.6
ENERGY = 448_819.2 * 0.7 * 10.2 / 5.6 * 0.75 * 1.1 * 0.0826


def test_the_three_figures_by_hand() -> None:
    # Depreciation 512,000; capital 4 % of 20.48 M and 2 M a year: 281,920; both borne by 80 % of the hours.
    owned = answer_to(HOURS, 512, price=bought())["owned"]
    assert float(owned["cash_increment"]) == pytest.approx(ENERGY, abs=0.005)
    assert float(owned["book"]) == pytest.approx(ENERGY + 512_000, abs=0.01)
    assert float(owned["fully_loaded"]) == pytest.approx(ENERGY + (512_000 + 281_920) / 0.8, abs=0.01)
    assert owned["billed"] == "loaded"


def test_energy_is_that_of_the_accelerator_and_its_server() -> None:
    # Epoch AI: 0.086884875 USD of energy for an H100-hour at 0.0826 a kWh.
    answer = answer_to(HOURS, 512, price=bought())
    assert said(answer, "price.kwh_per_gpu_hour")["value"] * 0.0826 == pytest.approx(0.086884875, rel=1e-12)


@pytest.mark.parametrize(
    ("basis", "figure"), [("cash", "cash_increment"), ("book", "book"), ("loaded", "fully_loaded")]
)
def test_the_basis_that_was_asked_for_is_billed(basis: str, figure: str) -> None:
    answer = answer_to(HOURS, 512, price=bought(basis=basis))
    assert amounts(answer)["compute"] == Decimal(answer["owned"][figure])
    assert answer["owned"]["billed"] == basis


def test_all_three_are_said_whatever_is_billed() -> None:
    figures = [answer_to(HOURS, 512, price=bought(basis=basis))["owned"] for basis in ("cash", "book", "loaded")]
    assert len({(one["cash_increment"], one["book"], one["fully_loaded"]) for one in figures}) == 1


def test_a_part_of_the_cluster_bears_its_part() -> None:
    whole, half = (answer_to(HOURS, count, price=bought())["owned"] for count in (512, 256))
    assert 2 * float(half["book"]) == pytest.approx(float(whole["book"]), abs=0.02)


def test_idle_and_spare_hours_are_borne_too() -> None:
    answer = answer_to(HOURS, 256, price=bought(), idle={"setup_hours": 10, "spare_nodes": 2})
    gpu_hours = 272 * (HOURS + 10)
    assert answer["expected_gpu_hours"] == pytest.approx(gpu_hours, rel=1e-12)
    assert float(answer["owned"]["fully_loaded"]) == pytest.approx(float(total(answer)), abs=0.02)


def test_no_fewer_can_be_owned_than_run_or_stand_by() -> None:
    assert refused(a_run(1, 513, price=bought())).pointer == "/price/gpu_count"
    body = a_run(1, 512, price=bought(), idle={"spare_nodes": 1})
    assert refused(body).pointer == "/price/gpu_count"


def test_those_of_the_run_and_its_spares_are_owned_by_default() -> None:
    price = bought()
    del price["gpu_count"]
    both = [answer_to(100, 504, price=one, idle={"spare_nodes": 1})["owned"] for one in (price, bought(gpu_count=512))]
    assert both[0] == both[1]


def test_owned_capacity_is_no_spot_capacity() -> None:
    assert refused(a_run(price=bought(), rework={"kind": "failures", "spot": {}})).pointer == "/rework/spot"


def test_a_power_limit_that_nobody_knows_is_asked_for() -> None:
    body = {**a_run(price=bought()), "cluster": {"gpu_count": 8}}
    assert refused(body).pointer == "/energy/tdp_watts"
    assert refused({**body, "energy": {"pue": 1.2}}).pointer == "/energy/tdp_watts"


def test_discount_and_tax_are_on_the_figure_that_is_billed() -> None:
    answer = answer_to(HOURS, 512, price=bought(tax_percent=10))
    assert Decimal(answer["cost"]["net_total"]) == Decimal(answer["owned"]["fully_loaded"])
    assert line_of(answer, "tax")["amount"] == str((total(answer) / 11).quantize(Decimal("0.01")))


@given(
    st.decimals(0, 10**9, places=2).map(str),
    st.decimals(0, 5, places=4).map(str),
    st.floats(0.1, 50),
    st.floats(0, 100),
    st.floats(1, 100),
    st.decimals(0, 10**7, places=2).map(str),
)
def test_each_figure_holds_the_one_before(
    capex: str, kwh: str, life: float, capital: float, utilisation: float, yearly: str
) -> None:
    price = bought(
        capex=capex,
        energy_amount_per_kwh=kwh,
        life_years=life,
        capital_percent_per_year=capital,
        utilisation_percent=utilisation,
        colocation_per_year=yearly,
    )
    owned = answer_to(10, 512, price=price)["owned"]
    assert Decimal(owned["cash_increment"]) <= Decimal(owned["book"]) <= Decimal(owned["fully_loaded"])


def test_every_figure_says_whether_it_was_given() -> None:
    answer = answer_to(
        100, 8, price={"kind": "owned", "capex": "300000", "energy_amount_per_kwh": "0.1", "life_years": 4}
    )
    origins = {item["field"]: (item["value"], item["status"]) for item in answer["assumptions"]}
    assert origins["price.capex"] == ("300000.00", "given")
    assert origins["price.gpu_count"] == (8, "default")
    assert origins["price.life_years"] == (4, "given")
    assert origins["price.utilisation_percent"] == (100, "default")
    assert origins["energy.tdp_watts"] == (700, "catalogue")
    assert origins["energy.pue"] == (1.1, "default")


def test_energy_that_is_asked_for_too_is_assumed_once() -> None:
    answer = answer_to(HOURS, 512, price=bought(), energy={"pue": 1.3})
    names = [item["field"] for item in answer["assumptions"]]
    assert len(names) == len(set(names))
    assert said(answer, "energy.pue")["value"] == 1.3


YEARLY = ("capital_percent_per_year", "colocation_per_year", "support_per_year", "staff_per_year")


def test_what_nobody_said_of_a_year_is_unknown_and_the_full_figure_says_that_it_lacks_it() -> None:
    price = {name: value for name, value in bought().items() if name not in YEARLY}
    answer = answer_to(HOURS, 512, price=price)
    for name in YEARLY:
        told = said(answer, f"price.{name}")
        assert told["value"] is None
        assert "unknown" in told["source"]
    (note,) = (one for one in answer["notes"] if one["code"] == "owned_not_fully_loaded")
    assert "capital, colocation, support and staff" in note["message"]
    assert note["severity"] == "warning"


def test_only_what_is_missing_is_named() -> None:
    price = bought()
    del price["support_per_year"]
    answer = answer_to(HOURS, 512, price=price)
    (note,) = (one for one in answer["notes"] if one["code"] == "owned_not_fully_loaded")
    assert "lacks support, of which" in note["message"]
    assert said(answer, "price.staff_per_year") == {
        "field": "price.staff_per_year",
        "value": "400000.00",
        "status": "given",
        "source": "request",
    }


def test_a_yearly_cost_of_nothing_is_said_and_not_assumed() -> None:
    nothing = {name: 0 if name == "capital_percent_per_year" else "0" for name in YEARLY}
    answer = answer_to(HOURS, 512, price=bought(**nothing))
    assert "owned_not_fully_loaded" not in {note["code"] for note in answer["notes"]}
    assert said(answer, "price.capital_percent_per_year")["status"] == "given"
