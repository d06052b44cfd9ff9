"""What is drawn where the request gives no spread: of predictions and defaults what was published, of absent inputs
nothing; and what is said of a distribution that has no mean."""

from typing import Any

import numpy as np
import pytest

from service.estimates.detailed import detailed_facts
from service.estimator import bill
from service.estimator.scaling import sigma_ln_of_law
from service.estimator.timing import hours_of, plan_in_floats
from service.estimator.uncertainty import inputs_of, mean_of, with_factors
from tests.estimates.test_uncertainty import NAMES, WIDE, everything
from tests.support.asking import ask, codes, refused
from tests.support.bills import a_run, request_of

SEED = {"seed": 1}
PRICE = {"kind": "hourly", "amount": "1.80"}
_8B = {"kind": "transformer", "model": "llama-3.1-8b", "tokens": 1e12, "global_batch_sequences": 512}
LAYOUT = {"tensor": 2, "sharding": "zero1"}


def h100(count: int, **sections: Any) -> dict[str, Any]:
    return {"cluster": {"gpu": "h100-sxm-80gb", "gpu_count": count}, "price": PRICE, "uncertainty": SEED, **sections}


def throughput(count: int, measured: int, **scaling: Any) -> dict[str, Any]:
    work = {"kind": "throughput", "tokens": 1e12, "tokens_per_second": 80000, "per": "cluster", "overhead_percent": 5}
    return h100(count, work={**work, "measured_gpu_count": measured}, **scaling)


def spreads(body: dict[str, Any]) -> dict[str, str]:
    """What was drawn, by input, in words."""
    return {share["input"]: share["spread"] for share in ask(body)["risk"]["variance_shares"]}


def test_the_default_efficiency_has_the_band_that_the_guide_calls_typical() -> None:
    body = {"price": PRICE, "uncertainty": SEED}
    told = "triangular, 93.75 to 112.5 % of the estimate: 75 to 90 % are typical by the classic calculator's guide"
    assert spreads(body) == {"scaling": told}
    risk = ask(body)["risk"]["days"]
    assert 5 * 1.15 * 80 / 90 * 0.8 < risk["p10_days"] < risk["p95_days"] < 7.1875 * 80 / 75
    assert spreads({**body, "scaling": {"kind": "fixed", "efficiency_percent": 80}}) == {}


def test_a_profile_carried_to_another_count_has_a_spread() -> None:
    def of(**scaling: Any) -> dict[str, str]:
        return spreads({"price": PRICE, "uncertainty": SEED, "scaling": {"kind": "communication", **scaling}})

    assert of(share_percent=8, gpu_count=8)["scaling"].startswith("lognormal, sigma 0.0213: carried from 8 to 64 GPUs")
    assert of(share_percent=8, gpu_count=8, batch="grows")["scaling"].startswith("lognormal, sigma 0.0456")
    assert of(share_percent=8) == {}
    assert of(share_percent=8, gpu_count=64) == {}
    against = throughput(64, 32, scaling={"kind": "communication", "share_percent": 8, "gpu_count": 8})
    assert "carried from 32 to 64 GPUs" in spreads(against)["scaling"]


def test_the_spread_of_a_law_grows_with_the_distance() -> None:
    # Nine in ten errors of Amdahl through two points, at 8 times their count, were below 3.5 %.
    assert sigma_ln_of_law("amdahl", 8) * 1.6448536 == pytest.approx(0.035)
    assert sigma_ln_of_law("amdahl", 1) == 0
    assert sigma_ln_of_law("amdahl", 64) == pytest.approx(2 * sigma_ln_of_law("amdahl", 8))
    assert sigma_ln_of_law("log2", 1 / 8) == sigma_ln_of_law("log2", 8)


def test_a_utilisation_carried_by_the_step_model_has_its_spread() -> None:
    def of(base: int, **work: Any) -> dict[str, str]:
        scaling = {"kind": "model", "base_gpu_count": base}
        work = {**_8B, "mfu_percent": 42, "overhead_percent": 5, **work}
        return spreads(h100(512, work=work, scaling=scaling, rework={"kind": "buffer", "rework_percent": 5}))

    assert of(64)["scaling"].startswith("lognormal, sigma 0.16: the step model carried from 64 to 512 GPUs")
    assert of(64, layout=LAYOUT, recompute="full")["scaling"].startswith("lognormal, sigma 0.031")
    assert of(512) == {}


def test_a_rate_taken_linear_loses_what_published_series_lose() -> None:
    assert spreads(throughput(80, 8))["scaling"].startswith("triangular, 87 to 100 % of the estimate: measured on 8")
    assert spreads(throughput(64, 64)) == {}
    fewer = spreads(throughput(8, 80))
    assert fewer["throughput"].startswith("triangular, 100 to 114.9 % of the estimate: measured on 80 GPUs")
    wider = ask(throughput(80, 8))
    assert wider["risk"]["days"]["p10_days"] > wider["duration"]["expected_wall_clock_days"]


def test_defaults_without_a_published_spread_are_named() -> None:
    answer = ask({"price": PRICE, "uncertainty": SEED})
    (told,) = (note["message"] for note in answer["notes"] if note["code"] == "uncertainty_defaults_certain")
    assert "work.hours, rework.rework_percent, storage.amount and egress.amount" in told
    assert "uncertainty_none" not in codes(answer)
    assert {"uncertainty_defaults_certain", "uncertainty_none"} & codes(ask(a_run(uncertainty=SEED))) == {
        "uncertainty_none"
    }


# ------------------------------------------------------------------------------------------- inputs that a run has


BODIES = {
    "everything": everything(),
    "typed": a_run(uncertainty=SEED),
    "no spot": everything(rework={"kind": "failures"}),
    "free": a_run(amount="0", uncertainty=SEED),
    "nothing fails": a_run(rework={"kind": "failures", "hardware": {"failures_per_node_day": 0}}),
    "at once": a_run(rework={"kind": "failures", "hardware": {"restart_minutes": 0}}),
    "commitment": a_run(price={"kind": "commitment", "amount": "2", "gpu_count": 8, "term_hours": 1000}),
    "overflow": a_run(
        price={"kind": "commitment", "amount": "2", "gpu_count": 8, "term_hours": 50, "overflow_amount": "3"}
    ),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_an_input_is_one_of_the_run_if_and_only_if_it_moves_it(body: dict[str, Any], name: Any) -> None:
    plan = plan_in_floats(detailed_facts(request_of(body)).plan)

    def figures(factor: float) -> tuple[float, float]:
        varied = with_factors(plan, {name: np.array([factor])})
        hours = hours_of(varied)
        return float(np.ravel(bill.billed_amount(varied, hours))[0]), float(np.ravel(hours.expected)[0])

    assert (figures(0.5) != figures(0.9)) is (name in inputs_of(plan))


@pytest.mark.parametrize("name", ["checkpoint", "restart", "failure_rate", "overhead", "spot_rate"])
def test_a_spread_of_what_the_run_has_not_is_a_note_and_no_share(name: str) -> None:
    answer = ask(a_run(uncertainty={"seed": 1, "spreads": {name: WIDE}}))
    assert answer["risk"]["variance_shares"] == []
    assert {"spread_unused", "uncertainty_none"} <= codes(answer)
    (told,) = (note["message"] for note in answer["notes"] if note["code"] == "spread_unused")
    assert name in told
    assert "This run has price, scaling and throughput." in told
    certain = ask(a_run(uncertainty={"seed": 1, "spreads": {name: {"kind": "certain"}}}))
    assert "spread_unused" not in codes(certain)


def test_nothing_that_fails_has_no_spread_of_its_restart() -> None:
    rework = {"kind": "failures", "hardware": {"failures_per_node_day": 0}, "checkpoint": {"seconds": 30}}
    answer = ask(a_run(rework=rework, uncertainty=SEED))
    assert "restart" not in {share["input"] for share in answer["risk"]["variance_shares"]}
    assert "uncertainty_none" in codes(answer)


# ------------------------------------------------------------------------------------------- means and their want


def test_a_mean_that_a_few_draws_make_up_is_not_said() -> None:
    work = {"kind": "transformer", "parameters": 7e9, "tokens": 1e12, "mfu_percent": 40}
    answer = ask(h100(512, work=work, rework={"kind": "failures", "spot": {}}))
    assert answer["cost"]["total"] == "446594.50"
    assert answer["risk"]["mean_cost"] is None
    assert answer["risk"]["mean_days"] is None
    (told,) = (note["message"] for note in answer["notes"] if note["code"] == "risk_mean_unsaid")
    assert "by spot_rate most of all" in told
    assert float(answer["risk"]["cost"]["p50"]) < 1e6


@pytest.mark.parametrize(("sigma", "is_said"), [(0.3, True), (1.5, True), (2.0, True), (2.8, False), (4.0, False)])
def test_the_mean_of_a_lognormal_is_said_while_one_draw_in_a_hundred_is_less_than_half_of_it(
    sigma: float, is_said: bool
) -> None:
    # The largest hundredth of a lognormal is the share Phi(sigma - 2.326) of its mean: half at sigma 2.326.
    draws = np.exp(sigma * np.random.default_rng(3).standard_normal(20_000))
    mean = mean_of(draws)
    assert (mean is not None) is is_said
    if mean is not None:
        assert mean == pytest.approx(float(np.mean(draws)), rel=1e-12)


def test_a_mean_is_that_of_all_draws_where_they_are_even() -> None:
    assert mean_of(np.zeros(1000)) == 0
    assert mean_of(np.full(1000, 7.0)) == 7
    assert mean_of(np.broadcast_to(np.float64(3), (1000,))) == 3


@pytest.mark.parametrize("stated", [True, False])
def test_a_quantile_that_no_amount_holds_is_said_of_its_cause(stated: bool) -> None:
    body = a_run(
        3000,
        1024,
        rework={"kind": "failures", "hardware": {"restart_minutes": 240}, "preset": "no_spares"},
        uncertainty={"seed": 1, "spreads": {"failure_rate": {"kind": "lognormal", "sigma": 2}} if stated else {}},
        price={"kind": "hourly", "amount": "100000"},
    )
    fault = refused(body)
    assert fault.pointer == ("/uncertainty/spreads/failure_rate" if stated else "/rework")
    assert "integer digits" in fault.message
