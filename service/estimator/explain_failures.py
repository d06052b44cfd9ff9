"""The formulas of failures: how often, the best checkpoint interval, and the hours lost to each cause."""

import math

from service.estimator.answers import Reliability
from service.estimator.evidence import Evidence
from service.estimator.failures import FailureFacts
from service.estimator.formula import Page
from service.estimator.plan import Failures, Plan
from service.estimator.reliability import (
    BURN_IN_FACTOR,
    BURN_IN_HOURS,
    LARGEST_EXPONENT,
    job_mttf_hours,
    optimal_interval_hours,
)
from service.estimator.rework import joint_stops
from service.estimator.timing import Hours, interruptions_per_hour, stops_of
from service.units import HOURS_PER_DAY, PERCENT

_NODES = "independent nodes (Kokolis et al. 2024, arXiv 2410.21680)"
_BURN_IN = "3 to 10 % of a new batch fails early (stas00/ml-engineering, training/fault-tolerance); assumed"
_DALY = "Daly 2006, FGCS 22:303, eq. 20: failures while checkpointing and restarting too"
_OPTIMUM = "the interval that minimises Daly's mean (Daly 2006, FGCS 22:303, eq. 21; Lambert's W)"
_RENEWAL = "nodes that fell back are not interrupted meanwhile (alternating renewal process)"
_SHARES = "divided by rate x (half a segment + its own restart)"
_WAIT = "those that fall back to on-demand do not wait for spot capacity"
_SEGMENT = "(tau + delta) / 2"


def failures_pages(
    evidence: Evidence,
    plan: Plan,
    failures: Failures,
    hours: Hours,
    told: Reliability,
    assumed: dict[str, float],
    facts: FailureFacts,
) -> tuple[Page, ...]:
    """From the rate of a node to the hours that each cause takes."""
    return (
        _rates(plan, failures, hours, told, assumed),
        _checkpoints(evidence, failures, hours, told, facts),
        _hours_lost(failures, hours, told),
        _ratios(hours, told),
    )


def _rates(plan: Plan, failures: Failures, hours: Hours, told: Reliability, assumed: dict[str, float]) -> Page:
    page = Page()
    nodes = math.ceil(plan.gpu_count / plan.gpus_per_node)
    page.let("n", plan.gpu_count, "GPU", "accelerators")
    page.let("g", plan.gpus_per_node, "GPU", "accelerators of a node")
    page.let("k", nodes, "node", "nodes")
    page.let("W", hours.without_rework, "h", "productive hours and their overhead")
    page.let("i", BURN_IN_FACTOR, "1", "times as many failures in a new cluster's first days")
    page.let("B", BURN_IN_HOURS, "h", "how long they last")
    page.write(None, "Nodes", "ceil(n / g)", nodes, "node", "by definition")
    at = "rework.hardware."
    factor = assumed.get(f"{at}burn_in_factor")
    if factor is not None:
        field, name = f"assumptions[{at}burn_in_factor].value", "Failures of a new cluster"
        page.write(field, name, "1 + (i - 1) * min(B, W) / W", factor, "1", _BURN_IN)
        page.let("b", factor, "1", "as many failures as in a settled cluster")
    page.let("m", assumed.get(f"{at}node_mtbf_hours", 0.0), "h", "mean time between failures of a node")
    page.let("r", assumed.get(f"{at}failures_per_node_day", 0.0), "1/day", "failures of a node in a day")
    page.let("s", assumed.get(f"{at}software_failures_per_node_day", 0.0), "1/day", "of those by software and users")
    hardware = "k / m" if f"{at}node_mtbf_hours" in assumed else f"k * r / {HOURS_PER_DAY}"
    rate = f"({hardware} + k * s / {HOURS_PER_DAY})"
    page.write(
        None,
        "Failures of the job in an hour",
        rate if factor is None else f"{rate} * b",
        failures.per_hour,
        "1/h",
        _NODES,
    )
    page.let("lam", failures.per_hour, "1/h", "failures of the job")
    total = "lam"
    if failures.on_spot:
        page.let(
            "q", assumed.get("rework.spot.interruptions_per_node_hour", 0.0), "1/h", "interruptions of a spot node"
        )
        page.write(None, "Interruptions of the job in an hour", "k * q", failures.spot_per_hour, "1/h", _NODES)
        page.let("spot", failures.spot_per_hour, "1/h", "interruptions of the job")
        _while_on_spot(page, failures, hours)
        total = "(lam + still)"
    if told.mean_time_to_failure_hours is not None:
        result = told.mean_time_to_failure_hours
        field, name = "reliability.mean_time_to_failure_hours", "Mean time to failure of the job"
        page.write(field, name, f"1 / {total}", result, "h", "rates of competing causes add up")
    return page


def _while_on_spot(page: Page, failures: Failures, hours: Hours) -> None:
    """The rate of the nodes that have not fallen back."""
    page.let("f", failures.fallback_percent, "%", "interruptions that fall back to on-demand nodes")
    page.let("A", failures.spot_away_hours, "h", "how long spot capacity is away")
    kept = "min(A, W) * (1 - min(A, W) / (2 * W))"
    formula = f"spot / (1 + spot / k * f / {PERCENT} * {kept})" if failures.fallback_percent else "spot"
    rate = interruptions_per_hour(failures, float(hours.without_rework))
    page.let("still", rate, "1/h", "interruptions of the nodes that are on spot capacity")
    page.write(None, "Interruptions in an hour of the nodes still on spot", formula, rate, "1/h", _RENEWAL)


def _checkpoints(evidence: Evidence, failures: Failures, hours: Hours, told: Reliability, facts: FailureFacts) -> Page:
    """Their time, the interval that costs least, and the one that is used."""
    page = Page()
    page.let("G", evidence.checkpoint_size_gb or 0.0, "GB", "size of a checkpoint")
    page.let("b", evidence.checkpoint_gb_per_second or 0.0, "GB/s", "speed at which it is written")
    if evidence.checkpoint_gb_per_second is not None and evidence.checkpoint_size_gb is not None:
        field, name = "reliability.checkpoint_seconds", "Time that a checkpoint takes"
        page.write(field, name, "G / b", told.checkpoint_seconds, "s", "size over bandwidth; blocking")
    work = hours.without_rework
    page.let("W", work, "h", "productive hours and their overhead")
    rate = failures.per_hour + interruptions_per_hour(failures, float(work))
    page.let("delta", failures.checkpoint_hours, "h", "time of a checkpoint")
    step = min(1e-3 if evidence.step_hours is None else evidence.step_hours, float(work))
    page.let("t", step, "h", "a step, or 3.6 seconds where nobody knows")
    if facts.optimal_interval_hours is not None and told.optimal_interval_minutes is not None and rate > 0:
        mttf = float(job_mttf_hours(rate))
        page.let("M", mttf, "h", "mean time to failure of the job")
        best = float(optimal_interval_hours(failures.checkpoint_hours, mttf))
        formula = "M * (1 + lambert_w0(-exp(-(1 + delta / M))))"
        page.write(None, "Work between checkpoints that costs least", formula, best, "h", _OPTIMUM)
        page.let("I", best, "h", "work between checkpoints that costs least")
        page.write(
            "reliability.optimal_interval_minutes",
            "The same in whole steps, within the run",
            "60 * min(max(ceil(I / t - 0.5), 1) * t, W)",
            told.optimal_interval_minutes,
            "min",
            _OPTIMUM,
        )
        page.let("best", told.optimal_interval_minutes, "min", "the interval that costs least, in whole steps")
    field, name = "reliability.checkpoint_interval_minutes", "Work between checkpoints"
    page.let("given", evidence.checkpoint_interval_minutes or 0.0, "min", "the interval of the request")
    formula, source = "60 * W", "nothing fails: one at the end"
    if evidence.checkpoint_interval_minutes is not None:
        formula, source = "min(given, 60 * W)", "request, within the run"
    elif told.optimal_interval_minutes is not None:
        formula, source = "best", _OPTIMUM
    page.write(field, name, formula, told.checkpoint_interval_minutes, "min", source)
    return page


def _hours_lost(failures: Failures, hours: Hours, told: Reliability) -> Page:
    """Daly's mean, divided among the causes."""
    page = Page()
    work = float(hours.without_rework)
    hardware, spot = stops_of(failures, work)
    both = joint_stops(hardware, spot)
    lost = {component: value.value for component, value in hours.rework}
    running = hours.without_rework + sum(part for at, part in lost.items() if at != "rework_spot_wait")
    for symbol, value, unit, meaning in (
        ("W", hours.without_rework, "h", "productive hours and their overhead"),
        ("i", failures.instability_percent, "%", "work done again after loss spikes"),
        ("p", failures.people_percent, "%", "work lost to bad settings"),
        ("tau", failures.interval_hours, "h", "work between checkpoints"),
        ("delta", failures.checkpoint_hours, "h", "time of a checkpoint"),
        ("lam", failures.per_hour, "1/h", "failures of the job"),
        ("R1", failures.restart_hours, "h", "restart after a failure"),
        ("spot", spot.per_hour, "1/h", "interruptions of the nodes on spot"),
        ("R2", failures.spot_restart_hours, "h", "restart after an interruption"),
        ("w", failures.spot_wait_hours, "h", "wait for capacity"),
        ("f", failures.fallback_percent, "%", "interruptions that fall back to on-demand nodes"),
        ("C", lost["rework_checkpoints"], "h", "writing checkpoints"),
        ("T", running, "h", "work, checkpoints and what failures cost"),
    ):
        page.let(symbol, value, unit, meaning)
    run = f"W * (1 + (i + p) / {PERCENT})"
    causes: dict[str, float] = {cause.cause: cause.hours for cause in told.causes}
    _cause(page, "checkpoints", "Writing checkpoints", f"{run} / tau * delta", causes, "one after each interval")
    if both.per_hour > 0:
        mttf = float(job_mttf_hours(both.per_hour))
        page.let("M", mttf, "h", "mean time to failure")
        page.let("R", both.restart_hours, "h", "mean restart")
        if failures.on_spot:
            mean = "(lam * R1 + spot * R2) / (lam + spot)"
            page.write(None, "Mean restart", mean, both.restart_hours, "h", "by rate (competing exponentials)")
        page.write(
            None, "Expected hours with failures", _daly(run, failures, both.restart_hours, mttf), running, "h", _DALY
        )
        of_hardware, of_spot = f"lam * ({_SEGMENT} + R1)", f"spot * ({_SEGMENT} + R2)"
        part = f"(T - {run} - C)"
        both_parts = f"({of_hardware} + {of_spot})"
        shared = failures.on_spot and spot.per_hour > 0
        first = f"{part} * {of_hardware} / {both_parts}" if shared else part
        _cause(page, "hardware", "Lost to failures", first, causes, f"{_DALY}; {_SHARES}")
        if shared:
            second = f"{part} * {of_spot} / {both_parts}"
            _cause(page, "spot", "Lost to spot interruptions", second, causes, f"{_DALY}; {_SHARES}")
            wait = f"spot * T * w * ({PERCENT} - f) / {PERCENT}"
            _cause(page, "spot_wait", "Waiting for spot capacity", wait, causes, _WAIT)
    _cause(page, "instability", "Loss spikes and roll-backs", f"W * i / {PERCENT}", causes, "a percent of the work")
    _cause(page, "people", "Bad settings and tuning crashes", f"W * p / {PERCENT}", causes, "a percent of the work")
    source = "rate times the hours run"
    page.write("reliability.expected_failures", "Failures", "lam * T", told.expected_failures, "1", source)
    if failures.on_spot:
        result = told.expected_spot_interruptions
        page.write("reliability.expected_spot_interruptions", "Spot interruptions", "spot * T", result, "1", source)
    return page


def _daly(run: str, failures: Failures, restart_hours: float, mttf_hours: float) -> str:
    """Daly's mean; exponents are held to a bound that no run of this world reaches."""
    segment = "(tau + delta) / M"
    longest = max(failures.interval_hours + failures.checkpoint_hours, restart_hours)
    if longest / mttf_hours <= LARGEST_EXPONENT:
        return f"{run} / tau * M * exp(R / M) * (exp({segment}) - 1)"
    bound = f"{LARGEST_EXPONENT:g}"
    x = f"min({segment}, {bound})"
    return f"{run} / tau * (tau + delta) * exp(min(R / M, {bound})) * (exp({x}) - 1) / {x}"


def _cause(page: Page, cause: str, name: str, formula: str, hours: dict[str, float], source: str) -> None:
    page.write(f"reliability.causes[{cause}].hours", name, formula, hours[cause], "h", source)


def _ratios(hours: Hours, told: Reliability) -> Page:
    page = Page()
    page.let("W", hours.without_rework, "h", "productive hours and their overhead")
    page.let("R", hours.rework_hours, "h", "rework of every cause")
    for cause in told.causes:
        page.let("h", cause.hours, "h", "lost to this cause")
        field, name = f"reliability.causes[{cause.cause}].percent", f"{cause.cause.replace('_', ' ')}, of the work"
        page.write(field, name, f"{PERCENT} * h / W", cause.percent, "%", "by definition")
    page.write(
        "reliability.effective_training_time_percent",
        "Effective training time ratio",
        f"{PERCENT} * W / (W + R)",
        told.effective_training_time_percent,
        "%",
        "productive hours by hours billed (Kokolis et al. 2024, arXiv 2410.21680)",
    )
    page.write(
        "reliability.equivalent_rework_percent",
        "The typed percent with the same hours",
        f"{PERCENT} * R / W",
        told.equivalent_rework_percent,
        "%",
        "classic calculator's rework percent",
    )
    return page
