"""The classic estimate on a terminal: the seven options as text in, a table out."""

from collections.abc import Mapping

from service.estimates.operations import classic_estimate
from service.estimates.schemas import ClassicQuery
from service.estimator.results import Estimate
from service.http.encoding import encoded
from service.http.queries import read_query


def classic_answer(fields: Mapping[str, str]) -> tuple[Estimate, bytes]:
    """The estimate of those of the seven texts that are given, and its JSON; the error names the wrong option."""
    answer = classic_estimate(read_query(fields, ClassicQuery))
    return answer, encoded(answer)


def classic_table(answer: Estimate) -> str:
    """The bill as a table to read."""
    cost, duration = answer.cost, answer.duration
    rows: list[tuple[str, str, str, str]] = [
        (line.component, f"{line.quantity:,.2f} {line.unit}", f"{line.unit_price:,}", f"{line.amount:,}")
        for line in cost.lines
    ]
    rows.append(("total", "", "", f"{cost.total:,}"))
    head = ("", "quantity", "unit price", f"amount {cost.currency}")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in [head, *rows]
    ]
    lines.insert(-1, "-" * len(lines[0]))
    lines += [
        "",
        f"wall clock  {duration.wall_clock_hours:,.2f} h ({duration.wall_clock_days:,.2f} days); with rework "
        f"{duration.expected_wall_clock_hours:,.2f} h ({duration.expected_wall_clock_days:,.2f} days)",
        f"waiting     {cost.scaling_loss:,} {cost.currency} of the compute pays for imperfect scaling",
    ]
    lines += [f"{note.severity:<11} {note.message}" for note in answer.notes if note.severity == "warning"]
    return "\n".join(lines)
