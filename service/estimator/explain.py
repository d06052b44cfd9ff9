"""An estimate to every formula that it used: each with its numbers put in, its result, and where it comes from."""

from decimal import Decimal

from msgspec import UNSET

from service.estimator import bill
from service.estimator.answers import Explanation
from service.estimator.detailed import DetailedRun
from service.estimator.evidence import Evidence
from service.estimator.explain_cost import billed_page, sums_page, terms_page, units_page
from service.estimator.explain_failures import failures_pages
from service.estimator.explain_hours import hours_page, scaling_page
from service.estimator.explain_lines import line_pages
from service.estimator.explain_memory import memory_pages
from service.estimator.explain_model import model_pages
from service.estimator.explain_pace import pace_page, spread_page, utilisation_page
from service.estimator.explain_purchase import (
    break_evens_page,
    commitment_page,
    energy_page,
    owned_page,
    verdict_page,
)
from service.estimator.explain_risk import completion_page, risk_pages
from service.estimator.explain_step import step_pages
from service.estimator.formula import Page
from service.estimator.results import Estimate
from service.estimator.timing import Hours, hours_of
from service.money import exact_arithmetic


def explained(run: DetailedRun, evidence: Evidence, answer: Estimate) -> tuple[Explanation, ...]:
    """In the order in which one follows from another. What the answer leaves out is not explained."""
    with exact_arithmetic():
        hours = hours_of(run.plan)
        billed = bill.billed_gpu_hours(run.plan, hours)
        pages = [
            *_work(run, evidence, answer, float(billed)),
            *_hours(run, evidence, hours, answer),
            *_money(run, evidence, hours, billed, answer),
            *risk_pages(run, hours, answer),
        ]
    return tuple(found for page in pages for found in page.written if _is_there(found, answer))


def _work(run: DetailedRun, evidence: Evidence, answer: Estimate, billed: float) -> list[Page]:
    """What is trained, how fast, and in how much memory."""
    pages: list[Page] = []
    performance, count = answer.performance, int(run.plan.gpu_count)
    if performance is not UNSET:
        pages += model_pages(evidence, performance)
        if evidence.modelled is not None and performance.step is not None:
            pages += step_pages(evidence.modelled, performance.step, count)
        pages += [
            pace_page(evidence, performance, count, float(run.plan.efficiency_percent)),
            utilisation_page(evidence, performance, count, billed, run.billed_utilisation_given),
            spread_page(evidence, performance),
        ]
    if answer.memory is not UNSET and evidence.trained is not None:
        pages += memory_pages(evidence.trained, answer.memory, count, int(run.plan.gpus_per_node))
    return pages


def _hours(run: DetailedRun, evidence: Evidence, hours: Hours, answer: Estimate) -> list[Page]:
    pages = [scaling_page(evidence, run.plan)]
    if run.plan.failures is not None and run.failures is not None and answer.reliability is not UNSET:
        assumed = {said.field: float(said.value) for said in run.assumptions if isinstance(said.value, int | float)}
        failures, told = run.plan.failures, answer.reliability
        pages += failures_pages(evidence, run.plan, failures, hours, told, assumed, run.failures)
        pages.append(completion_page(failures, hours, told))
    return [*pages, hours_page(evidence, run.plan, hours, answer), billed_page(run.plan, hours, answer)]


def _money(run: DetailedRun, evidence: Evidence, hours: Hours, billed: Decimal, answer: Estimate) -> list[Page]:
    plan, currency = run.plan, run.currency
    pages = [
        *line_pages(evidence, plan, hours, answer),
        terms_page(plan, answer),
        sums_page(plan, hours, answer, run.waiting_percent, explicit=run.scaling_is_explicit),
        units_page(plan, hours, answer),
    ]
    if plan.commitment is not None and answer.commitment is not UNSET:
        pages.append(commitment_page(plan, plan.commitment, hours, answer.commitment, currency))
    if evidence.bought is not None and answer.owned is not UNSET:
        pages.append(owned_page(evidence.bought, billed, currency))
    if run.energy is not None and answer.energy is not UNSET:
        pages.append(energy_page(run.energy, answer.energy, billed))
    if run.alternatives is not None and answer.break_evens is not UNSET:
        pages.append(break_evens_page(run, run.alternatives, answer.break_evens, hours, billed))
    if answer.verdict is not None and run.budget is not None:
        pages.append(verdict_page(answer.verdict, run.budget, run.start_at, hours, answer))
    return pages


def _is_there(found: Explanation, answer: Estimate) -> bool:
    """Whether the answer has what it explains: one section may be left out of an answer that another has."""
    if found.field is None or "[" in found.field:
        return True
    value: object = answer
    for part in found.field.split("."):
        value = getattr(value, part, UNSET)
    return value is not UNSET
