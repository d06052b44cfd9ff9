"""Which cause the lost hours belong to: hardware, spot, training instability, people; and what each costs."""

from msgspec import Struct

from service.estimator.cost import Number
from service.estimator.elementary import where
from service.estimator.reliability import failure_factor, job_mttf_hours
from service.units import PERCENT


class Stops(Struct, frozen=True):
    """One cause of stops. `wait_hours` is the mean pause of each, in which nothing runs and nothing fails."""

    per_hour: Number
    restart_hours: Number
    wait_hours: Number = 0.0


NO_STOPS = Stops(0.0, 0.0)


class CauseHours(Struct, frozen=True):
    """Expected hours by what they are for; `expected` is their sum. `hardware` and `spot` are lost work and restarts,
    `spot_wait` is waiting for capacity while the survivors idle."""

    work: Number
    checkpoints: Number
    hardware: Number
    spot: Number
    spot_wait: Number
    instability: Number
    people: Number
    hardware_failures: Number
    spot_interruptions: Number

    @property
    def expected(self) -> Number:
        failed = self.hardware + self.spot + self.spot_wait
        return self.work + self.checkpoints + failed + self.instability + self.people


def share(part: Number, whole: Number) -> Number:
    """part / whole, and 0 of nothing."""
    return where(whole == 0, 0.0, part / where(whole == 0, 1.0, whole))


def joint_stops(hardware: Stops, spot: Stops) -> Stops:
    """Both causes as one: rates add up, restarts and waits are their means by rate (competing exponentials)."""
    per_hour = hardware.per_hour + spot.per_hour
    hardware_share, spot_share = share(hardware.per_hour, per_hour), share(spot.per_hour, per_hour)
    return Stops(
        per_hour,
        hardware.restart_hours * hardware_share + spot.restart_hours * spot_share,
        hardware.wait_hours * hardware_share + spot.wait_hours * spot_share,
    )


def hours_by_cause(
    work_hours: Number,
    interval_hours: Number,
    checkpoint_hours: Number,
    hardware: Stops,
    spot: Stops = NO_STOPS,
    instability_percent: Number = 0.0,
    people_percent: Number = 0.0,
) -> CauseHours:
    """Expected hours, each cause apart.

    Work rolled back or run with bad settings fails like any other. What failures cost (Daly's mean less work and
    checkpoints) is divided by rate x (half a segment + its own restart). Their number is the rate times the hours run.
    """
    instability = work_hours * instability_percent / PERCENT
    people = work_hours * people_percent / PERCENT
    run = work_hours + instability + people
    both = joint_stops(hardware, spot)
    segment_hours = interval_hours + checkpoint_hours
    checkpoints = run / interval_hours * checkpoint_hours
    factor = failure_factor(segment_hours, both.restart_hours, job_mttf_hours(both.per_hour))
    lost = (run + checkpoints) * (factor - 1)
    running = run + checkpoints + lost
    by_hardware = hardware.per_hour * (segment_hours / 2 + hardware.restart_hours)
    by_spot = spot.per_hour * (segment_hours / 2 + spot.restart_hours)
    lost_to_spot = lost * share(by_spot, by_hardware + by_spot)
    return CauseHours(
        work=work_hours,
        checkpoints=checkpoints,
        hardware=lost - lost_to_spot,
        spot=lost_to_spot,
        spot_wait=spot.per_hour * running * spot.wait_hours,
        instability=instability,
        people=people,
        hardware_failures=hardware.per_hour * running,
        spot_interruptions=spot.per_hour * running,
    )
