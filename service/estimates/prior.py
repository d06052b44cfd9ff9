"""What is usual where the step model has no say: the family's MFU, times what this run's precision, experts, adapters
and network leave of it."""

from msgspec import UNSET, structs

from service.estimates.memory import Site
from service.estimates.stepwise import adapter_gain, bf16_peak, modelled_if_any, precision_gain
from service.estimates.subject import Subject
from service.estimates.work_schemas import TransformerWork
from service.estimator.evidence import Usual
from service.estimator.usual_shape import usual_shape
from service.estimator.utilisation import NARROW_PRECISIONS, family_prior, mixture_factor


def usual_of(work: TransformerWork, subject: Subject, site: Site) -> Usual:
    """The family's usual MFU against its BF16 peak, all attention counted; experts, narrow precisions and quantized
    adapters by their published factors, a slow network by the step model."""
    chip = site.chip
    prior = family_prior(chip.family, one_node=site.gpu_count <= site.gpus_per_node)
    narrow = work.precision in NARROW_PRECISIONS
    return Usual(
        mfu=prior.mfu,
        sigma_ln=prior.sigma_ln,
        source=prior.source,
        peak_flops_per_second=bf16_peak(chip, work.precision) if narrow else chip.peak_flops_per_second,
        precision_factor=precision_gain(chip, work.precision),
        mixture_factor=mixture_factor(chip.family, chip.one_rack) if subject.is_mixture else 1.0,
        adapter_factor=adapter_gain(subject),
        network_factor=network_factor(work, subject, site),
    )


def tokens_per_second_of_one(usual: Usual, subject: Subject) -> float:
    """Tokens a second of one accelerator; a network that nobody can reckon with takes nothing."""
    mfu = usual.mfu * usual.mixture_factor * usual.adapter_factor * (usual.network_factor or 1.0)
    return mfu * usual.peak_flops_per_second * usual.precision_factor / subject.flops_per_token("full")


def network_factor(work: TransformerWork, subject: Subject, site: Site) -> float | None:
    """What a network below all published ones leaves of the throughput over the one that the accelerator is sold with:
    the step model's ratio for a dense GPT with as many parameters as one token meets, the fastest layout in both. None
    where the step model has no say, or nothing that divides fits."""
    chip = site.chip
    needed = chip.needs_network(site.gpu_count, site.gpus_per_node)
    if not needed or not chip.network_is_slow or (chip.network_gbps or 0.0) >= chip.usual_network_gbps:
        return 1.0
    unsplit = structs.replace(work, layout=UNSET)
    dense = structs.replace(subject, shape=usual_shape(subject.active_parameters), parameters=subject.active_parameters)
    usual = structs.replace(site, chip=chip.with_usual_network())
    here, there = (modelled_if_any(unsplit, dense, place, site.gpu_count) for place in (site, usual))
    if here is None or there is None:
        return None
    return min(1.0, here.tokens_per_second / there.tokens_per_second)
