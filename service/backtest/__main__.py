"""The back-test as plain text: `python -m service.backtest`, with `--rows` every prediction."""

import sys
from collections.abc import Iterator
from textwrap import wrap

from service.backtest.operations import BacktestGoal, BacktestLine, BacktestReport, report
from service.backtest.scores import BacktestScore, BoundScore, ShareScore

_NAME_WIDTH = 38
_HEAD = (
    f"{'absolute error, percent':{_NAME_WIDTH}} rows src  median  (P5-P95 of sources) [one left out]   "
    "p90  worst  bias  P10-P90"
)


def main(arguments: list[str]) -> None:
    """Print the report."""
    print("\n".join(lines(report(), with_rows="--rows" in arguments)))


def lines(told: BacktestReport, with_rows: bool = False) -> Iterator[str]:
    """The report, line by line."""
    yield _HEAD
    bootstrap = told.bootstrap
    yield (
        f"P5-P95 of the median: whole sources drawn with replacement {bootstrap.draws:,} times, seed {bootstrap.seed}"
    )
    for section in told.sections:
        yield ""
        yield section.name
        if section.unpredicted:
            yield f"  nothing fits, not scored: {', '.join(section.unpredicted)}"
        yield from (_line(line) for line in section.lines)
    yield ""
    for note in told.notes:
        yield from wrap(note, 112)
    yield ""
    yield "goals"
    yield from (_goal(goal) for goal in told.goals)
    for part in told.rows if with_rows else ():
        yield ""
        yield f"{part.name}: every row, predicted / measured"
        yield from (_row(score) for score in part.scores)


def _line(line: BacktestLine) -> str:
    summary = line.summary
    interval = _range("({:.1f}-{:.1f})", summary.interval_low, summary.interval_high)
    left_out = _range("[{:.1f}-{:.1f}]", summary.left_out_low, summary.left_out_high)
    coverage = "" if summary.coverage is None else f"{summary.coverage.inside}/{summary.coverage.rows}"
    return (
        f"  {line.name:{_NAME_WIDTH - 2}} {summary.rows:4} {summary.sources:3} {summary.median:7.1f}  "
        f"{interval:>19} {left_out:>14} {summary.p90:7.1f} {summary.worst:6.0f} {summary.bias_percent:+5.0f}  "
        f"{coverage}"
    ).rstrip()


def _range(form: str, low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else form.format(low, high)


def _goal(goal: BacktestGoal) -> str:
    verdict = "reached" if goal.reached else f"MISSED by {goal.missed_by:.2g}"
    return f"  {goal.name}: {goal.figure:.3g}, {verdict}"


def _row(score: BacktestScore) -> str:
    unit = "points" if isinstance(score, (ShareScore, BoundScore)) else "%"
    reason = "" if score.reason is None else f"  ({score.reason})"
    return (
        f"  {score.row_id:40} {score.predicted:14.6g} {score.measured:14.6g} {score.error_percent:+7.1f} {unit}{reason}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
