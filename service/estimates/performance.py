"""What an answer says of how fast the work is: throughput and its spread, FLOPs, utilisation, layout and step."""

import math

from msgspec import UNSET, structs

from service.errors import BrokenRule
from service.estimates.memory import Site
from service.estimates.pace import Pace, attention_of, hardware_over_model
from service.estimates.record import Record
from service.estimates.stepwise import Modelled, waiting_percent
from service.estimates.subject import Subject, compute_optimal_of
from service.estimates.work_schemas import TransformerWork
from service.estimator.answers import Performance, SpreadOfRate, StepTime, UsedLayout
from service.estimator.parallelism import data_parallel
from service.estimator.utilisation import quantile_factors
from service.money import fifteen_digits
from service.units import PERCENT

_TERA = 1e12
_ROUNDING = 1 + 1e-9


def performance_of_pace(pace: Pace, gpu_count: int, tokens: float, efficiency_percent: float) -> Performance:
    """A pace without FLOPs."""
    low, high = quantile_factors(pace.sigma_ln)
    rate = pace.tokens_per_second * efficiency_percent / PERCENT
    return Performance(
        method=pace.method,
        regimes=pace.regimes,
        spread=SpreadOfRate(
            fifteen_digits(pace.sigma_ln), fifteen_digits(PERCENT * low), fifteen_digits(PERCENT * high), pace.source
        ),
        precision=None,
        peak_tflops_per_gpu=None,
        parameters=None,
        active_parameters=None,
        trained_tokens=fifteen_digits(tokens),
        flops_basis=None,
        attention=None,
        flops_per_token=None,
        model_flops=None,
        tokens_per_second=fifteen_digits(rate),
        tokens_per_second_per_gpu=fifteen_digits(rate / gpu_count),
        achieved_tflops_per_gpu=None,
        step_mfu_percent=None,
        step_hfu_percent=None,
        billed_mfu_percent=None,
        layout=None,
        step=None,
        compute_optimal=None,
    )


def performance_of_transformer(
    record: Record,
    work: TransformerWork,
    subject: Subject,
    site: Site,
    pace: Pace,
    efficiency_percent: float,
    billed: bool,
) -> Performance:
    """And with FLOPs, utilisation, layout and step."""
    attention = attention_of(work)
    flops_per_token = subject.flops_per_token(attention)
    plain = performance_of_pace(pace, site.gpu_count, subject.trained_tokens, efficiency_percent)
    peak = site.chip.peak_flops_per_second
    achieved = plain.tokens_per_second_per_gpu * flops_per_token
    hardware = hardware_over_model(work, subject, pace.modelled)
    mfu_percent, hfu_percent = _utilisation(work, pace, efficiency_percent, PERCENT * achieved / peak, hardware)
    if pace.method == "mfu_given":
        achieved = mfu_percent * peak / PERCENT
    if mfu_percent * (hardware or 1.0) > PERCENT * _ROUNDING:
        raise _more_than_peak(work, site, pace, achieved / _TERA, mfu_percent, hardware)
    return structs.replace(
        plain,
        precision=work.precision,
        peak_tflops_per_gpu=fifteen_digits(peak / _TERA),
        parameters=fifteen_digits(subject.parameters),
        active_parameters=fifteen_digits(subject.active_parameters),
        flops_basis=subject.flops_basis,
        attention="none" if subject.shape is None else attention,
        flops_per_token=fifteen_digits(flops_per_token),
        model_flops=fifteen_digits(flops_per_token * subject.trained_tokens),
        achieved_tflops_per_gpu=fifteen_digits(achieved / _TERA),
        step_mfu_percent=None if billed else fifteen_digits(mfu_percent),
        step_hfu_percent=None if billed or hfu_percent is None else fifteen_digits(hfu_percent),
        billed_mfu_percent=fifteen_digits(mfu_percent) if billed else None,
        layout=None if pace.modelled is None else _used_layout(pace.modelled, site.gpu_count),
        step=None if pace.modelled is None else _step_time(pace.modelled),
        compute_optimal=compute_optimal_of(record, subject),
    )


def _utilisation(
    work: TransformerWork, pace: Pace, efficiency_percent: float, mfu_percent: float, hardware: float | None
) -> tuple[float, float | None]:
    """MFU and HFU; what was given, and only computed back from the throughput, keeps its last digits."""
    if pace.method == "mfu_given" and work.mfu_percent is not UNSET:
        mfu_percent = _as_given(work.mfu_percent * efficiency_percent / PERCENT, mfu_percent)
    hfu_percent = None if hardware is None else mfu_percent * hardware
    if pace.method == "hfu_given" and work.hfu_percent is not UNSET:
        given = work.hfu_percent * efficiency_percent / PERCENT
        hfu_percent = given if hfu_percent is None else _as_given(given, hfu_percent)
    return mfu_percent, hfu_percent


def _as_given(given: float, computed: float) -> float:
    """The one that was given, unless the other is a different figure: that of a profile is carried to this count."""
    return given if math.isclose(given, computed, rel_tol=1e-9) else computed


def _more_than_peak(
    work: TransformerWork, site: Site, pace: Pace, tflops: float, mfu_percent: float, hardware: float | None
) -> BrokenRule:
    """That no accelerator does so much, what is recomputed included; what would work is said of what was sent."""
    at = {
        "mfu_given": "/work/mfu_percent",
        "hfu_given": "/work/hfu_percent",
        "measured_points": "/scaling/points",
        "one_point": "/scaling/points",
    }.get(pace.method, "/work")
    peak, again = site.chip.peak_flops_per_second / _TERA, hardware or 1.0
    most = PERCENT / again
    if pace.method == "mfu_given" and work.mfu_percent is not UNSET:
        most *= work.mfu_percent / mfu_percent  # that of a profile is another at this count
    least = f"at most {peak / again:,.4g} TFLOPS a GPU, an MFU of {most:.4g} %, would work"
    told = f"{tflops * again:,.4g} TFLOPS a GPU, what is recomputed included, are more than the {peak:g} of "
    return BrokenRule.at(at, f"{told}{site.chip.name} in {work.precision}; {least}")


def _used_layout(modelled: Modelled, gpu_count: int) -> UsedLayout:
    layout = modelled.layout
    return UsedLayout(
        given=modelled.given,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        interleave=layout.interleave,
        context=layout.context,
        data=data_parallel(layout, gpu_count),
        microbatch=layout.microbatch,
        global_batch_sequences=modelled.workload.global_batch_sequences,
        sharding=layout.sharding,
        recompute=layout.recompute,
    )


def _step_time(modelled: Modelled) -> StepTime:
    seconds = {field: fifteen_digits(value) for field, value in structs.asdict(modelled.step).items()}
    return StepTime(**seconds, waiting_percent=fifteen_digits(waiting_percent(modelled)))
