"""What a transformer request trains: its shape or its parameters, its tokens, and the FLOPs that a token takes."""

from typing import Literal

from msgspec import UNSET, Struct

from service.catalog.models import get_model
from service.errors import BrokenRule
from service.estimates.record import Record
from service.estimates.work_schemas import DEFAULT_LORA_RANK, DEFAULT_SEQUENCE_LENGTH, TransformerWork
from service.estimator import advice
from service.estimator.answers import ComputeOptimal, FlopsBasis
from service.estimator.flops import (
    BESIROGLU,
    CAUSAL_ATTENTION,
    EPOCHS_LIKE_FRESH_DATA,
    FULL_ATTENTION,
    Training,
    compute_optimal_parameters,
    six_nd_flops,
    tokens_for,
    training_flops_per_token,
    training_loss,
)
from service.estimator.memory import MIXED_PRECISION, SINGLE_PRECISION, NumberFormat, checkpoint_bytes
from service.estimator.parameters import (
    LoraTarget,
    active_lora_parameters,
    active_parameters,
    check_lora_targets,
    lora_parameters,
    lora_targets,
    total_parameters,
)
from service.estimator.shapes import ModelShape, check_shape
from service.estimator.utilisation import WIDE_PRECISIONS

_SEQUENCE_ASSUMED = "assumed: usual for pre-training"
_FROZEN_SHARE = 4 / 6


class Subject(Struct, frozen=True, kw_only=True):
    """What is trained. Without a shape FLOPs are 6ND and adapters' own parameters are left out."""

    shape: ModelShape | None
    parameters: float
    active_parameters: float
    trained_tokens: float
    sequence_length: int
    training: Training
    lora_parameters: int
    active_lora_parameters: int
    numbers: NumberFormat = MIXED_PRECISION

    @property
    def flops_basis(self) -> FlopsBasis:
        return "6nd" if self.shape is None else "shape"

    @property
    def is_mixture(self) -> bool:
        if self.shape is not None:
            return self.shape.moe is not None
        return self.active_parameters < self.parameters

    @property
    def checkpoint_bytes(self) -> float | None:
        """To resume from: all parameters, or the adapters alone; None where no shape says how large these are."""
        trained = self.parameters if self.training == "full" else self.lora_parameters
        return float(checkpoint_bytes(trained, self.numbers.checkpoint)) if trained else None

    def flops_per_token(self, attention: Literal["full", "causal"]) -> float:
        """Model FLOPs, forward and backward."""
        if self.shape is None:
            full = float(six_nd_flops(self.active_parameters, 1))
            return full if self.training == "full" else full * _FROZEN_SHARE
        counted = FULL_ATTENTION if attention == "full" else CAUSAL_ATTENTION
        return float(
            training_flops_per_token(
                self.shape, self.sequence_length, counted, self.training, self.active_lora_parameters
            )
        )


def subject_of(record: Record, work: TransformerWork) -> Subject:
    """The model that the work names, describes or counts; BrokenRule where it does none or several of these."""
    said = [field for field in ("model", "shape", "parameters") if getattr(work, field) is not UNSET]
    if len(said) != 1:
        told = "Say what is trained: exactly one of model, shape and parameters"
        raise BrokenRule.at(f"/work/{said[1]}" if said else "/work", told)
    if work.active_parameters is not UNSET and work.parameters is UNSET:
        raise BrokenRule.at("/work/active_parameters", "They go with parameters; a shape says them itself")
    if work.training == "full" and work.lora is not UNSET:
        raise BrokenRule.at("/work/lora", "Adapters go with training lora or qlora")
    tokens_known: float | None = None
    length_known: int | None = None
    shape = None if work.shape is UNSET else work.shape
    source = "request"
    if work.model is not UNSET:
        try:
            named = get_model(work.model)
        except BrokenRule as error:
            raise error.placed("/work/model") from None
        shape, source = named.shape, named.source
        tokens_known, length_known = named.trained_tokens, named.sequence_length
        record.say("work.model", named.id, "catalogue", named.source)
    elif shape is not None:
        check_shape(shape)
    length = _sequence_length(record, work, length_known, source)
    tokens = _tokens(record, work, tokens_known, source)
    epochs = record.pick("work.epochs", work.epochs, 1.0, "one pass over the tokens")
    if epochs > EPOCHS_LIKE_FRESH_DATA:
        record.note(advice.many_epochs(epochs))
    lora, active_lora = _adapters(record, work, shape)
    parameters, active = _parameters(record, work, shape)
    return Subject(
        shape=shape,
        parameters=parameters,
        active_parameters=active,
        trained_tokens=tokens * epochs,
        sequence_length=length,
        training=work.training,
        lora_parameters=lora,
        active_lora_parameters=active_lora,
        numbers=SINGLE_PRECISION if work.precision in WIDE_PRECISIONS else MIXED_PRECISION,
    )


def compute_optimal_of(record: Record, subject: Subject) -> ComputeOptimal | None:
    """Where a dense pre-training stands against the least loss for its FLOPs; None for anything else, such as a
    fine-tuning, which has fewer tokens than parameters."""
    if subject.training != "full" or subject.is_mixture or subject.trained_tokens < subject.parameters:
        return None
    flops = float(six_nd_flops(subject.parameters, subject.trained_tokens))
    best = float(compute_optimal_parameters(flops))
    tokens = float(tokens_for(flops, best))
    loss = float(training_loss(best, tokens, BESIROGLU))
    own_loss = float(training_loss(subject.parameters, subject.trained_tokens, BESIROGLU))
    own_ratio = subject.trained_tokens / subject.parameters
    record.note(advice.compute_optimal(own_ratio, tokens / best, own_loss - loss))
    return ComputeOptimal(
        parameters=best,
        tokens=tokens,
        tokens_per_parameter=tokens / best,
        loss=loss,
        run_tokens_per_parameter=own_ratio,
        run_loss=own_loss,
    )


def _sequence_length(record: Record, work: TransformerWork, known: int | None, source: str) -> int:
    if work.sequence_length is UNSET and known is not None:
        record.say("work.sequence_length", known, "catalogue", source)
        return known
    return record.pick("work.sequence_length", work.sequence_length, DEFAULT_SEQUENCE_LENGTH, _SEQUENCE_ASSUMED)


def _tokens(record: Record, work: TransformerWork, known: float | None, source: str) -> float:
    if work.tokens is not UNSET:
        record.say("work.tokens", work.tokens, "given", "request")
        return work.tokens
    if known is None:
        raise BrokenRule.at("/work/tokens", "Say how many tokens are trained; nobody has published it of this model")
    record.say("work.tokens", known, "catalogue", source)
    return known


def _adapters(record: Record, work: TransformerWork, shape: ModelShape | None) -> tuple[int, int]:
    """Parameters of the adapters, in all and active; 0 where there are none, or no shape to have them."""
    if work.training == "full":
        return 0, 0
    rank = record.pick(
        "work.lora.rank", UNSET if work.lora is UNSET else work.lora.rank, DEFAULT_LORA_RANK, "a usual rank"
    )
    if shape is None:
        record.note(advice.lora_parameters_unknown())
        return 0, 0
    targets: tuple[LoraTarget, ...] = lora_targets(shape)
    if work.lora is not UNSET and work.lora.targets is not UNSET:
        targets = work.lora.targets
        check_lora_targets(shape, targets)
    given = work.lora is not UNSET and work.lora.targets is not UNSET
    source = "request" if given else "every matrix of a layer"
    record.say("work.lora.targets", ", ".join(targets), "given" if given else "default", source)
    return lora_parameters(shape, rank, targets), active_lora_parameters(shape, rank, targets)


def _parameters(record: Record, work: TransformerWork, shape: ModelShape | None) -> tuple[float, float]:
    """In all, and at work on one token."""
    if shape is not None:
        total, active = total_parameters(shape), active_parameters(shape)
        record.say("work.parameters", float(total), "derived", "L W + embeddings, every expert counted")
        if shape.moe is not None:
            record.say(
                "work.active_parameters", float(active), "derived", "only the experts that a token passes through"
            )
        return float(total), float(active)
    assert work.parameters is not UNSET  # the caller has checked
    record.say("work.parameters", work.parameters, "given", "request")
    if work.active_parameters is UNSET:
        return work.parameters, work.parameters
    if work.active_parameters > work.parameters:
        raise BrokenRule.at("/work/active_parameters", "No more can be active than there are")
    record.say("work.active_parameters", work.active_parameters, "given", "request")
    return work.parameters, work.active_parameters
