"""What a reader should know of a predicted run, as notes with stable codes; `notes` has those of the classic fields."""

from service.estimator.flops import EPOCHS_ADVISED_AGAINST, EPOCHS_LIKE_FRESH_DATA
from service.estimator.results import Note
from service.estimator.utilisation import Method, Regime

HIGH_MFU_PERCENT = 60.0
HIGH_WAITING_PERCENT = 30.0

_METHODS: dict[Method, str] = {
    "mfu_given": "The hours follow from the MFU that was given.",
    "hfu_given": "The hours follow from the HFU that was given, less what is recomputed.",
    "throughput_given": "The hours follow from the throughput that was given.",
    "measured_points": "The throughput was fitted to your measurements.",
    "one_point": "The throughput is your one measurement, carried to this count by the shape of the step model.",
    "layout_given": "The throughput was predicted by the step model for the layout given.",
    "layout_searched": "The throughput was predicted by the step model for the fastest layout that fits, less a tenth, "
    "because real layouts are seldom the best. State yours and the recompute mode for a better figure.",
    "family_prior": "The throughput is what is usual for this family of accelerators: the step model has nothing to "
    "say without a dense shape and a known accelerator. One measurement gives a far better figure.",
}
_REGIMES: dict[Regime, str] = {
    "accelerator_unvalidated": "no published training throughput of this accelerator was used to check the model",
    "mixture_of_experts": "a mixture of experts reaches a quarter to a half of a dense model's MFU on H100 (0.6 to 0.8 "
    "on racks of one link), and its exchange between experts is not modelled",
    "low_precision": "against BF16, FP8 was 1.28 (llm-foundry), 1.36 (torchtitan), 1.55 (MLPerf) and 2.02 times "
    "(NVIDIA's recipes) as fast, by software more than by the part, and nothing narrower has been published",
    "wide_precision": "published utilisation is of BF16",
    "small_model": "what is usual was read from models of 6.5B parameters and more; smaller ones have a fifth to 1.3 "
    "times that utilisation where it is published, and less on many accelerators",
    "slow_network": "no published run was below 100 Gb/s for each accelerator",
    "long_sequence": "sequences over 32k tokens were off by up to 45 %",
    "context_parallel": "the exchange within context-parallel groups is not modelled",
    "adapters": "the utilisation of full training was taken for adapters, as one published table has it",
    "network_unmodelled": "the step model cannot say what this network leaves of the throughput",
    "quantized_adapters": "dequantizing costs QLoRA a tenth to three tenths of the utilisation, by assumption",
}


def throughput_source(method: Method, p10_percent: float, p90_percent: float) -> Note:
    """Which way the throughput was found, and how far it may be off."""
    told = _METHODS[method]
    if p10_percent < p90_percent:
        told += f" Eight times in ten the real one is {p10_percent:.0f} to {p90_percent:.0f} % of it."
    return Note(f"throughput_{method}", "info", told)


def unvalidated(regimes: tuple[Regime, ...]) -> Note:
    """What no published table covers."""
    told = "; ".join(_REGIMES[regime] for regime in regimes)
    return Note("regime_unvalidated", "warning", f"The spread was widened: {told}.")


def mfu_with_scaling() -> Note:
    """An MFU that is scaled again."""
    return Note(
        "mfu_with_scaling",
        "warning",
        "An MFU of this cluster, given or predicted, already holds communication; with a scaling efficiency it counts "
        "twice. Leave scaling out; or give the MFU of a smaller cluster, and that cluster's count: in scaling of kind "
        "communication as the gpu_count of its profile, or where the step model knows shape and accelerator in scaling "
        "of kind model as its base_gpu_count.",
    )


def mfu_of_the_profile(base: int, gpu_count: int) -> Note:
    """A utilisation and a share of communication of one smaller run."""
    return Note(
        "mfu_of_the_profile",
        "info",
        f"The utilisation given was taken to be that of the profiling run on {base} accelerators, which holds its "
        f"communication; the efficiency on {gpu_count} is relative to it.",
    )


def throughput_with_scaling() -> Note:
    """A throughput of this cluster that is scaled again."""
    return Note(
        "throughput_with_scaling",
        "warning",
        "A throughput measured on this many accelerators already holds communication; with a scaling efficiency it "
        "counts twice. Leave scaling out, or say in measured_gpu_count where it was measured.",
    )


def billed_mfu_with(section: str) -> Note:
    """A billed MFU, and what it holds given again."""
    return Note(
        f"billed_mfu_with_{section}",
        "warning",
        f"A billed MFU already holds overhead, rework and idle hours; {section} counts them twice. Leave it out, or "
        "give the MFU of a step.",
    )


def high_mfu(percent: float) -> Note:
    """Too good for an MFU."""
    return Note(
        "mfu_high",
        "warning",
        f"{percent:.4g} % is more than published training runs reach in MFU. Is it HFU (recomputed FLOPs included), "
        "against another peak, or what nvidia-smi calls utilisation, which is not MFU?",
    )


def full_recompute() -> Note:
    """What full recompute costs."""
    return Note(
        "full_recompute",
        "info",
        "Full recompute adds a third to the FLOPs of the layers. Selective recompute, a higher degree of sharding or "
        "GPUs with more memory usually cost less.",
    )


def sparse_peak(name: str, other: str, precision: str) -> Note:
    """A peak with sparsity."""
    return Note(
        "sparse_peak",
        "warning",
        f"The {precision} peak given for {name} is twice the dense one of {other}: peaks with sparsity halve every "
        "utilisation. Give the dense peak.",
    )


def doubtful_figures(name: str, field: str) -> Note:
    """A catalogue figure that sources contest."""
    return Note("figure_doubtful", "info", f"{field} of {name} is unsourced, derived or contested; see GET /v1/gpus.")


def newer_is_a_break_even(name: str) -> Note:
    """No rule that newer is cheaper."""
    return Note(
        "newer_gpu_break_even",
        "info",
        f"{name} is cheaper than an older part only where it is faster by more than it costs more: twice the price at "
        "twice the speed saves nothing. Estimate both.",
    )


def does_not_fit(reason: str) -> Note:
    """Memory that does not suffice by this count."""
    return Note(
        "memory_does_not_fit",
        "warning",
        f"{reason} Activations are counted within about 15 %, so that a published layout can seem not to fit.",
    )


def context_searched(degree: int) -> Note:
    """Sequences that a search had to split."""
    return Note(
        "context_parallel_searched",
        "warning",
        f"Nothing fits with whole sequences: a context degree of {degree} was taken. What context-parallel groups "
        "exchange is not modelled, so that the run is slower than predicted. State the layout that you will use.",
    )


def tensor_over_network(tensor: int, gpus_per_node: int) -> Note:
    """Tensor parallelism across nodes."""
    return Note(
        "tensor_parallel_across_nodes",
        "warning",
        f"A tensor degree of {tensor} reaches beyond nodes of {gpus_per_node}: every layer then waits for the network "
        "between nodes. Keep it within a node, and use pipeline stages or sharding beyond.",
    )


def slow_network(gbps: float) -> Note:
    """A network that training of several nodes should not have."""
    return Note(
        "network_slow",
        "warning",
        f"{gbps:g} Gb/s for each accelerator is little between nodes: gradient accumulation and sharding within nodes "
        "help, a faster network helps more.",
    )


def interconnect_for_the_record(name: str) -> Note:
    """A network that nothing was reckoned with."""
    return Note(
        "interconnect_for_the_record",
        "info",
        f"{name} was noted and changes nothing: hours and throughput were given. Scaling of kind interconnect takes an "
        "efficiency from it.",
    )


def network_scaled(gbps: float, usual_gbps: float, factor: float, is_mixture: bool) -> Note:
    """What is usual, less what a slow network takes."""
    told = (
        f"{100 * factor:.3g} % of what is usual was taken: so much the step model leaves on {gbps:g} instead of "
        f"{usual_gbps:g} Gb/s for each accelerator, for a dense GPT with as many parameters as one token meets (hidden "
        "= 128 layers, N = 12 L h^2), with the fastest layout on both. Give the model or its shape for its own step."
    )
    if is_mixture:
        told += " The exchange between experts is not in it: the loss is at least that."
    return Note("usual_less_network", "warning", told)


def network_unmodelled(gbps: float, usual_gbps: float) -> Note:
    """A slow network of which nobody can say what it leaves."""
    return Note(
        "network_unmodelled",
        "warning",
        f"{gbps:g} instead of {usual_gbps:g} Gb/s for each accelerator can take most of the throughput, and the step "
        "model cannot say how much here: the hours may be many times as many. Measure one point.",
    )


def high_waiting(percent: float, batch: int, gpu_count: int, more: int | None, fewer: int | None) -> Note:
    """A step that is mostly waiting."""
    told = (
        f"{percent:.0f} % of a step is waiting for exchange or in the pipeline's bubble: {gpu_count} accelerators are "
        f"too many for a batch of {batch} sequences, or their network is too slow."
    )
    ways = [] if more is None else [f"a batch of {more} sequences"]
    ways += [] if fewer is None else [f"{fewer} accelerators"]
    if ways:
        told += f" It would be less than {HIGH_WAITING_PERCENT:.0f} % with {' or with '.join(ways)}."
    else:
        told += (
            f" Of the larger batches (up to 64M tokens) and smaller counts that were tried, a few of each, none brings "
            f"it below {HIGH_WAITING_PERCENT:.0f} %; a faster network may."
        )
    return Note("waiting_high", "warning", told)


def many_epochs(epochs: float) -> Note:
    """Repeated data."""
    if epochs > EPOCHS_ADVISED_AGAINST:
        told = f"{epochs:g} epochs: beyond {EPOCHS_ADVISED_AGAINST} repeated tokens teach next to nothing"
        return Note("epochs_many", "warning", f"{told} (Muennighoff et al. 2023).")
    told = f"{epochs:g} epochs: beyond {EPOCHS_LIKE_FRESH_DATA} repeated tokens are worth ever less than fresh ones"
    return Note("epochs_repeated", "info", f"{told} (Muennighoff et al. 2023).")


def compute_optimal(run_ratio: float, best_ratio: float, loss_delta: float) -> Note:
    """Where the run stands against compute-optimal training."""
    return Note(
        "compute_optimal",
        "info",
        f"{run_ratio:.3g} tokens a parameter; the least loss for these FLOPs is at {best_ratio:.3g} (Besiroglu et al. "
        f"2024), {loss_delta:.3g} nats lower. Training a smaller model for longer is usual where it will serve many.",
    )


def no_idle_hours() -> Note:
    """GPUs are billed from provisioning."""
    return Note(
        "idle_not_counted",
        "info",
        "GPUs are billed from provisioning, not from the first step; give idle.setup_hours and spare nodes.",
    )


def nothing_fails() -> Note:
    """A failure model in which nothing fails."""
    return Note("failures_none", "warning", "At these rates nothing ever fails; runs on many GPUs do fail.")


def sparse_checkpoints(interval_hours: float, optimal_hours: float) -> Note:
    """An interval far from the best."""
    return Note(
        "checkpoint_interval",
        "warning",
        f"A checkpoint every {interval_hours:.3g} h is far from the interval that costs least, {optimal_hours:.3g} h.",
    )


def spot_without_checkpoints() -> Note:
    """Spot capacity whose checkpoints are rarer than its interruptions."""
    return Note(
        "spot_checkpoints_rare",
        "warning",
        "On this spot capacity an interruption comes more often than a checkpoint: most work is done again. Write "
        "checkpoints more often, or buy other capacity.",
    )


def preset_used(preset: str, source: str) -> Note:
    """Whose failures were taken."""
    return Note("failures_preset", "info", f"What was not said of failures is as in the preset {preset}: {source}.")


def spot_rate_assumed(rate: float) -> Note:
    """A hazard that nobody measured on today's GPUs."""
    return Note(
        "spot_rate_assumed",
        "warning",
        f"{rate:g} interruptions per node-hour is an assumption; published traces are of V100 only (0.06 to 0.74). "
        "Measure yours.",
    )


def fallback_reading() -> Note:
    """How falling back to on-demand was read."""
    return Note(
        "spot_fallback_reading",
        "info",
        "An interruption that falls back gets an on-demand node at once and keeps it for the waiting time given; the "
        "others wait that long for spot capacity.",
    )


def price_default() -> Note:
    """A price that nobody gave."""
    return Note(
        "price_default",
        "warning",
        "No price was given: 2.50 USD a GPU-hour is the classic calculator's, not a quote. Prices move; list prices of "
        "H100 were 1.99 to 10.00 in two years.",
    )


def linear_throughput(measured: int, gpu_count: int) -> Note:
    """A rate carried to another count."""
    return Note(
        "throughput_taken_linear",
        "warning",
        f"The rate of one accelerator, measured on {measured}, was taken to be the same on {gpu_count}; published "
        "series lose 3 to 13 % per tenfold. Give scaling.",
    )


def communication_extrapolated(factor: float) -> Note:
    """A profile of a much smaller run."""
    return Note(
        "communication_extrapolated",
        "warning",
        f"The run is {factor:.3g} times as wide as the profiled one; beyond 8 times no published series says how far "
        "the law holds.",
    )


def lora_parameters_unknown() -> Note:
    """Adapters without a shape."""
    return Note(
        "lora_without_shape",
        "info",
        "Without a shape the adapters' own parameters are left out of FLOPs and memory; they are well under 1 %.",
    )


def scaling_extrapolated(factor: float, most: float) -> Note:
    """A run much wider than the widest measurement."""
    return Note(
        "scaling_extrapolated",
        "warning",
        f"The run is {factor:.3g} times as wide as the widest measurement; beyond {most:g} times no published series "
        "says how far the law holds. Measure at a larger count.",
    )


def point_excluded(gpu_count: int) -> Note:
    """A measurement that the others contradict."""
    return Note(
        "scaling_point_excluded",
        "warning",
        f"The measurement at {gpu_count} GPUs is more than 10 % off the others, which agree; it was left out. Measure "
        "it again.",
    )


def unknown_figures(name: str, figures: tuple[str, ...]) -> Note:
    """An accelerator of which the step model knows too little."""
    return Note(
        "figures_unknown",
        "warning",
        f"Of {name} not everything is known: {', '.join(figures)}. The step model has no say, and what is usual was "
        "taken: bandwidth and link figures do not change the hours. custom_gpu has fields for all of them "
        "(memory_bandwidth_gb_s, link_gb_s, network_gbps, gemm_efficiency_percent).",
    )


def default_batch(sequences: int, sequence_length: int) -> Note:
    """A batch that nobody gave."""
    return Note(
        "global_batch_assumed",
        "info",
        f"No global batch was given: {sequences} sequences, {sequences * sequence_length / 1e6:.3g}M tokens, were "
        "taken. Where it is smaller, many GPUs wait more.",
    )


def not_fully_loaded(missing: tuple[str, ...], *, is_billed: bool) -> Note:
    """Owned hardware of whose yearly cost not everything is known."""
    *others, last = missing
    named = f"{', '.join(others)} and {last}" if others else last
    return Note(
        "owned_not_fully_loaded",
        "warning" if is_billed else "info",
        f"The fully loaded figure lacks {named}, of which nothing was said: it is too low by that. Give 0 for what "
        "costs nothing.",
    )


def egress_of_nothing() -> Note:
    """Tiers, and nothing that goes through them."""
    return Note(
        "egress_volume_unknown",
        "warning",
        "Egress has prices and no volume, and costs nothing here: give dataset_gb or exported_gb.",
    )


def commitment_unused(percent: float) -> Note:
    """Capacity that is paid and not used."""
    return Note(
        "commitment_unused",
        "warning",
        f"This run leaves {percent:.0f} % of the term unused: other runs have to fill it, or it is paid for nothing. "
        "Attribution to the term shows the whole bill.",
    )


def commitment_exceeded(gpu_hours: float) -> Note:
    """A run that goes beyond its commitment."""
    return Note(
        "commitment_exceeded",
        "warning",
        f"{gpu_hours:,.0f} GPU-hours lie beyond the commitment, in count or after its end, and cost what lies beyond.",
    )


def spot_dearer(threshold_percent: float, actual_percent: float) -> Note:
    """Spot capacity that saves nothing."""
    return Note(
        "spot_dearer",
        "warning",
        f"At these interruptions spot is cheaper from a discount of {threshold_percent:.0f} % on; this one is "
        f"{actual_percent:.0f} %: on demand costs less.",
    )


def spot_without_interruptions() -> Note:
    """Spot capacity that is never taken away."""
    return Note(
        "spot_without_interruptions",
        "warning",
        "Spot capacity is taken away; give rework of kind failures with its spot section, or the bill is too low.",
    )
