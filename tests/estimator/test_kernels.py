"""Kernel and pipeline times by themselves, each against a figure worked by hand or a schedule simulated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator import compute
from service.estimator.pipeline import bubble_fraction, pipeline_seconds, stage_transfer_seconds

# ------------------------------------------------------------------------------------------- kernels


def test_a_weight_costs_two_flops_a_token() -> None:
    assert compute.linear_seconds(10, 1000, 1e6) == pytest.approx(0.02)


def test_fused_attention_skips_the_masked_half() -> None:
    assert compute.flash_attention_seconds(10, 100, 8, 1e3) == pytest.approx(16)
    assert compute.unfused_attention_seconds(10, 100, 8, 1e3) == pytest.approx(32)


def test_scores_pass_through_memory_once_a_head() -> None:
    assert compute.softmax_seconds(10, 100, 3, 12, 1e3) == pytest.approx(36)


@pytest.mark.parametrize(("sequence_parallel", "expected"), [(True, 11.25), (False, 28.125)])
def test_sequence_parallelism_splits_the_other_half_of_the_traffic(sequence_parallel: bool, expected: float) -> None:
    # 45 bytes x 10 tokens x 100 units over 1000 bytes a second are 45 s; a quarter, or a half and an eighth.
    assert compute.elementwise_seconds(10, 100, 45, 1e3, 4, sequence_parallel) == pytest.approx(expected)


def test_logits_cost_six_flops_a_weight_and_their_own_traffic() -> None:
    assert compute.logit_product_seconds(10, 100, 50, 1e3) == pytest.approx(300)
    assert compute.logit_traffic_seconds(10, 50, 32, 1e3) == pytest.approx(16)


@pytest.mark.parametrize(("recompute", "expected"), [("none", 0), ("selective", 3), ("full", 10)])
def test_what_is_computed_again(recompute: compute.Recompute, expected: float) -> None:
    assert compute.recompute_seconds(recompute, attention_seconds=3, forward_seconds=10) == expected


def test_the_optimizer_moves_thirty_bytes_a_parameter() -> None:
    assert compute.optimizer_seconds(1e9, 30, 1e12) == pytest.approx(0.03)


# ------------------------------------------------------------------------------------------- pipeline


def scheduled_seconds(stages: int, count: int, forward: float, backward: float) -> float:
    """All forward passes, then all backward passes, walked through the stages (arXiv 2104.04473, figure 3)."""
    free = [0.0] * stages
    ready = [0.0] * count
    for order, duration in ((range(stages), forward), (reversed(range(stages)), backward)):
        for stage in order:
            for microbatch in range(count):
                ready[microbatch] = free[stage] = max(free[stage], ready[microbatch]) + duration
    return max(free)


@given(st.integers(1, 8), st.integers(1, 12), st.floats(0.1, 10), st.floats(0.1, 10))
def test_a_pipeline_takes_as_long_as_its_schedule(stages: int, count: int, forward: float, backward: float) -> None:
    expected = scheduled_seconds(stages, count, forward, backward)
    assert pipeline_seconds(stages, 1, count, forward + backward) == pytest.approx(expected, rel=1e-9)


def test_interleaving_divides_the_bubble() -> None:
    assert bubble_fraction(8, 1, 48) == pytest.approx(7 / 48)
    assert bubble_fraction(8, 6, 48) == pytest.approx(7 / 288)


def test_interleaving_multiplies_the_exchange_between_stages() -> None:
    # Two ways x 2 bytes x 10 tokens x 100 units, over 1000 bytes a second.
    assert stage_transfer_seconds(10, 100, 1, 4, False, 1e3) == pytest.approx(4)
    assert stage_transfer_seconds(10, 100, 3, 4, False, 1e3) == pytest.approx(12)
    assert stage_transfer_seconds(10, 100, 3, 4, True, 1e3) == pytest.approx(3)
