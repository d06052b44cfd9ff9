"""Laws of the classic formula, and that it is one formula: for exact decimals and for arrays."""

import datetime
import json
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimates.operations import classic_estimate, estimate
from service.estimates.schemas import ClassicQuery, Cluster, EstimateRequest
from service.estimator import cost
from service.estimator.inputs import BufferRework, FixedEgress, FixedScaling, FixedStorage, GpuHoursWork, HourlyPrice
from service.estimator.results import Estimate
from service.http.diagnosis import read_custom
from service.http.encoding import encoded
from service.http.queries import read_query
from service.money import Money, exact, exact_arithmetic

CENT = Decimal("0.01")

counts = st.integers(1, 100_000)
hours = st.decimals("0.01", 10_000, places=2).map(float)
prices = st.decimals(0, 1000, places=6)
efficiencies = st.decimals(1, 100, places=2).map(float)
reworks = st.decimals(0, 500, places=2).map(float)
amounts = st.decimals(0, 1_000_000, places=4)
bases = st.sampled_from(["per_gpu", "total"])


@st.composite
def requests(draw: st.DrawFn, /, **fixed: Any) -> dict[str, Any]:
    """The seven fields and the basis, some of them fixed."""
    drawn = {
        "count": draw(counts),
        "hours": draw(hours),
        "price": draw(prices),
        "efficiency": draw(efficiencies),
        "rework": draw(reworks),
        "storage": draw(amounts),
        "egress": draw(amounts),
        "basis": draw(bases),
    }
    return {**drawn, **fixed}


def answer_to(fields: dict[str, Any]) -> Estimate:
    return estimate(
        EstimateRequest(
            cluster=Cluster(gpu_count=fields["count"]),
            work=GpuHoursWork(fields["hours"], fields["basis"]),
            scaling=FixedScaling(fields["efficiency"]),
            rework=BufferRework(fields["rework"]),
            price=HourlyPrice(Money(fields["price"])),
            storage=FixedStorage(Money(fields["storage"])),
            egress=FixedEgress(Money(fields["egress"])),
        )
    )


@given(requests())
def test_lines_sum_to_the_total(fields: dict[str, Any]) -> None:
    bill = answer_to(fields).cost
    assert sum(line.amount for line in bill.lines) == bill.total
    assert bill.compute + bill.rework + bill.idle + bill.storage + bill.egress == bill.total


@given(requests())
def test_twice_the_price_is_twice_the_compute(fields: dict[str, Any]) -> None:
    once, twice = answer_to(fields).cost, answer_to({**fields, "price": fields["price"] * 2}).cost
    assert abs(twice.compute - 2 * once.compute) <= CENT
    assert abs(twice.rework - 2 * once.rework) <= CENT
    with exact_arithmetic():
        arguments = (fields["count"], exact(fields["hours"]))
        rest = (exact(fields["efficiency"]), Decimal(1))
        unrounded = cost.compute_cost(*arguments, Decimal(fields["price"]), *rest)
        assert cost.compute_cost(*arguments, Decimal(fields["price"] * 2), *rest) == pytest.approx(
            2 * unrounded, rel=Decimal("1e-90"), abs=Decimal(0)
        )


@given(requests(), st.sampled_from(["count", "hours", "price", "rework"]), st.integers(1, 50))
def test_more_never_costs_less(fields: dict[str, Any], field: str, more: int) -> None:
    if field == "count":
        fields = {**fields, "basis": "per_gpu"}  # more GPUs on the same total are a law of their own
    dearer = {**fields, field: fields[field] + more}
    assert answer_to(dearer).cost.total >= answer_to(fields).cost.total


@given(requests(basis="total"), st.integers(1, 1000))
def test_more_gpus_on_the_same_total_cost_the_same(fields: dict[str, Any], more: int) -> None:
    wider = answer_to({**fields, "count": fields["count"] + more})
    assert wider.cost == answer_to(fields).cost


@given(requests(efficiency=100.0, rework=0.0, basis="per_gpu"))
def test_a_perfect_run_costs_the_bare_product(fields: dict[str, Any]) -> None:
    bill = answer_to(fields).cost
    bare = fields["count"] * Decimal(str(fields["hours"])) * fields["price"]
    assert abs(bill.compute - bare) <= CENT / 2
    assert bill.rework == 0
    assert bill.scaling_loss == 0


@given(requests())
def test_waiting_is_the_part_of_compute_that_perfect_scaling_saves(fields: dict[str, Any]) -> None:
    bill = answer_to(fields).cost
    perfect = answer_to({**fields, "efficiency": 100.0}).cost
    assert bill.scaling_loss is not None
    assert abs(bill.compute - perfect.compute - bill.scaling_loss) <= 2 * CENT


@given(st.lists(requests(), min_size=1, max_size=20))
def test_the_formula_is_the_same_for_arrays(rows: list[dict[str, Any]]) -> None:
    names = ("count", "hours", "price", "efficiency", "rework")
    columns = {name: np.array([float(row[name]) for row in rows]) for name in names}
    by_array = cost.rework_cost(
        columns["count"], columns["hours"], columns["price"], columns["efficiency"], columns["rework"], 1.0
    )
    with exact_arithmetic():
        one_by_one = [
            cost.rework_cost(
                row["count"],
                exact(row["hours"]),
                Decimal(row["price"]),
                exact(row["efficiency"]),
                exact(row["rework"]),
                Decimal(1),
            )
            for row in rows
        ]
    assert by_array == pytest.approx([float(value) for value in one_by_one], rel=1e-12)


def test_multiplying_comes_before_dividing() -> None:
    fields = {"count": 3, "hours": 0.5, "price": Decimal("1.87"), "efficiency": 85.0, "rework": 15.0}
    bill = answer_to({**fields, "storage": 0, "egress": 0, "basis": "per_gpu"}).cost
    assert bill.rework == Decimal("0.50")  # exactly 0.495, rounded half-up


@pytest.mark.parametrize(
    ("written", "meant"), [(3.9492000000000003, "3.9492"), (0.1 + 0.2, "0.3"), (2.5, "2.5"), (1e11, "100000000000")]
)
def test_a_number_is_taken_by_its_shortest_form(written: float, meant: str) -> None:
    assert exact(written) == Decimal(meant)


@given(requests(basis="per_gpu", price=Decimal("2.125")))
def test_the_get_form_and_the_post_form_give_the_same_bytes(fields: dict[str, Any]) -> None:
    query = {
        "gpu_count": str(fields["count"]),
        "ideal_gpu_hours": repr(fields["hours"]),
        "gpu_cost_per_hour": str(fields["price"]),
        "scaling_efficiency_percent": repr(fields["efficiency"]),
        "failed_run_rework_percent": repr(fields["rework"]),
        "storage_cost": f"{fields['storage']:f}",
        "egress_cost": f"{fields['egress']:f}",
    }
    body = {
        "cluster": {"gpu_count": fields["count"]},
        "work": {"kind": "gpu_hours", "hours": fields["hours"]},
        "scaling": {"kind": "fixed", "efficiency_percent": fields["efficiency"]},
        "rework": {"kind": "buffer", "rework_percent": fields["rework"]},
        "price": {"kind": "hourly", "amount": float(fields["price"])},
        "storage": {"kind": "fixed", "amount": f"{fields['storage']:f}"},
        "egress": {"kind": "fixed", "amount": f"{fields['egress']:f}"},
    }
    posted = msgspec.json.decode(json.dumps(body), type=EstimateRequest, dec_hook=read_custom)
    by_get, by_post = classic_estimate(read_query(query, ClassicQuery)), estimate(posted)
    assert encoded(by_get.cost) == encoded(by_post.cost)
    assert encoded(by_get) == encoded(by_post)


EPOCH = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
start_instants = st.timedeltas(datetime.timedelta(0), datetime.timedelta(days=36_500)).map(lambda past: EPOCH + past)


@given(hours, efficiencies, reworks, start_instants)
def test_a_run_never_ends_before_it_starts(
    ideal: float, efficiency: float, rework: float, start_at: datetime.datetime
) -> None:
    answer = estimate(
        EstimateRequest(
            work=GpuHoursWork(ideal),
            scaling=FixedScaling(efficiency),
            rework=BufferRework(rework),
            start_at=start_at,
        )
    )
    assert answer.duration.finish_at is not None
    assert answer.duration.finish_at >= start_at
    expected = datetime.timedelta(hours=answer.duration.expected_wall_clock_hours)
    assert abs(answer.duration.finish_at - start_at - expected) <= datetime.timedelta(seconds=0.6)
