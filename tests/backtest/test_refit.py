"""The refit: it finds what it is to find, sees nothing of a source that is held out, and changes nothing."""

from pathlib import Path

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
from service.backtest.runs import HeldOutRow, load_held_out, load_throughput
from service.backtest.throughput import modelled

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
