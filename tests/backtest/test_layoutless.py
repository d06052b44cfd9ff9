"""Rows without a published layout: told only what their source says, predicted by search."""

from msgspec import structs

from service.backtest.layoutless import by_searched_layout, layoutless_by_flat_mfu
from service.backtest.replays import layoutless
from service.backtest.runs import load_layoutless

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
