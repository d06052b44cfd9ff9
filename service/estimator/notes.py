"""What a reader of an estimate should know, as notes with stable codes."""

from decimal import ROUND_FLOOR, Decimal

from service.estimator.inputs import DEFAULT_CURRENCY, DEFAULT_EGRESS, DEFAULT_STORAGE, MeasuredEfficiency, Run
from service.estimator.results import Note
from service.money import written

LOW_EFFICIENCY_PERCENT = 70
ETHERNET_10G_GBPS = 10
_TENTH = Decimal("0.1")
_CLASSIC_AMOUNTS = {"storage.amount": DEFAULT_STORAGE, "egress.amount": DEFAULT_EGRESS}

_BASIS_PER_GPU = Note(
    "basis_per_gpu",
    "info",
    "The hours were read as hours on each GPU of this cluster, as the classic calculator does. If they are "
    "single-GPU hours of work to be divided among the GPUs, set basis to total.",
)
_BASIS_TOTAL = Note(
    "basis_total",
    "info",
    "The hours were read as single-GPU hours in all and divided by the GPU count.",
)
_REWORK_ZERO = Note(
    "rework_zero",
    "warning",
    "No rework is planned: any failure, restart or rolled-back step then goes over this figure. Long runs on "
    "many GPUs do fail; 10 to 20 % is a usual buffer.",
)


def notes_on(
    run: Run, *, hours_given: bool = True, rework_typed: bool = True, efficiency_given: bool = True
) -> tuple[Note, ...]:
    """Every note that this run deserves, always in the same order; of hours and of a rework percent only where those
    were what was asked with. An efficiency that nobody typed is rounded for people."""
    notes = []
    if hours_given:
        notes.append(_BASIS_PER_GPU if run.basis == "per_gpu" else _BASIS_TOTAL)
    if run.efficiency_percent < LOW_EFFICIENCY_PERCENT:
        notes.append(_low_efficiency(run, typed=efficiency_given and run.measured is None and run.network is None))
    if rework_typed and run.rework_percent == 0:
        notes.append(_REWORK_ZERO)
    if run.network is not None:
        notes.extend(_network_notes(run))
    if run.measured is not None:
        notes.extend(_measured_notes(run.measured))
    if run.priced_per == "node":
        notes.extend(_node_price_notes(run))
    if run.currency != DEFAULT_CURRENCY:
        notes.extend(_amounts_of_another_currency(run))
    return tuple(notes)


def _low_efficiency(run: Run, *, typed: bool) -> Note:
    percent = run.efficiency_percent if typed else run.efficiency_percent.quantize(_TENTH, ROUND_FLOOR)
    return Note(
        "scaling_efficiency_low",
        "warning",
        f"Scaling efficiency is {percent.normalize():f} %, below {LOW_EFFICIENCY_PERCENT} %: much of "
        "the compute is paid for waiting. Fewer GPUs, a faster interconnect, gradient accumulation or a better "
        "parallel layout usually cost less.",
    )


def _amounts_of_another_currency(run: Run) -> list[Note]:
    """Amounts that the classic calculator has in USD, taken as they are."""
    unsaid = {said.field for said in run.assumptions if said.status == "default"}
    amounts = [f"{field.split('.')[0]} {amount:f}" for field, amount in _CLASSIC_AMOUNTS.items() if field in unsaid]
    if not amounts:
        return []
    told = f"The classic calculator's amounts ({', '.join(amounts)}) are {DEFAULT_CURRENCY}; nobody gave others, and "
    told += f"they were taken as {run.currency}, unconverted. Give them in {run.currency}."
    return [Note("default_amounts_unconverted", "warning", told)]


def _network_notes(run: Run) -> list[Note]:
    network = run.network
    assert network is not None  # the caller asked
    notes: list[Note] = []
    several_nodes = run.gpu_count > run.gpus_per_node
    if several_nodes:
        notes.extend(slow_ethernet(network.name, network.node_gbps))
    if several_nodes and network.kind == "scale-up":
        notes.append(
            Note(
                "scale_up_preset_multi_node",
                "warning",
                f"{network.name} links GPUs inside a node, but {run.gpu_count} GPUs need more than one node: "
                "the network between the nodes decides. Choose a scale-out preset.",
            )
        )
    if network.band_basis == "assumed":
        notes.append(
            Note(
                "interconnect_band_assumed",
                "info",
                f"The efficiency band of {network.name} is an assumption, not a published measurement. Measure "
                "your own job on two GPU counts before you rely on it.",
            )
        )
    return notes


def slow_ethernet(name: str, node_gbps: float | None) -> tuple[Note, ...]:
    """That several nodes are joined by 10 Gb/s, if they are."""
    if node_gbps is None or node_gbps > ETHERNET_10G_GBPS:
        return ()
    told = (
        f"{name} between several nodes: gradients and activations of a large model do not fit through it, and the "
        "classic band is optimistic. Use at least 100 Gb/s a node, better 200 to 400 Gb/s a GPU."
    )
    return (Note("ethernet_10g_multi_node", "warning", told),)


def _measured_notes(measured: MeasuredEfficiency) -> list[Note]:
    notes = [
        Note(
            "scaling_measured",
            "info",
            f"Scaling efficiency was fitted to your measurements, relative to {measured.base_gpu_count} GPUs; with "
            f"80 % confidence it is between {measured.low_percent:.1f} and {measured.high_percent:.1f} %.",
        )
    ]
    if measured.beyond_validity:
        notes.append(
            Note(
                "scaling_extrapolated",
                "warning",
                f"The run is {measured.extrapolation:.1f} times as wide as the widest measurement "
                f"({measured.largest_gpu_count} GPUs); beyond 8 times no published series says how far the law holds. "
                "Measure at a larger count.",
            )
        )
    if measured.excluded_gpu_count is not None:
        notes.append(
            Note(
                "scaling_point_excluded",
                "warning",
                f"The measurement at {measured.excluded_gpu_count} GPUs is more than 10 % off the others, which agree; "
                "it was left out. Measure it again.",
            )
        )
    return notes


def _node_price_notes(run: Run) -> list[Note]:
    notes = [
        Note(
            "price_per_node_divided",
            "info",
            f"The price of {written(run.price, run.currency)} {run.currency} an hour is a node's; it was divided "
            f"by {run.gpus_per_node} GPUs per node.",
        )
    ]
    if run.gpu_count % run.gpus_per_node:
        notes.append(
            Note(
                "partial_node",
                "warning",
                f"{run.gpu_count} GPUs do not fill whole nodes of {run.gpus_per_node}: a provider that rents "
                "nodes bills the empty places too, and this estimate does not.",
            )
        )
    return notes
