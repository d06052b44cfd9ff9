"""An answer as a text to be read and compared: money exact, other figures with six significant digits."""

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.golden.cases import Case, Published, case_of

_MONEY = re.compile(r"-?\d+(\.\d+)?")
_SIGNIFICANT_DIGITS = 6
_LARGEST_WRITTEN_OUT = 1e15
_GB = 1e9
_SECTIONS = (
    "duration",
    "performance",
    "memory",
    "reliability",
    "commitment",
    "owned",
    "energy",
    "break_evens",
    "risk",
    "verdict",
)
# What a table of lines has no room for.
_LEFT_OUT = frozenset({"decision", "spread", "source", "message"})
_INDENT = "  "
_LABEL_WIDTH = 40
_TEXT_WIDTH = 76


def report(case: Case) -> str:
    """The whole report; it depends on nothing but answers and what was published."""
    return "\n".join(_lines(case, case.answer())) + "\n"


def figure(value: object) -> str:
    """A number or an amount as people write it; any other word as it is."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return _rounded(value)
    text = str(value)
    if _MONEY.fullmatch(text):
        whole, point, fraction = text.partition(".")
        return f"{int(whole):,}{point}{fraction}" if whole != "-0" else text
    return text


def _rounded(value: float) -> str:
    """Six significant digits, without an exponent where that can be read."""
    if value == 0:
        return "0"
    if abs(value) >= _LARGEST_WRITTEN_OUT:
        return f"{value:.{_SIGNIFICANT_DIGITS - 1}e}"
    places = _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _lines(case: Case, answer: Mapping[str, Any]) -> Iterator[str]:
    yield case.title
    yield f"requests/{case.name}.json, model {answer['model_version']}. An estimate is not a quote."
    if case.published is not None:
        yield from _beside(case.published, answer)
    if case.against is not None:
        yield from _against(case_of(case.against), answer)
    yield from _cost(answer)
    for name in _SECTIONS:
        if answer.get(name) is not None:
            yield ""
            yield name.replace("_", " ").upper()
            yield from _section(answer[name])
    yield from _notes(answer["notes"])
    yield from _assumptions(answer["assumptions"])


def _beside(published: Published, answer: Mapping[str, Any]) -> Iterator[str]:
    """The prediction beside what was reported, in the header, so that a miss is seen first."""
    predicted: float = answer["expected_gpu_hours"]
    spread = answer["performance"]["spread"]
    low, high = (100 * predicted / spread[name] for name in ("p90_percent", "p10_percent"))
    yield ""
    yield f"published  {published.gpu_hours:>14,.0f} GPU-hours"
    yield f"predicted  {predicted:>14,.0f} GPU-hours, {_apart(predicted, published.gpu_hours)}"
    yield f"eight times in ten {low:,.0f} to {high:,.0f}, by the throughput alone"
    yield from textwrap.wrap(f"source: {published.source}", 118)


def _against(other: Case, answer: Mapping[str, Any]) -> Iterator[str]:
    """The same run elsewhere, by what a million tokens cost."""
    here, there = (float(one["unit_costs"]["per_million_tokens"]) for one in (answer, other.answer()))
    yield ""
    yield f"A million tokens cost {here:.6f}, and {there:.6f} in {other.name}: {_apart(here, there)}."


def _apart(one: float, other: float) -> str:
    percent = 100 * (one / other - 1)
    return f"{abs(percent):.1f} % {'more' if percent > 0 else 'less'}"


def _cost(answer: Mapping[str, Any]) -> Iterator[str]:
    cost = answer["cost"]
    yield ""
    yield f"COST in {cost['currency']}"
    yield from _table(cost["lines"], total=("amount", cost["total"]))
    yield ""
    yield from _fields({name: value for name, value in cost.items() if name not in ("currency", "lines")})
    yield from _fields({f"cost_{name}": value for name, value in answer["unit_costs"].items()})
    yield from _fields({name: answer[name] for name in ("gpu_hours", "expected_gpu_hours")})


def _notes(notes: Sequence[Mapping[str, str]]) -> Iterator[str]:
    yield ""
    yield "NOTES"
    for note in notes:
        yield f"{_INDENT}{note['severity']:<8} {note['code']}"


def _assumptions(assumptions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the request did not say itself."""
    yield ""
    yield "ASSUMED, looked up or derived"
    rows = [item for item in assumptions if item["status"] != "given"]
    yield from _table([{name: item[name] for name in ("field", "value", "status")} for item in rows])


# ------------------------------------------------------------------------------------------- any section


def _section(section: Any, indent: str = _INDENT) -> Iterator[str]:
    """Fields under one another; a list of objects is a table, an object has its fields indented."""
    if isinstance(section, list):
        yield from _table(section, indent)
        return
    plain = {name: value for name, value in section.items() if not _is_nested(value)}
    yield from _fields(plain, indent)
    for name, value in section.items():
        if _is_nested(value):
            yield f"{indent}{_label(name)}"
            yield from _section(value, indent + _INDENT)


def _is_nested(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _fields(fields: Mapping[str, Any], indent: str = _INDENT) -> Iterator[str]:
    for name, value in fields.items():
        shown = value / _GB if name.endswith("_bytes") and value is not None else value
        if isinstance(shown, list):
            shown = ", ".join(map(str, shown)) or "none"
        label = f"{indent}{_label(name)}".ljust(_LABEL_WIDTH + len(_INDENT))
        for line in textwrap.wrap(figure(shown), _TEXT_WIDTH):
            yield label + line
            label = " " * len(label)


def _label(name: str) -> str:
    """A field's name in words; bytes are shown as GB."""
    return (name.removesuffix("_bytes") + "_gb" if name.endswith("_bytes") else name).replace("_", " ")


def _table(
    rows: Sequence[Mapping[str, Any]], indent: str = _INDENT, total: tuple[str, str] | None = None
) -> Iterator[str]:
    """Rows under their names, numbers to the right."""
    if not rows:
        return
    names = [name for name in rows[0] if name not in _LEFT_OUT]
    cells = [[figure(row[name]) for name in names] for row in rows]
    if total is not None:
        cells.append(["total" if name == names[0] else figure(total[1]) if name == total[0] else "" for name in names])
    right = [all(_is_number(row[name]) for row in rows) for name in names]
    labels = [_label(name) for name in names]
    widths = [max(map(len, column)) for column in zip(labels, *cells, strict=True)]
    for line in [labels, *cells]:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        )
        yield (indent + "  ".join(padded)).rstrip()


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _MONEY.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)
