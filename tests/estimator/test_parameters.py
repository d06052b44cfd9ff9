"""How many parameters a shape has, against published counts; which shapes cannot be; and laws of both."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BrokenRule
from service.estimator.parameters import (
    LoraTarget,
    active_lora_parameters,
    active_parameters,
    check_lora_targets,
    expert_parameters,
    layers_parameters,
    lora_parameters,
    lora_targets,
    total_parameters,
)
from service.estimator.shapes import MixtureOfExperts, ModelShape, check_shape, head_dim_of, kv_heads_of

LLAMA_2_7B = ModelShape(layers=32, hidden=4096, heads=32, ffn_hidden=11008, vocabulary=32000)
LLAMA_3_8B = ModelShape(layers=32, hidden=4096, heads=32, kv_heads=8, ffn_hidden=14336, vocabulary=128256)
LLAMA_3_70B = ModelShape(layers=80, hidden=8192, heads=64, kv_heads=8, ffn_hidden=28672, vocabulary=128256)
LLAMA_3_405B = ModelShape(layers=126, hidden=16384, heads=128, kv_heads=8, ffn_hidden=53248, vocabulary=128256)
# Multi-head latent attention, arXiv 2412.19437 section 4.2: queries over 1,536, keys and values over 512 + 64.
MLA_PARAMETERS = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168
DEEPSEEK_V3 = ModelShape(
    layers=61,
    hidden=7168,
    heads=128,
    head_dim=160,
    ffn_hidden=18432,
    vocabulary=129280,
    attention_parameters_per_layer=MLA_PARAMETERS,
    moe=MixtureOfExperts(experts=256, experts_per_token=8, shared_experts=1, expert_ffn_hidden=2048, dense_layers=3),
)
MIXTRAL = ModelShape(
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn_hidden=14336,
    vocabulary=32000,
    moe=MixtureOfExperts(experts=8, experts_per_token=2, expert_ffn_hidden=14336),
)


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    """Any shape that can be, up to a few layers and experts."""
    kv_heads = draw(st.integers(1, 16))
    layers = draw(st.integers(1, 100))
    moe = None
    if draw(st.booleans()):
        experts = draw(st.integers(1, 64))
        moe = MixtureOfExperts(
            experts=experts,
            experts_per_token=draw(st.integers(1, experts)),
            shared_experts=draw(st.integers(0, 2)),
            expert_ffn_hidden=draw(st.integers(1, 10_000)),
            dense_layers=draw(st.integers(0, layers - 1)),
        )
    return ModelShape(
        layers=layers,
        hidden=draw(st.integers(1, 20_000)),
        heads=kv_heads * draw(st.integers(1, 8)),
        kv_heads=kv_heads,
        head_dim=draw(st.integers(1, 256)),
        ffn_hidden=draw(st.integers(1, 50_000)),
        ffn_matrices=draw(st.sampled_from([2, 3])),
        vocabulary=draw(st.integers(1, 300_000)),
        tied_embeddings=draw(st.booleans()),
        moe=moe,
    )


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [(LLAMA_3_8B, 8_029_995_008), (LLAMA_3_70B, 70_552_387_584), (LLAMA_3_405B, 405_849_243_648)],
    ids=["8B", "70B", "405B"],
)
def test_llama_3_is_exact(shape: ModelShape, parameters: int) -> None:
    assert total_parameters(shape) == parameters


def test_deepseek_v3_is_exact() -> None:
    assert MLA_PARAMETERS == 187_105_280
    assert total_parameters(DEEPSEEK_V3) == 671_025_397_760  # published 671B
    assert active_parameters(DEEPSEEK_V3) == 36_624_596_992  # published 37B, 36.7B in README_WEIGHTS.md


def test_tied_embeddings_are_stored_once() -> None:
    tied = msgspec.structs.replace(LLAMA_3_8B, tied_embeddings=True)
    assert total_parameters(LLAMA_3_8B) - total_parameters(tied) == 128256 * 4096
    assert active_parameters(tied) == active_parameters(LLAMA_3_8B) == total_parameters(tied)


@pytest.mark.parametrize(
    ("shape", "rank", "targets", "parameters"),
    [
        (LLAMA_2_7B, 8, ("query", "value"), 4_194_304),
        (LLAMA_2_7B, 16, lora_targets(LLAMA_2_7B), 39_976_960),
        (LLAMA_3_8B, 16, lora_targets(LLAMA_3_8B), 41_943_040),
    ],
    ids=["7B r=8 q,v", "7B r=16 all", "8B r=16 all"],
)
def test_adapters_have_as_many_parameters_as_peft_prints(
    shape: ModelShape, rank: int, targets: tuple[LoraTarget, ...], parameters: int
) -> None:
    """huggingface/peft `print_trainable_parameters`, as quoted in many public fine-tuning logs."""
    assert lora_parameters(shape, rank, targets) == active_lora_parameters(shape, rank, targets) == parameters


def test_every_expert_has_adapters_and_a_token_meets_a_few() -> None:
    attention: tuple[LoraTarget, ...] = ("query", "key", "value", "output")
    ffn: tuple[LoraTarget, ...] = ("gate", "up", "down")
    assert lora_parameters(MIXTRAL, 8, ffn) == 4 * active_lora_parameters(MIXTRAL, 8, ffn)
    assert lora_parameters(MIXTRAL, 8, attention) == active_lora_parameters(MIXTRAL, 8, attention)


def test_latent_attention_has_no_single_matrix_to_adapt() -> None:
    assert lora_targets(DEEPSEEK_V3) == ("gate", "up", "down")
    check_lora_targets(DEEPSEEK_V3, ("up",))
    with pytest.raises(BrokenRule) as caught:
        check_lora_targets(DEEPSEEK_V3, ("query", "up"), "/work/lora/targets")
    assert caught.value.faults[0].pointer == "/work/lora/targets"
    assert "query" in caught.value.detail


def test_two_matrices_have_no_gate() -> None:
    gelu = msgspec.structs.replace(LLAMA_2_7B, ffn_matrices=2)
    assert "gate" not in lora_targets(gelu)
    with pytest.raises(BrokenRule):
        check_lora_targets(gelu, ("gate",))


def test_heads_and_their_width_have_defaults() -> None:
    assert kv_heads_of(LLAMA_2_7B) == 32
    assert head_dim_of(LLAMA_2_7B) == 128


@pytest.mark.parametrize(
    ("change", "pointer", "hint"),
    [
        ({"kv_heads": 5}, "/work/shape/kv_heads", "4 would"),
        ({"kv_heads": 64}, "/work/shape/kv_heads", "32 would"),
        ({"heads": 24, "kv_heads": 8}, "/work/shape/head_dim", "give head_dim"),
        (
            {"moe": MixtureOfExperts(experts=4, experts_per_token=5, expert_ffn_hidden=1)},
            "/work/shape/moe/experts_per_token",
            "4 experts",
        ),
        (
            {"moe": MixtureOfExperts(experts=4, experts_per_token=1, expert_ffn_hidden=1, dense_layers=32)},
            "/work/shape/moe/dense_layers",
            "31",
        ),
    ],
)
def test_a_shape_that_cannot_be_is_refused_at_its_field(change: dict[str, object], pointer: str, hint: str) -> None:
    with pytest.raises(BrokenRule) as caught:
        check_shape(msgspec.structs.replace(LLAMA_3_8B, **change))
    assert [fault.pointer for fault in caught.value.faults] == [pointer]
    assert hint in caught.value.detail


def test_every_fault_is_named() -> None:
    with pytest.raises(BrokenRule) as caught:
        check_shape(msgspec.structs.replace(LLAMA_3_8B, heads=30, kv_heads=7), "/shape")
    assert [fault.pointer for fault in caught.value.faults] == ["/shape/kv_heads", "/shape/head_dim"]


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"layers":1,"hidden":1,"heads":1,"ffn_hidden":1,"vocabulary":1,"dropout":0}', type=ModelShape
        )


@given(shapes())
def test_a_drawn_shape_can_be(shape: ModelShape) -> None:
    check_shape(shape)


@given(shapes())
def test_active_parameters_are_never_more_than_all(shape: ModelShape) -> None:
    assert 0 < active_parameters(shape) <= total_parameters(shape)
    assert 0 <= expert_parameters(shape) <= layers_parameters(shape)


@given(shapes(), st.integers(1, 64))
def test_active_adapters_are_never_more_than_all(shape: ModelShape, rank: int) -> None:
    targets = lora_targets(shape)
    assert 0 < active_lora_parameters(shape, rank, targets) <= lora_parameters(shape, rank, targets)
    assert lora_parameters(shape, 2 * rank, targets) == 2 * lora_parameters(shape, rank, targets)


@given(shapes())
def test_a_mixture_of_one_expert_is_a_dense_model_with_a_router(shape: ModelShape) -> None:
    one = MixtureOfExperts(experts=1, experts_per_token=1, expert_ffn_hidden=shape.ffn_hidden)
    dense, mixture = (msgspec.structs.replace(shape, moe=moe) for moe in (None, one))
    assert total_parameters(mixture) - total_parameters(dense) == shape.layers * shape.hidden
    assert active_parameters(mixture) - active_parameters(dense) == shape.layers * shape.hidden
