"""The accelerator of a request in numbers: peaks, memory, links and kernels, each unknown where nobody publishes it."""

from msgspec import UNSET, Struct, UnsetType, structs

from service.catalog.gpus import get_rentable_gpu, load_gpus, memory_for_programs_gb, peak_tflops, slice_size
from service.catalog.interconnects import get_interconnect
from service.catalog.schemas import Accelerator, Interconnect, Precision
from service.errors import BrokenRule
from service.estimates.record import Record
from service.estimates.schemas import Cluster, CustomGpu
from service.estimator import advice
from service.estimator.constants import KernelEfficiency, assumed_kernels, find_kernel_efficiency
from service.estimator.inputs import DEFAULT_GPUS_PER_NODE
from service.estimator.step import Machine
from service.estimator.utilisation import LEAST_NETWORK_GBPS, Family, family_of
from service.units import PERCENT

BITS_PER_BYTE = 8
GIGA = 1e9
TERA = 1e12
_PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp8", "fp4", "tf32", "fp32")
_OWN_KERNELS = "0.8 x gemm_efficiency_percent; attention as on the H100"
_SPARSE = 2.0
_ALIKE = 0.01


class Chip(Struct, frozen=True, kw_only=True):
    """One accelerator and its links. `peak_flops_per_second` is dense, at the precision of the work; that of BF16
    stands for 16 bits, and is that of FP16 where the work is in FP16. None is unknown. Links are per accelerator and
    in one direction; `one_rack` says that one joins more of them than a node has. `usual_network_bytes_per_second` is
    of the network that it is sold with, and `slice_size` how many exchange over one that is built in."""

    name: str
    family: Family
    peak_flops_per_second: float
    bf16_flops_per_second: float | None
    memory_bytes: float
    memory_bytes_per_second: float | None
    link_bytes_per_second: float | None
    network_bytes_per_second: float | None
    kernels: KernelEfficiency | None
    tdp_watts: float | None
    source: str
    one_rack: bool = False
    usual_network_bytes_per_second: float | None = None
    slice_size: int = 1

    @property
    def network_gbps(self) -> float | None:
        """The same as it is sold."""
        speed = self.network_bytes_per_second
        return None if speed is None else speed * BITS_PER_BYTE / GIGA

    @property
    def network_is_slow(self) -> bool:
        """Below what the step model was checked with."""
        speed = self.network_gbps
        return speed is not None and speed < LEAST_NETWORK_GBPS

    @property
    def usual_network_gbps(self) -> float:
        """The network that what is usual is of: the one that it is sold with, else the slowest of published runs."""
        speed = self.usual_network_bytes_per_second
        return LEAST_NETWORK_GBPS if speed is None else speed * BITS_PER_BYTE / GIGA

    def with_usual_network(self) -> "Chip":
        """The same with that network."""
        return structs.replace(self, network_bytes_per_second=self.usual_network_gbps * GIGA / BITS_PER_BYTE)

    def needs_network(self, gpu_count: int, gpus_per_node: int) -> bool:
        """Whether so many exchange over the network between nodes."""
        return gpu_count > max(gpus_per_node, self.slice_size)


def chip_of(record: Record, cluster: Cluster | UnsetType, precision: Precision) -> Chip:
    """The accelerator that was named, or the figures given for one; BrokenRule where its peak is not known."""
    if cluster is UNSET or (cluster.gpu is None and cluster.custom_gpu is UNSET):
        told = "The hours of this work follow from the accelerator: name one (GET /v1/gpus), or give custom_gpu"
        raise BrokenRule.at("/cluster/gpu", told)
    link = interconnect_of(record, cluster)
    network = None if link is None else link.gbps_per_gpu_unidirectional * GIGA / BITS_PER_BYTE
    if cluster.custom_gpu is not UNSET:
        return _custom_chip(record, cluster, cluster.custom_gpu, precision, network)
    assert cluster.gpu is not None  # one of the two is given
    try:
        gpu = get_rentable_gpu(cluster.gpu, cluster.allow_announced)
    except BrokenRule as error:
        raise error.placed("/cluster/gpu") from None
    return _catalogue_chip(record, gpu, precision, network)


def machine_of(chip: Chip, gpus_per_node: int) -> Machine | None:
    """The node in numbers for the step model, in BF16; None where one of them is not known."""
    known = (
        chip.bf16_flops_per_second,
        chip.memory_bytes_per_second,
        chip.link_bytes_per_second,
        chip.network_bytes_per_second,
    )
    if chip.kernels is None or any(figure is None for figure in known):
        return None
    peak, memory, link, network = (figure or 0.0 for figure in known)
    return Machine(
        peak_flops_per_second=peak,
        memory_bytes_per_second=memory,
        link_bytes_per_second=link,
        network_bytes_per_second=network,
        gpus_per_node=gpus_per_node,
        gemm_efficiency=chip.kernels.gemm,
        attention_efficiency=chip.kernels.attention,
    )


def unknown_figures(chip: Chip) -> tuple[str, ...]:
    """What the step model would need to know of it, in words."""
    figures = {
        "its peak in 16 bits": chip.bf16_flops_per_second,
        "its memory bandwidth": chip.memory_bytes_per_second,
        "its link within a node": chip.link_bytes_per_second,
        "its network between nodes": chip.network_bytes_per_second,
        "what its kernels reach": chip.kernels,
    }
    return tuple(name for name, figure in figures.items() if figure is None)


def interconnect_of(record: Record, cluster: Cluster | UnsetType) -> Interconnect | None:
    """The network between nodes that was named, None if none was."""
    if cluster is UNSET or cluster.interconnect is UNSET:
        return None
    try:
        link = get_interconnect(cluster.interconnect)
    except BrokenRule as error:
        raise error.placed("/cluster/interconnect") from None
    if link.kind == "scale-up":
        told = f"{link.name} links accelerators within a node; name the network between nodes"
        raise BrokenRule.at("/cluster/interconnect", told)
    record.say("cluster.interconnect", link.id, "given", "request")
    record.say("cluster.network_gbps_per_gpu", link.gbps_per_gpu_unidirectional, "catalogue", link.source)
    return link


def built_in_network(cluster: Cluster | UnsetType) -> int:
    """How many of the accelerators that were named exchange over a network that is built in; 1 where none is."""
    if cluster is UNSET or cluster.gpu is None:
        return 1
    try:
        return slice_size(get_rentable_gpu(cluster.gpu, cluster.allow_announced))
    except BrokenRule as error:
        raise error.placed("/cluster/gpu") from None


def _catalogue_chip(record: Record, gpu: Accelerator, precision: Precision, network: float | None) -> Chip:
    peak = peak_tflops(gpu, precision)
    if peak is None:
        known = ", ".join(name for name in _PRECISIONS if peak_tflops(gpu, name) is not None)
        raise BrokenRule.at("/work/precision", f"No {precision} peak of {gpu.name} is published; known: {known}")
    record.say("cluster.gpu", gpu.id, "catalogue", gpu.source)
    record.say(f"cluster.{precision}_tflops", peak, "catalogue", gpu.source)
    if f"{precision}_tflops" in gpu.doubtful or gpu.verified == "no":
        record.note(advice.doubtful_figures(gpu.name, f"{precision}_tflops"))
    if gpu.architecture.casefold().startswith("blackwell"):
        record.note(advice.newer_is_a_break_even(gpu.name))
    usual = gpu.scale_out_gbps_per_gpu
    if network is None and usual is not None:
        record.say("cluster.network_gbps_per_gpu", usual, "catalogue", f"its usual network: {gpu.source}")
    return Chip(
        name=gpu.name,
        family=family_of(gpu.id),
        peak_flops_per_second=peak * TERA,
        bf16_flops_per_second=_scaled(peak if precision == "fp16" else gpu.bf16_tflops, TERA),
        memory_bytes=memory_for_programs_gb(gpu) * GIGA,
        memory_bytes_per_second=gpu.memory_bandwidth_gb_s * GIGA,
        link_bytes_per_second=_scaled(gpu.scale_up_gb_s_bidirectional, GIGA / 2),
        network_bytes_per_second=_scaled(usual, GIGA / BITS_PER_BYTE) if network is None else network,
        kernels=find_kernel_efficiency(gpu.id, "bf16"),
        tdp_watts=gpu.tdp_watts,
        source=gpu.source,
        one_rack=(gpu.scale_up_domain_size or 1) > DEFAULT_GPUS_PER_NODE,
        usual_network_bytes_per_second=_scaled(usual, GIGA / BITS_PER_BYTE),
        slice_size=slice_size(gpu),
    )


def _custom_chip(record: Record, cluster: Cluster, own: CustomGpu, precision: Precision, network: float | None) -> Chip:
    if cluster.gpu is not None:
        raise BrokenRule.at("/cluster/custom_gpu", "Give either gpu or custom_gpu, not both")
    record.say("cluster.custom_gpu.name", own.name, "given", "request")
    record.say("cluster.custom_gpu.peak_tflops", own.peak_tflops, "given", "request")
    sparse_of = _sparse_of(own.peak_tflops, precision)
    if sparse_of is not None:
        record.note(advice.sparse_peak(own.name, sparse_of, precision))
    for field in ("memory_bandwidth_gb_s", "link_gb_s", "network_gbps", "gemm_efficiency_percent"):
        if getattr(own, field) is not UNSET:
            record.say(f"cluster.custom_gpu.{field}", getattr(own, field), "given", "request")
    own_network = None if own.network_gbps is UNSET else own.network_gbps * GIGA / BITS_PER_BYTE
    return Chip(
        name=own.name,
        family="other",
        peak_flops_per_second=own.peak_tflops * TERA,
        bf16_flops_per_second=own.peak_tflops * TERA if precision in ("bf16", "fp16") else None,
        memory_bytes=own.memory_gb * GIGA,
        memory_bytes_per_second=None if own.memory_bandwidth_gb_s is UNSET else own.memory_bandwidth_gb_s * GIGA,
        link_bytes_per_second=None if own.link_gb_s is UNSET else own.link_gb_s * GIGA,
        network_bytes_per_second=own_network if network is None else network,
        kernels=None
        if own.gemm_efficiency_percent is UNSET
        else assumed_kernels(own.gemm_efficiency_percent / PERCENT, _OWN_KERNELS),
        tdp_watts=None if own.tdp_watts is UNSET else own.tdp_watts,
        source="request",
    )


def _sparse_of(tflops: float, precision: Precision) -> str | None:
    """The accelerator whose dense peak this is twice; None if it is some other's dense peak itself (an A100 has twice
    that of an RTX A6000)."""
    dense = [(gpu.name, peak) for gpu in load_gpus() if (peak := peak_tflops(gpu, precision))]
    if any(abs(tflops / peak - 1) < _ALIKE for _, peak in dense):
        return None
    return next((name for name, peak in dense if abs(tflops / (_SPARSE * peak) - 1) < _ALIKE), None)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
