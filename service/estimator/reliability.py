"""Failures to hours: how often a run stops, what each stop costs it, and which cause the hours belong to.

Floats and NumPy arrays alike. M, the mean time to failure of the whole job, may be infinite: nothing fails then.
Exponents are held to 100: a run that needs 1e43 times its work never ends, and its figures stay finite.
"""

from types import MappingProxyType

import numpy as np
from msgspec import Struct

from service.estimator.cost import Number
from service.estimator.elementary import exp, expm1, least, log1p, most, reciprocal, root, where, whole
from service.units import HOURS_PER_DAY, PERCENT

LARGEST_EXPONENT = 100.0

# Assumption: 1/(72 h) for a job of 128 nodes, growing with the job. Kokolis et al. 2024 (arXiv 2410.21680) measured
# 7.9 h between failures at 128 nodes where the nodes' own rate explains 28.8 h.
SOFTWARE_HOURS_AT_REFERENCE = 72.0
SOFTWARE_REFERENCE_NODES = 128

# Lognormal spread of a rate nobody measured: about 5 to 8 per 1,000 node-days it covers RSC-2 (2.34) and RSC-1 (6.50),
# the 23.7 of Kokolis' 1,024-GPU jobs, and 40 from one H100 report.
RATE_SPREAD_SIGMA = 0.9

# 3 to 10 % of a new batch fails early (stas00/ml-engineering, training/fault-tolerance): in nodes of 8 and over 30 days
# that is 8 to 27 per 1,000 node-days, about three times the settled rate.
BURN_IN_FACTOR = 3.0
BURN_IN_HOURS = 720.0

# Interruptions per node-hour; assumption, range .002 to .2. Measured only on V100: .06 to .74 in preemption traces
# (skypilot-org/spot-traces).
SPOT_INTERRUPTIONS_PER_NODE_HOUR = 0.02

# Assumptions, in percent of productive work. PaLM (arXiv 2204.02311) rewound about 20 times by some 100 steps, under
# 1 % of them. SmolLM3 (Smol Training Playbook) began again after 46,080 of 276,480 GPU-hours; most runs never do.
INSTABILITY_PERCENT = 1.0
PEOPLE_PERCENT = 2.0


class Preset(Struct, frozen=True):
    """How a kind of operation fails and recovers. `software_failures_per_node_day` is what the rate leaves out."""

    failures_per_node_day: float
    software_failures_per_node_day: float
    restart_hours: float
    checkpoint_seconds: float
    source: str


PRESETS = MappingProxyType(
    {
        "hyperscale_automated": Preset(
            466 / (54 * 2048),
            0.0,
            5 / 60,
            20.0,
            "Llama 3 (arXiv 2407.21783, 3.3.4): 466 interruptions, planned and software ones included, in 54 days of "
            "2,048 nodes, over 90 % effective; restart and checkpoint times are those that give 91 %",
        ),
        "on_call": Preset(
            5e-3,
            HOURS_PER_DAY / SOFTWARE_HOURS_AT_REFERENCE / SOFTWARE_REFERENCE_NODES,
            1.0,
            60.0,
            "Between RSC-1 and RSC-2 (Kokolis et al. 2024, arXiv 2410.21680); an hour to wake somebody, as at BLOOM "
            "(bigscience tr11-176B chronicles); software failures apart, an assumption",
        ),
        "no_spares": Preset(
            105 / (57 * 124),
            0.0,
            4.5,
            60.0,
            "OPT-175B (facebookresearch/metaseq chronicles): 105 restarts of every cause in 57 days of 124 nodes, "
            "5.4 h lost each, lost work included; manual recovery 3 to 6 h",
        ),
    }
)


def hardware_failures_per_hour(node_count: Number, failures_per_node_day: Number) -> Number:
    """Failures of a job by its nodes' rate (independent nodes; Kokolis et al. 2024)."""
    return node_count * failures_per_node_day / HOURS_PER_DAY


def mtbf_failures_per_hour(node_count: Number, node_mtbf_hours: Number) -> Number:
    """Failures of a job by the mean time between failures of one of its nodes."""
    return node_count / node_mtbf_hours


def software_failures_per_hour(node_count: Number, hours_at_reference: Number = SOFTWARE_HOURS_AT_REFERENCE) -> Number:
    """Failures by software and users, growing with the job (in Kokolis et al. 2024 nearly linear, 1 to 128 nodes)."""
    return node_count / (SOFTWARE_REFERENCE_NODES * hours_at_reference)


def spot_interruptions_per_hour(node_count: Number, interruptions_per_node_hour: Number) -> Number:
    """Interruptions of a job by its nodes' hazard (independent nodes; in truth they come in groups)."""
    return node_count * interruptions_per_node_hour


def burn_in_factor(run_hours: Number, factor: Number = BURN_IN_FACTOR, burn_in_hours: Number = BURN_IN_HOURS) -> Number:
    """What a new cluster's rate is multiplied by, on average over a run from its first day (see BURN_IN_FACTOR)."""
    return 1 + (factor - 1) * least(burn_in_hours, run_hours) / run_hours


def job_mttf_hours(failures_per_hour: Number) -> Number:
    """Mean time to failure of the job, M; infinite without failures."""
    return reciprocal(failures_per_hour)


def checkpoint_seconds(size_bytes: Number, bytes_per_second: Number) -> Number:
    """Blocking time of a checkpoint written at the storage's bandwidth."""
    return size_bytes / bytes_per_second


def exponential_ratio(x: Number) -> Number:
    """(e^x - 1) / x, 1 at 0: mean of e^u for u even over 0 to x."""
    divisor = where(x == 0, 1.0, x)
    return where(x == 0, 1.0, expm1(divisor) / divisor)


def young_interval_hours(checkpoint_hours: Number, mttf_hours: Number) -> Number:
    """Work between checkpoints, first order (Young 1974, CACM 17:530)."""
    return np.sqrt(2 * checkpoint_hours * mttf_hours)


def daly_interval_hours(checkpoint_hours: Number, mttf_hours: Number) -> Number:
    """Work between checkpoints, higher order (Daly 2006, FGCS 22:303, eq. 37)."""
    x = checkpoint_hours / (2 * mttf_hours)
    near = np.sqrt(2 * checkpoint_hours * mttf_hours) * (1 + np.sqrt(x) / 3 + x / 9) - checkpoint_hours
    return np.where(x < 1, near, mttf_hours)[()]


def optimal_interval_hours(checkpoint_hours: Number, mttf_hours: Number) -> Number:
    """Work between checkpoints that minimises Daly's mean: M (1 + W0(-e^-(1+d))), d = checkpoint/M (Daly 2006 eq. 21).

    With W0 = -e^y the equation is y - (e^y - 1) + d = 0, increasing and concave for y < 0, so Newton's steps from its
    left only ever climb. They start at W0's expansion about its branch point (Corless et al. 1996, eq. 4.22).
    """
    d = checkpoint_hours / mttf_hours
    p = root(-2 * expm1(-d))
    near = log1p(-least(p - p * p / 3 + 11 / 72 * p**3, 0.9))
    y = least(where(d < 0.5, near, -1 - d), -1e-300)  # below 0, where the slope is 0
    for _ in range(5):
        slope = expm1(y)
        y = y + (y - slope + d) / slope
    return -mttf_hours * expm1(y)


def clamped_interval_hours(interval_hours: Number, step_hours: Number, work_hours: Number) -> Number:
    """The nearest whole number of steps, at least one, and no more than the run has."""
    return least(most(whole(interval_hours / step_hours), 1.0) * step_hours, work_hours)


def failure_factor(segment_hours: Number, restart_hours: Number, mttf_hours: Number) -> Number:
    """What failures, while checkpointing and restarting too, multiply a segment by on average (Daly 2006, eq. 20)."""
    x = least(segment_hours / mttf_hours, LARGEST_EXPONENT)
    return exp(least(restart_hours / mttf_hours, LARGEST_EXPONENT)) * exponential_ratio(x)


def expected_hours(
    work_hours: Number, interval_hours: Number, checkpoint_hours: Number, restart_hours: Number, mttf_hours: Number
) -> Number:
    """Mean completion time: (W/tau) M e^(R/M) (e^((tau+delta)/M) - 1) (Daly 2006, FGCS 22:303, eq. 20)."""
    segment_hours = interval_hours + checkpoint_hours
    return work_hours / interval_hours * segment_hours * failure_factor(segment_hours, restart_hours, mttf_hours)


def restart_safe_expected_hours(
    work_hours: Number, interval_hours: Number, checkpoint_hours: Number, restart_hours: Number, mttf_hours: Number
) -> Number:
    """Mean completion time where nothing fails while restarting: (M + R) for M e^(R/M) (Daly 2006)."""
    safe_hours = expected_hours(work_hours, interval_hours, checkpoint_hours, 0.0, mttf_hours)
    return safe_hours * (1 + restart_hours / mttf_hours)


def first_order_expected_hours(
    work_hours: Number, interval_hours: Number, checkpoint_hours: Number, restart_hours: Number, mttf_hours: Number
) -> Number:
    """Mean completion time if every failure costs half a segment and a restart (Young 1974); else infinite."""
    lost_share = ((interval_hours + checkpoint_hours) / 2 + restart_hours) / mttf_hours
    with np.errstate(divide="ignore"):
        return np.divide(work_hours * (1 + checkpoint_hours / interval_hours), np.maximum(1 - lost_share, 0.0))


def effective_time_ratio(work_hours: Number, expected_hours: Number) -> Number:
    """Effective training time ratio: productive hours by hours billed (Kokolis et al. 2024)."""
    return work_hours / expected_hours


def kokolis_effective_time_ratio(
    failures_per_hour: Number, startup_hours: Number, interval_hours: Number, checkpoint_hours: Number
) -> Number:
    """Effective training time ratio in closed form, first order (Kokolis et al. 2024, arXiv 2410.21680)."""
    return (1 - failures_per_hour * (startup_hours + interval_hours / 2)) / (1 + checkpoint_hours / interval_hours)


def equivalent_rework_percent(work_hours: Number, expected_hours: Number) -> Number:
    """The classic calculator's rework percent that would give these hours."""
    return PERCENT * (expected_hours / work_hours - 1)


def spot_wait_hours(wait_hours: Number, fallback_percent: Number) -> Number:
    """Mean pause per interruption: those that fall back to on-demand do not wait for spot capacity."""
    return wait_hours * (PERCENT - fallback_percent) / PERCENT
