"""The replay of failures: what the size alone tells, what a run's own figures change, and bounds as bounds."""

import pytest
from msgspec import structs

from service.backtest.failures import (
    as_bounds,
    as_lost,
    classic_ratios,
    effective_ratio,
    elsewhere,
    flat_mttf,
    flat_ratios,
    mttf_by_other_sources,
    predicted_mttf,
    predicted_ratios,
    preset_of,
    states_own_figures,
    with_mttf,
    with_ratio,
)
from service.backtest.operations import goals
from service.backtest.replays import bounds, own_ratios, ratios
from service.backtest.runs import ReliabilityRow, load_reliability
from service.backtest.scores import summarised
from service.estimator.reliability import PRESETS

ROWS = load_reliability()


def a_row(name: str) -> ReliabilityRow:
    return next(row for row in ROWS if row.id == name)


def test_bounds_are_scored_as_bounds() -> None:
    above, below = as_bounds(predicted_ratios([a_row("llama3-405b")])), as_bounds(flat_ratios([a_row("llama3-405b")]))
    assert above[0].predicted > 0.9
    assert above[0].error_percent == 0
    assert below[0].error_percent == pytest.approx(-5)


def test_a_bound_is_no_value_and_a_value_no_bound() -> None:
    values, limits = with_ratio(ROWS, bound=False), with_ratio(ROWS, bound=True)
    assert [row.id for row in limits] == ["llama3-405b", "megascale"]
    assert not {row.id for row in values} & {row.id for row in limits}
    assert {score.row_id for score in ratios().scores} == {row.id for row in values}


def test_every_bound_is_a_goal_that_holds_or_is_missed() -> None:
    told = [
        goal for goal in goals() if goal.name.startswith("effective training time by preset,") and "> 90" in goal.name
    ]
    assert [goal.reached for goal in told] == [score.predicted > score.measured for score in bounds().scores]


def test_a_share_errs_in_points_and_in_percent_of_lost_time() -> None:
    share = predicted_ratios([a_row("bloom-176b")])
    points, percent = share[0].error_percent, as_lost(share)[0].error_percent
    assert points == pytest.approx(100 * (share[0].predicted - 0.9))
    assert percent == pytest.approx(-points / 0.1)


def test_the_preset_goes_by_size_alone() -> None:
    assert preset_of(a_row("openeurollm-32b")) is PRESETS["hyperscale_automated"]
    assert preset_of(a_row("opt-175b")) is PRESETS["on_call"]


@pytest.mark.parametrize("row", with_ratio(ROWS, bound=False), ids=lambda row: row.id)
def test_what_was_reported_does_not_enter_its_prediction(row: ReliabilityRow) -> None:
    worse = structs.replace(row, effective_time_ratio=0.1)
    assert effective_ratio(row, own_told=False) == effective_ratio(worse, own_told=False)
    assert effective_ratio(row, own_told=True) == effective_ratio(worse, own_told=True)


@pytest.mark.parametrize("row", with_mttf(ROWS), ids=lambda row: row.id)
def test_failures_that_were_counted_do_not_enter_what_the_size_tells(row: ReliabilityRow) -> None:
    often = structs.replace(row, mttf_hours=0.5)
    assert predicted_mttf([row])[0].predicted == predicted_mttf([often])[0].predicted
    assert effective_ratio(row, own_told=False) == effective_ratio(often, own_told=False)
    known = [often if other.id == row.id else other for other in with_mttf(ROWS)]
    told, retold = (mttf_by_other_sources([row], rows)[0].predicted for rows in (with_mttf(ROWS), known))
    assert told == retold


def test_rarer_failures_and_faster_restarts_leave_more_time() -> None:
    row = structs.replace(a_row("opt-175b"), mttf_hours=10.0)
    assert effective_ratio(structs.replace(row, mttf_hours=100.0), True) > effective_ratio(row, True)
    assert effective_ratio(structs.replace(row, restart_minutes=5.0), True) > effective_ratio(row, True)
    assert effective_ratio(structs.replace(row, checkpoint_interval_hours=9.0), True) < effective_ratio(row, True)


def test_own_figures_are_told_only_where_they_are_stated() -> None:
    assert all(states_own_figures(a_row(score.row_id)) for score in own_ratios().scores)
    assert not states_own_figures(a_row("palm-540b"))


def test_all_replays_of_shares_stand_on_one_set_of_rows() -> None:
    for part in (ratios(), own_ratios(), bounds()):
        ids = [score.row_id for score in part.scores]
        assert all([score.row_id for score in scores] == ids for _, scores in part.baselines)


def test_both_rules_of_thumb_are_beaten_by_the_size() -> None:
    rows = with_ratio(ROWS, bound=False)
    ours = summarised(predicted_ratios(rows)).median
    assert ours < summarised(flat_ratios(rows)).median
    assert ours < summarised(classic_ratios(rows)).median


def test_the_ends_of_allocations_are_no_failures() -> None:
    assert "openeurollm-32b" not in {row.id for row in with_mttf(ROWS)}


def test_hardware_alone_fails_less_often_than_all_together() -> None:
    row = a_row("kokolis-1024")
    hardware = structs.replace(row, stops="hardware")
    assert predicted_mttf([hardware])[0].predicted > predicted_mttf([row])[0].predicted


def test_a_time_to_failure_shrinks_with_the_nodes() -> None:
    row = a_row("kokolis-8")
    eightfold = structs.replace(row, accelerator_count=64)
    for method in (predicted_mttf, flat_mttf):
        assert method([row])[0].predicted == pytest.approx(8 * method([eightfold])[0].predicted)


def test_sources_of_the_presets_can_be_left_out() -> None:
    left = elsewhere(ratios().scores)
    assert {score.row_id for score in left} == {
        "glm-130b",
        "byterobust-dense",
        "openeurollm-32b",
        "meta-100k-synchronous",
    }
