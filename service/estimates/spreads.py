"""What is drawn of a request: the spreads of what was predicted or a default, and over them those that it states."""

import math

from msgspec import UNSET

from service.estimates.record import Record
from service.estimates.risk_schemas import CertainSpread, LognormalSpread, Spread, Uncertainty
from service.estimates.schemas import CommunicationScaling, EstimateRequest, ModelScaling
from service.estimates.work import WorkFacts
from service.estimates.work_schemas import ThroughputWork, TransformerWork
from service.estimator import risk_advice
from service.estimator.constants import SIGMA_LN_LAYOUT_GIVEN
from service.estimator.inputs import DEFAULT_EFFICIENCY_PERCENT
from service.estimator.plan import Plan
from service.estimator.scaling import sigma_ln_of_law
from service.estimator.uncertainty import InputSpread, Simulation, UncertainInput, can_fail, inputs_of
from service.estimator.utilisation import regimes_of, spread
from service.units import PERCENT

# The band that the classic calculator's guide calls typical, about its default of 80 %.
_TYPICAL_LOW_PERCENT, _TYPICAL_HIGH_PERCENT = 75.0, 90.0
# Published series lose 3 to 13 % of the rate of one accelerator for each tenfold of accelerators.
_LEFT_OF_A_TENFOLD = 0.87
# Defaults without a published spread.
_CERTAIN_DEFAULTS = (
    "work.hours",
    "rework.rework_percent",
    "rework.instability_percent",
    "rework.people_percent",
    "rework.spot.wait_hours",
    "price.life_years",
    "price.utilisation_percent",
    "energy.server_power_ratio",
    "energy.load_percent",
    "energy.pue",
    "storage.amount",
    "egress.amount",
)
_UNSETTLED_AT_ANOTHER_COUNT = frozenset({"accelerator_unvalidated", "slow_network", "long_sequence"})


def simulation_of(record: Record, request: EstimateRequest, work: WorkFacts, plan: Plan) -> Simulation | None:
    """The draws that a request asks for, of inputs that its run has; None where it asks for none."""
    asked = request.uncertainty
    if asked is UNSET:
        if request.budget is None or request.budget.confidence_percent is UNSET:
            return None
        asked = Uncertainty()
    _of_scaling(record, request, work, plan)
    spreads, had = dict(record.spreads), inputs_of(plan)
    unused = []
    for name in asked.spreads.__struct_fields__:
        given = getattr(asked.spreads, name)
        if given is UNSET:
            continue
        made = _made(name, given)  # type: ignore[arg-type]
        spreads.pop(name, None)  # type: ignore[call-overload]
        if made is not None:
            spreads[made.input] = made
            unused += [name] if name not in had else []
    if unused:
        record.note(risk_advice.unused_spreads(tuple(unused), tuple(sorted(had))))
    spreads = {name: made for name, made in spreads.items() if name in had}
    if not spreads and not can_fail(plan):
        record.note(risk_advice.no_spread())
    defaults = {said.field for said in record.assumptions if said.status == "default"}
    certain = tuple(field for field in _CERTAIN_DEFAULTS if field in defaults)
    if certain:
        record.note(risk_advice.certain_defaults(certain))
    return Simulation(asked.samples, asked.seed, tuple(spreads.values()))


def _made(name: UncertainInput, given: Spread) -> InputSpread | None:
    if isinstance(given, CertainSpread):
        return None
    if isinstance(given, LognormalSpread):
        return InputSpread(input=name, sigma=given.sigma, source="request") if given.sigma else None
    low, high = given.low_percent / PERCENT, given.high_percent / PERCENT
    return InputSpread(input=name, low=low, high=high, source="request") if low < high else None


def _of_scaling(record: Record, request: EstimateRequest, work: WorkFacts, plan: Plan) -> None:
    """The efficiency where nobody measured it at this count; bands and fits have had their spread already."""
    scaling, asked, gpu_count = request.scaling, request.work, int(plan.gpu_count)
    if isinstance(scaling, CommunicationScaling):
        base = gpu_count if scaling.gpu_count is UNSET else scaling.gpu_count
        if isinstance(asked, ThroughputWork) and asked.measured_gpu_count not in (UNSET, gpu_count):
            base = asked.measured_gpu_count
        sigma = sigma_ln_of_law("amdahl" if scaling.batch == "fixed" else "log2", gpu_count / base)
        told = f"carried from {base} to {gpu_count} GPUs; published series at up to 8 times, by the logarithm of that"
        record.lognormal("scaling", sigma, told)
    elif (
        isinstance(scaling, ModelScaling) and isinstance(asked, TransformerWork) and scaling.base_gpu_count is not UNSET
    ):
        if scaling.base_gpu_count != gpu_count:
            told = f"the step model carried from {scaling.base_gpu_count} to {gpu_count} GPUs: published series"
            record.lognormal("scaling", _sigma_of_step_model(asked, work, plan), told)
    elif scaling is UNSET and isinstance(asked, ThroughputWork):
        base = gpu_count if asked.measured_gpu_count is UNSET else asked.measured_gpu_count
        _linear(record, base, gpu_count)
    elif scaling is UNSET and not isinstance(asked, TransformerWork):
        low, high = (edge / DEFAULT_EFFICIENCY_PERCENT for edge in (_TYPICAL_LOW_PERCENT, _TYPICAL_HIGH_PERCENT))
        record.triangular("scaling", low, high, "75 to 90 % are typical by the classic calculator's guide")


def _linear(record: Record, base: int, gpu_count: int) -> None:
    """A rate that was taken to stay. Fewer accelerators lose less: then it is the rate that is better, for no
    efficiency is above 100 %."""
    left = _LEFT_OF_A_TENFOLD ** abs(math.log10(gpu_count / base))
    told = f"measured on {base} GPUs; published series lose 3 to 13 % per tenfold"
    if gpu_count > base:
        record.triangular("scaling", left, 1.0, told)
    else:
        record.triangular("throughput", 1.0, 1 / left, told)


def _sigma_of_step_model(asked: TransformerWork, work: WorkFacts, plan: Plan) -> float:
    """As of one measured point: published series kept one layout; a search may change it between the counts."""
    chip = work.chip
    exchanges = chip is not None and chip.needs_network(int(plan.gpu_count), int(plan.gpus_per_node))
    regimes = regimes_of(
        kernels=None if chip is None else chip.kernels,
        precision=asked.precision,
        network_gbps=chip.network_gbps if chip is not None and exchanges else None,
        sequence_tokens=None if asked.sequence_length is UNSET else asked.sequence_length,
    )
    own = None if asked.layout is not UNSET else SIGMA_LN_LAYOUT_GIVEN
    unsettled = tuple(regime for regime in regimes if regime in _UNSETTLED_AT_ANOTHER_COUNT)
    return spread("one_point", unsettled, own)
