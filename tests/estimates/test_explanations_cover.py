"""What explanations must cover: each of these numbers, and each part of a formula, is explained for some request."""

import re
from functools import cache
from typing import Any

import pytest

from service.estimates.examples import EXAMPLES
from tests.support.detailed import REQUESTS
from tests.support.explained import explained

_FIELDS = {
    "assumptions[price.kwh_per_gpu_hour]": "value",
    "assumptions[price.amount]": "value",
    "assumptions[price.per_gpu_hour]": "value",
    "assumptions[storage.price_per_gb_month]": "value",
    "assumptions[rework.hardware.burn_in_factor]": "value",
    "assumptions[scaling.efficiency_percent]": "value",
    "break_evens[reserved_against_on_demand]": "threshold_percent",
    "break_evens[spot_against_on_demand]": "actual_percent threshold_percent",
    "commitment": "break_even_utilisation_percent overflow_cost overflow_gpu_hours term_cost term_gpu_hours "
    "unused_cost unused_gpu_hours used_cost used_gpu_hours",
    "cost": "compute egress expected_total idle list_total net_total non_gpu_percent overhead rework scaling_loss "
    "storage total",
    "cost.lines[compute]": "amount quantity unit_price",
    "cost.lines[overhead]": "amount quantity",
    "cost.lines[rework]": "amount quantity",
    "cost.lines[rework_checkpoints]": "amount quantity",
    "cost.lines[rework_hardware]": "amount quantity",
    "cost.lines[rework_instability]": "amount quantity",
    "cost.lines[rework_people]": "amount quantity",
    "cost.lines[rework_spot]": "amount quantity",
    "cost.lines[rework_spot_fallback]": "amount quantity unit_price",
    "cost.lines[rework_spot_wait]": "amount quantity",
    "cost.lines[idle_setup]": "amount quantity",
    "cost.lines[idle_spares]": "amount quantity",
    "cost.lines[commitment_overflow]": "amount quantity unit_price",
    "cost.lines[commitment_unused]": "amount quantity",
    "cost.lines[storage]": "amount quantity",
    "cost.lines[storage_checkpoints]": "amount quantity",
    "cost.lines[storage_filesystem]": "amount quantity",
    "cost.lines[egress]": "amount quantity",
    "cost.lines[discount]": "amount",
    "cost.lines[credits]": "amount",
    "cost.lines[tax]": "amount",
    "cost.lines[contingency]": "amount",
    "duration": "expected_wall_clock_days expected_wall_clock_hours ideal_hours overhead_hours rework_hours "
    "wall_clock_days wall_clock_hours",
    "energy": "emissions_tonnes energy_kwh",
    "memory": "activations_bytes checkpoint_bytes gradients_bytes logits_bytes optimizer_bytes reserve_bytes "
    "smallest_gpu_count total_bytes used_percent weights_bytes",
    "owned": "book cash_increment fully_loaded",
    "performance": "achieved_tflops_per_gpu active_parameters billed_mfu_percent flops_per_token model_flops "
    "parameters step_hfu_percent step_mfu_percent tokens_per_second tokens_per_second_per_gpu trained_tokens",
    "performance.compute_optimal": "loss parameters run_loss run_tokens_per_parameter tokens tokens_per_parameter",
    "performance.layout": "data",
    "performance.spread": "p10_percent p90_percent sigma_ln",
    "performance.step": "bubble_seconds compute_seconds exposed_data_parallel_seconds optimizer_seconds "
    "pipeline_communication_seconds tensor_communication_seconds total_seconds waiting_percent",
    "reliability": "checkpoint_interval_minutes checkpoint_seconds effective_training_time_percent "
    "equivalent_rework_percent expected_failures expected_spot_interruptions mean_time_to_failure_hours "
    "optimal_interval_minutes",
    "reliability.causes[checkpoints]": "hours percent",
    "reliability.causes[hardware]": "hours percent",
    "reliability.causes[spot]": "hours percent",
    "reliability.causes[spot_wait]": "hours percent",
    "reliability.causes[instability]": "hours percent",
    "reliability.causes[people]": "hours percent",
    "reliability.completion": "p50_hours p80_hours p90_hours p95_hours",
    "risk": "mean_cost mean_days chance_over_budget_percent chance_after_deadline_percent",
    "risk.cost": "p10 p50 p80 p90 p95",
    "risk.days": "p10_days p50_days p80_days p90_days p95_days",
    "risk.variance_shares[chance_of_failures]": "percent",
    "risk.variance_shares[throughput]": "percent",
    "unit_costs": "per_gpu_hour per_ideal_gpu_hour per_million_tokens",
    "verdict.cost": "headroom used_percent",
    "verdict.deadline": "headroom_hours used_percent",
}
_PARTS = (
    "A layer's attention, forward",
    "A layer's elementwise kernels, forward",
    "A layer's matrix products, forward",
    "Activation bytes kept of a token and hidden unit",
    "Capital a year",
    "Checkpoints written",
    "Depreciation of a GPU-hour",
    "Expected hours with failures",
    "Failures of the job in an hour",
    "Hardware FLOPs over model FLOPs",
    "Hours of a run in which nothing fails",
    "Interruptions of the job in an hour",
    "Interruptions in an hour of the nodes still on spot",
    "Logits and loss, forward and backward",
    "Mean restart",
    "Microbatches of a replica",
    "Nodes",
    "Scaling efficiency against the measurement",
    "Shape of the Gamma",
    "Work between checkpoints that costs least",
)


@cache
def _all() -> list[dict[str, Any]]:
    requests = [example["value"] for example in EXAMPLES.values()] + list(REQUESTS.values())
    return [found for request in requests for found in explained(request)["explanations"]]


@pytest.mark.parametrize(
    "field",
    ["gpu_hours", "expected_gpu_hours", *(f"{at}.{name}" for at, names in _FIELDS.items() for name in names.split())],
)
def test_a_field_is_explained(field: str) -> None:
    # The tiers of egress are several lines, named by their index.
    assert field in {re.sub(r"lines\[\d+\]", "lines[egress]", found["field"] or "") for found in _all()}


@pytest.mark.parametrize("name", _PARTS)
def test_a_part_of_a_formula_is_explained(name: str) -> None:
    assert any(found["name"] == name and found["field"] is None for found in _all())


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("FLOPs of a token", "6 * N"),
        ("FLOPs of a token", "6 * (L * (2 * h * d * (a + kv) + k * h * f) + V * h) + 12 * L * a * d * s * c"),
        ("FLOPs of a token", "4 * (L * (2 * h * d * (a + kv) + k * h * f) + V * h) + 6 * A + 12 * L * a * d * s * c"),
        ("Tokens a second", "mfu / 100 * n * P / F"),
        ("Tokens a second", "B * s / T * q * u"),
        ("Pipeline bubble", "(C + X + Y) * (p - 1) / (v * m)"),
        ("Scaling efficiency", "100 * (c0 + c1 * n0) / (c0 + c1 * n)"),
        ("Scaling efficiency", "100 * (1 - s / 100) / ((1 - s / 100) + s / 100 * n / n0)"),
        ("Work between checkpoints that costs least", "M * (1 + lambert_w0(-exp(-(1 + delta / M))))"),
        (
            "Expected hours with failures",
            "W * (1 + (i + p) / 100) / tau * M * exp(R / M) * (exp((tau + delta) / M) - 1)",
        ),
        ("GPU time of productive steps: unit price", "node / g"),
        ("GPU time of productive steps: unit price", "(p1 * t1 + p2 * t2) / (t1 + t2)"),
        ("Price of a GPU-hour", "p * x"),
        ("Price of a GB-month", "(q1 * p1 + q2 * p2) / z"),
    ],
)
def test_a_formula_is_written_so(name: str, formula: str) -> None:
    assert formula in {found["formula"] for found in _all() if found["name"] == name}
