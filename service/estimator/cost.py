"""The classic formula, each part once, for exact decimals and for NumPy arrays alike.

Source: the classic seven-field calculator: WallClockHours = IdealGpuHours / (ScalingEfficiency / 100),
TotalGpuHours = NumberOfGpus x WallClockHours, ComputeCost = TotalGpuHours x GpuCostPerHour,
ReworkCost = ComputeCost x ReworkPercent / 100.

Everything is multiplied before it is divided, and divided once, so that with Decimal only that one quotient
is ever rounded: 3 GPUs, 0.5 h, 85 %, $1.87 and 15 % rework are exactly 0.495.

`divisor` is what the inputs still have to be divided by: the GPU count where the hours are total hours, the
GPUs per node where the price is a node's, both, or 1.
"""

from typing import Any

from service.units import PERCENT

# Decimal, float or a NumPy array. No type says "calculates with its own kind and with int" of all three; each
# function gives back what it was given.
Number = Any


def stretched(ideal: Number, share_percent: Number, efficiency_percent: Number, divisor: Number) -> Number:
    """`share_percent` of what an ideal quantity becomes at this scaling efficiency."""
    return ideal * share_percent / (efficiency_percent * divisor)


def wall_clock_hours(hours: Number, efficiency_percent: Number, divisor: Number) -> Number:
    """Hours from start to end if nothing fails."""
    return stretched(hours, PERCENT, efficiency_percent, divisor)


def expected_wall_clock_hours(
    hours: Number, efficiency_percent: Number, rework_percent: Number, divisor: Number
) -> Number:
    """Hours from start to end with the work that is done again."""
    return stretched(hours, PERCENT + rework_percent, efficiency_percent, divisor)


def gpu_hours(gpu_count: Number, hours: Number, efficiency_percent: Number, divisor: Number) -> Number:
    """GPU-hours of the wall clock, rework apart."""
    return stretched(gpu_count * hours, PERCENT, efficiency_percent, divisor)


def rework_gpu_hours(
    gpu_count: Number, hours: Number, efficiency_percent: Number, rework_percent: Number, divisor: Number
) -> Number:
    """GPU-hours done again."""
    return stretched(gpu_count * hours, rework_percent, efficiency_percent, divisor)


def compute_cost(
    gpu_count: Number, hours: Number, price: Number, efficiency_percent: Number, divisor: Number
) -> Number:
    """Cost of the GPU-hours, rework apart."""
    return stretched(gpu_count * hours * price, PERCENT, efficiency_percent, divisor)


def scaling_loss(
    gpu_count: Number, hours: Number, price: Number, efficiency_percent: Number, divisor: Number
) -> Number:
    """The part of the compute cost that pays for waiting: what perfect scaling would not have cost."""
    return stretched(gpu_count * hours * price, PERCENT - efficiency_percent, efficiency_percent, divisor)


def rework_cost(
    gpu_count: Number,
    hours: Number,
    price: Number,
    efficiency_percent: Number,
    rework_percent: Number,
    divisor: Number,
) -> Number:
    """Compute paid again."""
    return stretched(gpu_count * hours * price, rework_percent, efficiency_percent, divisor)
