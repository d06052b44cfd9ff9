"""The refit: it finds what it is to find, sees nothing of a source that is held out, and changes nothing."""

import math
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from msgspec import structs

from bench.refit import (
    START,
    bounded,
    cases_of,
    fit,
    fits_without_each_source,
    loss,
    predicted,
    shipped,
    spread,
    without,
    write_held_out,
)
from bench.refit_search import Point, least_point
from bench.refit_spreads import (
    PAIRED,
    calibrated_sigma_ln,
    distances,
    gain_without,
    held_share,
    held_share_left_out,
    low_precision_gains,
    usual_mfus,
)
from service.backtest.runs import HeldOutRow, load_held_out, load_layoutless, load_throughput
from service.backtest.throughput import from_one_point, modelled, with_source_held_out
from service.estimator.constants import SIGMA_LN_LAYOUT_GIVEN, SIGMA_LN_ONE_POINT
from service.estimator.utilisation import LOW_PRECISION_BY_SOURCE, P90_SIGMAS, PRIOR_ROWS, Family, family_prior

ROWS = load_throughput()
FEW = [row for row in ROWS if row.source_id in ("korthikanti-2022", "llama-3-2024", "megascale-2024")]


def test_the_simplex_finds_a_crease() -> None:
    def creased(at: Point) -> float:
        return float(abs(np.log(at[0] / 3)) + 2 * abs(np.log(at[1] / at[0] / 5)))

    assert least_point(creased, np.array([1.0, 1.0])) == pytest.approx([3, 15], rel=1e-3)


def test_shipped_constants_predict_what_the_step_model_says() -> None:
    for case in cases_of(ROWS[::20]):
        assert predicted(case, shipped()) == pytest.approx(modelled(case.row), rel=1e-12)


def test_a_source_weighs_the_same_however_many_rows_it_has() -> None:
    cases = cases_of(FEW)
    twice = [*cases, *(case for case in cases if case.row.source_id == "megascale-2024")]
    assert loss(twice, shipped()) == pytest.approx(loss(cases, shipped()))


def test_a_fit_is_no_worse_than_what_is_shipped_and_the_same_every_time() -> None:
    cases = cases_of(FEW)
    fitted = fit(cases, "few")
    assert loss(cases, fitted) <= loss(cases, shipped())
    assert fitted == fit(cases, "again")
    assert bounded(fitted) == fitted


def test_a_source_that_is_held_out_changes_nothing_of_its_fit() -> None:
    faster = [
        structs.replace(row, tokens_per_second_per_gpu=row.tokens_per_second_per_gpu * 2)
        if row.source_id == "llama-3-2024"
        else row
        for row in FEW
    ]
    name = without("llama-3-2024")
    assert fits_without_each_source(cases_of(FEW))[name] == fits_without_each_source(cases_of(faster))[name]


def test_constants_stay_within_what_kernels_can_have() -> None:
    wild = dict.fromkeys(START, 1e9) | {"fused_bytes": 1e-9, "eager_bytes": 1e-9}
    told = bounded(wild)
    assert told["attention_a100"] <= told["gemm_a100"] <= 1
    assert 16 <= told["fused_bytes"] <= told["eager_bytes"] <= 200


def test_the_spread_counts_each_source_once() -> None:
    ratios = {"a": 1.1, "b": 1 / 1.1, "c": 1 / 1.1, "d": 1 / 1.1}
    assert spread({"x": ["a"], "y": ["b", "c", "d"]}, ratios) == pytest.approx(np.log(1.1))


def test_what_is_written_is_what_the_back_test_reads(tmp_path: Path) -> None:
    cases = cases_of(ROWS[:2])
    write_held_out(tmp_path / "out.csv", cases, {case.row.id: 2.0 for case in cases}, "2026-11-30")
    header, first, _ = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert tuple(header.split(",")) == HeldOutRow.__struct_fields__
    assert first.split(",")[:3] == [ROWS[0].id, ROWS[0].source_id, "2"]
    assert {row.source for row in load_held_out()} == {"python -m bench.refit, constants fitted to the other sources"}


# ------------------------------------------------------------------------------------------- spreads


def test_a_spread_holds_80_percent_and_counts_each_source_once() -> None:
    # Four of five sources lie at or below 0.4, however many rows the fifth has.
    groups = {"a": [0.1], "b": [0.2], "c": [0.3], "d": [0.4], "e": [9.0] * 50}
    assert calibrated_sigma_ln(groups) == pytest.approx(0.4 / P90_SIGMAS)
    assert held_share(groups, calibrated_sigma_ln(groups)) == pytest.approx(0.8)


def test_a_source_that_is_left_out_is_held_by_the_spread_of_the_others() -> None:
    # Without a: 0.2 holds it. Without b: 0.1 does not.
    assert held_share_left_out({"a": [0.1], "b": [0.2]}) == pytest.approx(0.5)


def test_spreads_are_those_of_sources_held_out_rounded_up() -> None:
    told = {row.id: row.held_out_tokens_per_second_per_gpu for row in load_held_out()}
    given = calibrated_sigma_ln(distances(with_source_held_out(ROWS, load_held_out())))
    one_point = calibrated_sigma_ln(distances(from_one_point("strong", lambda row: told[row.id])))
    assert math.ceil(100 * given) / 100 == SIGMA_LN_LAYOUT_GIVEN
    assert math.ceil(1000 * one_point) / 1000 == SIGMA_LN_ONE_POINT


def test_the_usual_mfu_of_the_a100_holds_80_percent_of_its_sources() -> None:
    prior = family_prior("a100")
    off = {
        source: [abs(math.log(mfu / prior.mfu)) for mfu in mfus] for source, mfus in usual_mfus(ROWS, "a100").items()
    }
    assert calibrated_sigma_ln(off) <= prior.sigma_ln < calibrated_sigma_ln(off) + 0.01


def test_a_prior_says_how_many_rows_it_rests_on() -> None:
    for family, told in PRIOR_ROWS.items():
        groups = usual_mfus(ROWS, family)
        assert (sum(map(len, groups.values())), len(groups)) == told
        assert "{} rows of {} sources".format(*told) in family_prior(family).source


def test_no_prior_is_narrower_than_the_only_one_that_seven_sources_show() -> None:
    families: tuple[Family, ...] = ("a100", "h100", "blackwell", "tpu", "other")
    least = family_prior("a100").sigma_ln
    for family in families:
        for one_node in (False, True):
            assert family_prior(family, one_node).sigma_ln == pytest.approx(least)


def test_what_fp8_gains_is_what_the_rows_of_each_source_say() -> None:
    gains = low_precision_gains(load_layoutless())
    told = {source: round(median(group), 2) for source, group in gains.items()}
    assert told == {source: gain for source, gain in LOW_PRECISION_BY_SOURCE.items() if source != PAIRED}


def test_a_source_is_predicted_by_what_fp8_gains_elsewhere() -> None:
    gains = {"a": [2.0, 2.0], "b": [1.0]}
    assert gain_without(gains, "a") == gain_without({**gains, "a": [9.0]}, "a")
    assert gain_without(gains, "b") == pytest.approx(math.sqrt(2 * LOW_PRECISION_BY_SOURCE[PAIRED]))
