"""Rows without a published layout: told only what their source says, predicted by search."""

import math

import pytest
from msgspec import structs

from service.backtest.layoutless import by_searched_layout, layoutless_by_flat_mfu
from service.backtest.replays import layoutless
from service.backtest.runs import load_layoutless
from service.estimator.utilisation import LOW_PRECISION_BY_SOURCE, REGIME_SIGMAS, low_precision_sigma_ln, spread

ROWS = load_layoutless()


def test_every_row_without_a_layout_is_scored_or_named() -> None:
    part = layoutless()
    assert [*(score.row_id for score in part.scores), *part.unpredicted] == [row.id for row in ROWS]


def test_the_measured_throughput_does_not_enter_its_prediction() -> None:
    faster = [structs.replace(row, tokens_per_second_per_gpu=row.tokens_per_second_per_gpu * 3) for row in ROWS]
    told, retold = by_searched_layout(ROWS), by_searched_layout(faster)
    assert [score.predicted for score in told] == [score.predicted for score in retold]


def test_no_searched_layout_is_faster_than_the_hardware() -> None:
    at_40_percent = {score.row_id: score.predicted for score in layoutless_by_flat_mfu(ROWS)}
    assert all(0 < score.predicted < at_40_percent[score.row_id] / 0.4 for score in by_searched_layout(ROWS))


def test_full_recompute_is_slower_where_it_is_told() -> None:
    row = next(row for row in ROWS if row.recompute == "none")
    slower = structs.replace(row, recompute="full")
    free, told = by_searched_layout([row, slower])
    assert told.predicted < free.predicted


def test_what_a_source_says_of_fp8_does_not_enter_the_spread_of_its_rows() -> None:
    """NVIDIA's gain is the most: without it the spread of its rows is narrower."""
    told = {score.row_id: score.sigma_ln for score in by_searched_layout(ROWS)}
    without = spread("layout_searched", ("low_precision",), low_precision_left_out="nvidia-nemo")
    assert told["nemo-2407-llama-2-7b-8"] == without < spread("layout_searched", ("low_precision",))
    assert told["picotron-llama-2-7b-64"] == spread("layout_searched", ())


@pytest.mark.parametrize("source", LOW_PRECISION_BY_SOURCE)
def test_the_spread_of_fp8_is_of_the_sources_that_are_left(source: str) -> None:
    left = [math.log(gain) for name, gain in LOW_PRECISION_BY_SOURCE.items() if name != source]
    assert low_precision_sigma_ln(source) == pytest.approx((max(left) - min(left)) / 2 / 1.2815515655446004)
    assert low_precision_sigma_ln(source) <= low_precision_sigma_ln() == REGIME_SIGMAS["low_precision"]
