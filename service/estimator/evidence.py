"""What explanations need beyond the plan: the model, the machine and the measurements that its hours came from."""

from typing import Literal

from msgspec import Struct

from service.estimator.charges import OwnedCluster, Tier
from service.estimator.compute import Recompute
from service.estimator.cost import Number
from service.estimator.fewest import Fewest
from service.estimator.flops import Training
from service.estimator.memory import MemoryPlan, NumberFormat
from service.estimator.parallelism import Layout, Workload
from service.estimator.purchases import EnergyFacts
from service.estimator.scaling import ScalingFit
from service.estimator.shapes import ModelShape
from service.estimator.step import Machine, StepSeconds


class Trained(Struct, frozen=True, kw_only=True):
    """The model that is trained, and how its memory is laid out. `hardware_over_model` is None where nobody says what
    is recomputed; `smallest` is its plan on the fewest GPUs, None where none fits or there is no shape;
    `flops_per_token_all_attention` is that of a token with the whole attention matrix counted."""

    shape: ModelShape | None
    sequence_length: int
    training: Training
    parameters: float
    active_parameters: float
    lora_parameters: int
    active_lora_parameters: int
    numbers: NumberFormat
    flops_per_token_all_attention: float
    hardware_over_model: float | None
    recompute: Recompute | None
    memory_plan: MemoryPlan | None
    smallest: Fewest | None


class Usual(Struct, frozen=True, kw_only=True):
    """What is usual for an accelerator's family, and what this run is multiplied by; None for a network of which nobody
    can say how much it takes."""

    mfu: float
    sigma_ln: float
    source: str
    peak_flops_per_second: float
    precision_factor: float
    mixture_factor: float
    adapter_factor: float
    network_factor: float | None


class Modelled(Struct, frozen=True, kw_only=True):
    """The step that the analytic model made, and what its throughput is multiplied by."""

    workload: Workload
    machine: Machine
    layout: Layout
    step: StepSeconds
    precision_factor: float
    adapter_factor: float
    searched: bool


class Rates(Struct, frozen=True, kw_only=True):
    """What the step model says of two counts: tokens a second of all GPUs. `measured` was measured at the other one."""

    here: float
    base: float
    base_gpu_count: int
    measured: float | None


class Fitted(Struct, frozen=True, kw_only=True):
    """A law through measured points; `tokens_per_step` is what a point is multiplied by, `half_width` that of its 80 %
    interval over the prediction."""

    fit: ScalingFit
    tokens_per_step: float
    half_width: float


class Throughput(Struct, frozen=True, kw_only=True):
    """Tokens a second as they were given; `gain` is what fewer accelerators lose less than those of the measurement."""

    tokens_per_second: float
    per: Literal["gpu", "cluster"]
    gpu_count: int
    gain: float = 1.0


class Against(Struct, frozen=True, kw_only=True):
    """The efficiency at the count of the run, and at that of the measurement of its throughput or utilisation."""

    here_percent: float
    base_percent: float

    @property
    def gain(self) -> float:
        """What fewer accelerators lose less; 1 for more of them."""
        return max(1.0, self.here_percent / self.base_percent)


class Band(Struct, frozen=True, kw_only=True):
    """The efficiency of an interconnect; None where no more was said."""

    low_percent: float
    high_percent: float
    level: Literal["low", "typical", "high"]


class Communication(Struct, frozen=True, kw_only=True):
    """The share of a step that exchange took at a count; 1 for the factor where the batch grows."""

    share_percent: float
    base_gpu_count: int
    batch: Literal["fixed", "grows"]


class Crossing(Struct, frozen=True, kw_only=True):
    """What crosses the boundary of a region, and the tiers that price it."""

    dataset_gb: Number
    passes: Number
    exported_gb: Number
    used_gb: Number
    tiers: tuple[Tier, ...]


class Bought(Struct, frozen=True, kw_only=True):
    """A cluster that is owned, and what its energy costs."""

    cluster: OwnedCluster
    energy_price_per_kwh: Number
    kwh_per_gpu_hour: Number
    power: EnergyFacts | None


class PaidRate(Struct, frozen=True):
    """What a GPU-hour costs, and for how long: one of the pieces of a run whose price changes."""

    rate: Number
    seconds: Number


class Evidence(Struct, frozen=True, kw_only=True):
    """All of it; None where it does not apply."""

    hours: float | None = None
    hours_basis: Literal["per_gpu", "total"] | None = None
    tokens: float | None = None
    epochs: float = 1.0
    trained: Trained | None = None
    peak_flops_per_second: float | None = None
    mfu_percent: float | None = None
    hfu_percent: float | None = None
    usual: Usual | None = None
    modelled: Modelled | None = None
    rates: Rates | None = None
    fitted: Fitted | None = None
    throughput: Throughput | None = None
    against: Against | None = None
    band: Band | None = None
    communication: Communication | None = None
    step_hours: float | None = None
    checkpoint_size_gb: float | None = None
    checkpoint_gb_per_second: float | None = None
    checkpoint_interval_minutes: float | None = None
    crossing: Crossing | None = None
    bought: Bought | None = None
    paid: tuple[PaidRate, ...] = ()
