"""The formulas of how long it takes: scaling efficiency, ideal hours, wall clock and rework."""

from decimal import Decimal

from msgspec import UNSET

from service.estimator.evidence import Against, Evidence
from service.estimator.formula import Page
from service.estimator.plan import Plan
from service.estimator.results import Estimate
from service.estimator.timing import Hours
from service.units import HOURS_PER_DAY, PERCENT

_CLASSIC = "classic calculator: WallClockHours = IdealGpuHours / (ScalingEfficiency / 100)"
_SUM = "the sum of its parts"
_EFFICIENCY = "assumptions[scaling.efficiency_percent].value"


def _against(page: Page, told: Against) -> None:
    """Less than at the count of the measurement, whose rate holds what is lost there."""
    page.let("e1", told.here_percent, "%", "efficiency of this count, by the law")
    page.let("e0", told.base_percent, "%", "efficiency of the count of the measurement, by the law")
    formula, result = f"{PERCENT} * e1 / e0", PERCENT * told.here_percent / told.base_percent
    page.write(
        None, "Scaling efficiency against the measurement", formula, result, "%", "the rate holds what is lost there"
    )


def scaling_page(evidence: Evidence, plan: Plan) -> Page:
    """Where the efficiency came from, if it was not given."""
    page, percent = Page(), plan.efficiency_percent
    field: str | None = _EFFICIENCY
    if evidence.against is not None:
        percent, field = Decimal(str(evidence.against.here_percent)), None
        _against(page, evidence.against)
    page.let("n", plan.gpu_count, "GPU", "accelerators")
    if evidence.communication is not None:
        page.let("s", evidence.communication.share_percent, "%", "exposed communication, of the measured step")
        page.let("n0", evidence.communication.base_gpu_count, "GPU", "accelerators of the measured step")
        less = f"(1 - s / {PERCENT})"
        grown = " * n / n0" if evidence.communication.batch == "fixed" else ""
        source = "communication stays as long, work shrinks (Amdahl 1967); where the batch grows, its share stays"
        formula = f"{PERCENT} * {less} / ({less} + s / {PERCENT}{grown})"
        page.write(field, "Scaling efficiency", formula, percent, "%", source)
    elif evidence.band is not None:
        page.let("lo", evidence.band.low_percent, "%", "low end of the interconnect's band")
        page.let("hi", evidence.band.high_percent, "%", "high end of the interconnect's band")
        formula = {"low": "lo", "typical": "(lo + hi) / 2", "high": "hi"}[evidence.band.level]
        source = "the interconnect's band (GET /v1/interconnects)"
        page.write(field, "Scaling efficiency", formula, percent, "%", source)
    elif evidence.fitted is not None and evidence.trained is None:
        fit = evidence.fitted.fit
        page.let("c0", fit.c0, "GPU*s/token", "fitted: what more accelerators share out")
        page.let("c1", fit.c1, "s/token", "fitted: what they do not shorten")
        page.let("n0", fit.smallest_gpu_count, "GPU", "smallest measured count")
        law = "c0 + c1 * {0}" if fit.law == "amdahl" else "c0 + c1 * log({0}) / log(2)"
        source = "least squares of relative errors of n / X (Amdahl 1967; log2 n where the batch grows)"
        formula = f"{PERCENT} * ({law.format('n0')}) / ({law.format('n')})"
        page.write(field, "Scaling efficiency", formula, percent, "%", source)
    elif evidence.rates is not None and evidence.rates.measured is None:
        page.let("x", evidence.rates.here, "token/s", "what the step model says of this count")
        page.let("x0", evidence.rates.base, "token/s", "what it says of the count of the utilisation")
        page.let("n0", evidence.rates.base_gpu_count, "GPU", "accelerators of the utilisation")
        formula = f"min({PERCENT} * (x / n) / (x0 / n0), {PERCENT})"
        page.write(field, "Scaling efficiency", formula, percent, "%", "the step model at both counts")
    return page


def hours_page(evidence: Evidence, plan: Plan, hours: Hours, answer: Estimate) -> Page:
    """From ideal hours to the hours that are billed."""
    page, told = Page(), answer.duration
    for symbol, value, unit, meaning in (
        ("n", plan.gpu_count, "GPU", "accelerators"),
        ("e", plan.efficiency_percent, "%", "scaling efficiency"),
        ("v", plan.overhead_percent, "%", "evaluation, ramp-up and hangs, of the productive hours"),
        ("r", plan.buffer_percent, "%", "rework, of the wall clock"),
        ("H", hours.ideal.value, "h", "ideal hours"),
        ("W", hours.without_rework, "h", "wall clock without rework"),
        ("R", hours.rework_hours, "h", "rework"),
        ("S", plan.setup_hours, "h", "from provisioning to the first step"),
        ("T", hours.expected, "h", "expected wall clock"),
    ):
        page.let(symbol, value, unit, meaning)
    _ideal(page, evidence, answer)
    productive = "H / (e / 100)"
    with_overhead = f"{productive} * (1 + v / {PERCENT})" if plan.overhead_percent else productive
    overhead = f"{productive} * v / {PERCENT}"
    source = _CLASSIC if not plan.overhead_percent else f"{_CLASSIC}; and the residual overhead of a bill"
    page.write(
        "duration.wall_clock_hours", "Wall clock without rework", with_overhead, told.wall_clock_hours, "h", source
    )
    page.write(
        "duration.wall_clock_days", "The same in days", f"W / {HOURS_PER_DAY}", told.wall_clock_days, "day", _CLASSIC
    )
    page.write("duration.overhead_hours", "Evaluation, ramp-up and hangs", overhead, hours.overhead.value, "h", source)
    if plan.failures is None:
        source = "classic calculator: a typed percent, which costs time too"
        page.write("duration.rework_hours", "Rework", f"W * r / {PERCENT}", hours.rework_hours, "h", source)
    else:
        parts = []
        for index, (component, part) in enumerate(hours.rework, 1):
            page.let(f"R{index}", part.value, "h", component.removeprefix("rework_").replace("_", " "))
            parts.append(f"R{index}")
        page.write("duration.rework_hours", "Rework", " + ".join(parts), hours.rework_hours, "h", _SUM)
    expected = "W + R + S" if plan.setup_hours else "W + R"
    page.write(
        "duration.expected_wall_clock_hours", "Expected wall clock", expected, told.expected_wall_clock_hours, "h", _SUM
    )
    days = told.expected_wall_clock_days
    page.write("duration.expected_wall_clock_days", "The same in days", f"T / {HOURS_PER_DAY}", days, "day", _SUM)
    total = "classic calculator: TotalGpuHours = NumberOfGpus x WallClockHours"
    page.write("gpu_hours", "GPU-hours without rework", "n * W", answer.gpu_hours, "GPU-hour", total)
    return page


def _ideal(page: Page, evidence: Evidence, answer: Estimate) -> None:
    at, name, result = "duration.ideal_hours", "Ideal hours", answer.duration.ideal_hours
    if evidence.hours is not None:
        page.let("I", evidence.hours, "h", "hours of work, as given")
        formula = "I / n" if evidence.hours_basis == "total" else "I"
        source = "hours of one accelerator in all, shared out" if evidence.hours_basis == "total" else "request"
        page.write(at, name, formula, result, "h", source)
    elif evidence.tokens is not None and answer.performance is not UNSET:
        page.let("D", answer.performance.trained_tokens, "token", "trained tokens")
        page.let("X", answer.performance.tokens_per_second, "token/s", "tokens a second, scaling efficiency included")
        source = "tokens over tokens a second; the efficiency, if there is one, is taken again below"
        page.write(at, name, f"D / X * e / {PERCENT} / 3600", result, "h", source)
