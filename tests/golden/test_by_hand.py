"""Three of the bills by hand, in plain arithmetic on the numbers of the request: a commitment, spot, owned machines."""

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest

from tests.golden.cases import case_of

PEAK = 989.4e12  # FLOP/s of an H100, dense BF16
MFU = 0.40
SECONDS = 3600
YEAR_HOURS = 8766


def productive_hours(gpus: int, parameters: float, tokens: float) -> float:
    """6ND over what the GPUs do."""
    return 6 * parameters * tokens / (gpus * PEAK * MFU) / SECONDS


def daly_hours(run: float, interval: float, checkpoint: float, restart: float, mttf: float) -> float:
    """(W / tau) M e^(R/M) (e^((tau + delta)/M) - 1): the mean completion time of Daly 2006."""
    return run / interval * mttf * math.exp(restart / mttf) * (math.exp((interval + checkpoint) / mttf) - 1)


def cents(amount: float) -> str:
    """Half-up to the cent, as one line of the bill."""
    return str(Decimal(amount).quantize(Decimal("0.01"), ROUND_HALF_UP))


def amounts(answer: Mapping[str, Any]) -> dict[str, str]:
    """Each line's amount; these bills have one line a component."""
    lines = answer["cost"]["lines"]
    by_component = {line["component"]: line["amount"] for line in lines}
    assert len(by_component) == len(lines)
    return by_component


def assert_adds_up(answer: Mapping[str, Any], lines: Mapping[str, str]) -> None:
    """The lines are these, and the total is their sum."""
    assert amounts(answer) == lines
    assert Decimal(answer["cost"]["total"]) == sum(map(Decimal, lines.values()))


# ------------------------------------------------------------------------------------------- a commitment

GPUS, SPARE, COMMITTED = 512, 4 * 8, 544
RATE, OVERFLOW_RATE = 2.50, 3.90
SETUP = 12.0


def committed_run() -> tuple[dict[str, float], float]:
    """GPU-hours of the 70B run by component, and its hours from start to end: 64 nodes of which one in 200 fails a
    day, a quarter of an hour to restart, a checkpoint of a minute every hour."""
    productive = productive_hours(GPUS, 70e9, 2e12)
    overhead = 0.10 * productive
    work = productive + overhead
    instability, people = 0.01 * work, 0.02 * work
    run = work + instability + people
    checkpoints = run / 1 * (60 / SECONDS)
    failing = daly_hours(run, 1, 60 / SECONDS, 15 / 60, 24 / (64 * 0.005)) - run - checkpoints
    steps = work + checkpoints + failing + instability + people
    return {
        "compute": productive * GPUS,
        "overhead": overhead * GPUS,
        "rework_checkpoints": checkpoints * GPUS,
        "rework_hardware": failing * GPUS,
        "rework_instability": instability * GPUS,
        "rework_people": people * GPUS,
        "idle_setup": SETUP * (GPUS + SPARE),
        "idle_spares": steps * SPARE,
    }, SETUP + steps


def test_a_term_of_90_days_is_billed_whole() -> None:
    answer = case_of("08-commitment-within").answer()
    gpu_hours, hours = committed_run()
    assert answer["duration"]["expected_wall_clock_hours"] == pytest.approx(hours, rel=1e-12)
    term = COMMITTED * 90 * 24
    used = (GPUS + SPARE) * hours
    lines = {name: cents(quantity * RATE) for name, quantity in gpu_hours.items()}
    lines["commitment_unused"] = cents((term - used) * RATE)
    lines |= {"storage": "18000.00", "egress": "4000.00"}
    assert_adds_up(answer, lines)
    use = answer["commitment"]
    assert use["term_gpu_hours"] == term == 1_175_040
    assert use["term_cost"] == cents(term * RATE) == "2937600.00"
    assert use["used_gpu_hours"] == pytest.approx(used, rel=1e-12)
    assert use["used_cost"] == cents(used * RATE)
    assert use["unused_gpu_hours"] == pytest.approx(term - used, rel=1e-12)
    assert use["unused_cost"] == cents((term - used) * RATE)
    assert use["overflow_gpu_hours"] == 0
    assert use["run_ends_within_term"] is True
    # Used and unused are the term: each of the lines is rounded, so that they may be cents apart.
    assert float(answer["cost"]["total"]) == pytest.approx(2_937_600 + 22_000, abs=0.05)


def test_beyond_a_term_of_45_days_every_gpu_hour_costs_3_90() -> None:
    answer = case_of("08-commitment-overrun").answer()
    gpu_hours, hours = committed_run()
    over = (GPUS + SPARE) * (hours - 45 * 24)
    lines = {name: cents(quantity * RATE) for name, quantity in gpu_hours.items()}
    lines["commitment_overflow"] = cents(over * (OVERFLOW_RATE - RATE))
    lines |= {"storage": "18000.00", "egress": "4000.00"}
    assert_adds_up(answer, lines)
    use = answer["commitment"]
    assert use["term_cost"] == use["used_cost"] == cents(COMMITTED * 45 * 24 * RATE) == "1468800.00"
    assert use["unused_cost"] == "0.00"
    assert use["overflow_gpu_hours"] == pytest.approx(over, rel=1e-12)
    assert use["overflow_cost"] == cents(over * OVERFLOW_RATE)
    assert use["run_ends_within_term"] is False
    assert float(answer["cost"]["total"]) == pytest.approx(1_468_800 + over * OVERFLOW_RATE + 22_000, abs=0.05)


# ------------------------------------------------------------------------------------------- spot


def test_spot_interruptions_wait_with_seven_nodes_billed_and_fall_back_to_on_demand() -> None:
    answer = case_of("09-spot").answer()
    gpus, node, spot, on_demand = 64, 8, 1.80, 3.99
    nodes = gpus // node
    productive = productive_hours(gpus, 70e9, 6e9)
    overhead = 0.10 * productive
    work = productive + overhead
    instability, people = 0.01 * work, 0.02 * work
    run = work + instability + people
    # Two causes of stops: a node in 200 days of hardware, and spot capacity, a fifth of a node an hour.
    # A node that fell back is not interrupted meanwhile: it is kept an hour, or until the run is over.
    kept = 1.0 * (1 - 1.0 / (2 * work))
    by_hardware, by_spot = nodes * 0.005 / 24, nodes * 0.2 / (1 + 0.2 * 0.40 * kept)
    hardware_restart, spot_restart = 15 / 60, 6 / 60
    stops = by_hardware + by_spot
    restart = (by_hardware * hardware_restart + by_spot * spot_restart) / stops
    interval, checkpoint = 12 / 60, 60 / SECONDS
    checkpoints = run / interval * checkpoint
    running = daly_hours(run, interval, checkpoint, restart, 1 / stops)
    lost = running - run - checkpoints
    # What is lost goes to each cause by how often it stops the run, and for how long.
    hardware_part = by_hardware * ((interval + checkpoint) / 2 + hardware_restart)
    spot_part = by_spot * ((interval + checkpoint) / 2 + spot_restart)
    lost_to_spot = lost * spot_part / (hardware_part + spot_part)
    interruptions = by_spot * running
    waiting = interruptions * 0.60 * 1.0
    fallback = interruptions * 0.40 * kept * node
    assert_adds_up(
        answer,
        {
            "compute": cents(productive * gpus * spot),
            "overhead": cents(overhead * gpus * spot),
            "rework_checkpoints": cents(checkpoints * gpus * spot),
            "rework_hardware": cents((lost - lost_to_spot) * gpus * spot),
            "rework_spot": cents(lost_to_spot * gpus * spot),
            "rework_spot_wait": cents(waiting * (nodes - 1) * node * spot),
            "rework_spot_fallback": cents(fallback * (on_demand - spot)),
            "rework_instability": cents(instability * gpus * spot),
            "rework_people": cents(people * gpus * spot),
            "idle_setup": cents(2 * gpus * spot),
            "storage": "600.00",
            "egress": "90.00",
        },
    )
    assert answer["duration"]["expected_wall_clock_hours"] == pytest.approx(2 + running + waiting, rel=1e-12)
    assert answer["reliability"]["expected_spot_interruptions"] == pytest.approx(interruptions, rel=1e-12)


def test_spot_at_this_discount_costs_more_than_the_same_run_on_demand() -> None:
    answer = case_of("09-spot").answer()
    work = 1.10 * productive_hours(64, 70e9, 6e9) * 1.03
    hours = daly_hours(work, 12 / 60, 60 / SECONDS, 15 / 60, 24 / (8 * 0.005))
    on_demand = (2 + hours) * 64 * 3.99 + 600 + 90
    assert float(answer["cost"]["total"]) > on_demand
    assert answer["break_evens"][0]["cheaper"] is False


# ------------------------------------------------------------------------------------------- owned


def best_interval_hours(checkpoint: float, mttf: float) -> float:
    """Where Daly's mean has its minimum, 1 - tau/M = e^(-(tau + delta)/M), by halving."""
    low, high = 0.0, mttf
    for _ in range(100):
        middle = (low + high) / 2
        if 1 - middle / mttf > math.exp(-(middle + checkpoint) / mttf):
            low = middle
        else:
            high = middle
    return low


def test_owned_machines_have_a_cash_a_book_and_a_loaded_figure() -> None:
    answer = case_of("10-owned").answer()
    gpus, capex = 512, 22_778_819.0  # 512 x 44,489.88
    capacity = gpus * YEAR_HOURS
    # By GPU-hour: a server of 8 takes 10.2 kW, three quarters of it on average, and the building a quarter more.
    energy = 10.2 / 8 * 0.75 * 1.25 * 0.0826
    depreciation = capex / 5 / capacity
    capital = capex / 2 * 0.08 / capacity
    running = (1_500_000 + 450_000 + 900_000) / capacity
    loaded = energy + (depreciation + capital + running) / 0.70
    assert (round(energy, 4), round(depreciation, 4), round(capital, 4)) == (0.0987, 1.0151, 0.2030)
    assert round(loaded, 4) == 2.7460

    productive = productive_hours(gpus, 70e9, 2e12)
    overhead = 0.10 * productive
    work = productive + overhead
    instability, people = 0.01 * work, 0.02 * work
    run = work + instability + people
    checkpoint, mttf = 60 / SECONDS, 24 / (64 * 0.005)
    interval = round(best_interval_hours(checkpoint, mttf), 3)  # without a step to count in, thousandths of an hour
    checkpoints = run / interval * checkpoint
    hours = daly_hours(run, interval, checkpoint, 15 / 60, mttf)
    assert_adds_up(
        answer,
        {
            "compute": cents(productive * gpus * loaded),
            "overhead": cents(overhead * gpus * loaded),
            "rework_checkpoints": cents(checkpoints * gpus * loaded),
            "rework_hardware": cents((hours - run - checkpoints) * gpus * loaded),
            "rework_instability": cents(instability * gpus * loaded),
            "rework_people": cents(people * gpus * loaded),
            "storage": "18000.00",
            "egress": "0.00",
        },
    )
    assert answer["owned"] == {
        "cash_increment": cents(hours * gpus * energy),
        "book": cents(hours * gpus * (energy + depreciation)),
        "fully_loaded": cents(hours * gpus * loaded),
        "billed": "loaded",
    }
    assert answer["reliability"]["checkpoint_interval_minutes"] == pytest.approx(60 * interval)
