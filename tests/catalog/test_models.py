"""Laws of the named models, over every row, and which model a name means."""

import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.catalog.model_schemas import NamedModel
from service.catalog.models import get_model, load_models
from service.catalog.names import one_spelling
from service.errors import AmbiguousName, UnknownName
from service.estimator.parameters import active_parameters, total_parameters
from service.estimator.shapes import check_shape

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
PIECES = ["llama", "Llama", "2", "3.1", "70b", "7B", "qwen", "mistral", "meta", "GPT", " ", "-", "/"]

every_model = pytest.mark.parametrize("model", load_models(), ids=lambda model: model.id)


def spellings(model: NamedModel) -> tuple[str, ...]:
    return (model.id, model.name, *model.aliases)


def test_there_are_24_models() -> None:
    assert len(load_models()) == 24


def test_ids_are_unique() -> None:
    assert len({model.id for model in load_models()}) == len(load_models())


@every_model
def test_a_model_has_a_slug_a_source_and_a_shape_that_can_be(model: NamedModel) -> None:
    assert SLUG.fullmatch(model.id)
    assert model.source.strip()
    check_shape(model.shape)


@every_model
def test_the_shape_has_the_published_parameters_within_1_percent(model: NamedModel) -> None:
    assert total_parameters(model.shape) == pytest.approx(model.parameters, rel=0.01)


@every_model
def test_a_count_that_is_published_to_the_parameter_is_met_within_a_tenth_of_a_percent(model: NamedModel) -> None:
    if model.parameters % 1_000_000:  # else rounded
        assert total_parameters(model.shape) == pytest.approx(model.parameters, rel=0.001)


@every_model
def test_a_mixture_has_its_published_active_parameters_within_3_percent_and_says_why_not_1(model: NamedModel) -> None:
    assert (model.architecture == "moe") == (model.shape.moe is not None)
    if model.architecture == "dense":
        assert model.active_parameters == model.parameters
        return
    assert model.active_parameters < model.parameters
    assert active_parameters(model.shape) == pytest.approx(model.active_parameters, rel=0.03)
    assert "active" in (model.notes or "")


@every_model
def test_defaults_are_written_out(model: NamedModel) -> None:
    assert model.shape.kv_heads is not None
    assert model.shape.head_dim is not None


@every_model
def test_a_model_that_was_trained_saw_more_tokens_than_it_has_parameters(model: NamedModel) -> None:
    if model.trained_tokens is None:
        assert "not published" in (model.notes or "")
    elif model.id != "mt-nlg-530b":  # half a token a parameter, as published
        assert model.trained_tokens > model.parameters


@every_model
def test_a_shape_enters_a_request_as_it_was_answered(model: NamedModel) -> None:
    assert msgspec.json.decode(msgspec.json.encode(model), type=NamedModel) == model


@pytest.mark.parametrize(
    ("id", "parameters"),
    [
        ("llama-3-8b", 8_029_995_008),
        ("llama-3-1-70b", 70_552_387_584),
        ("llama-3-1-405b", 405_849_243_648),
        ("deepseek-v3", 671_025_397_760),
    ],
)
def test_a_count_is_of_matrices_only(id: str, parameters: int) -> None:
    assert total_parameters(get_model(id).shape) == parameters


@every_model
def test_every_spelling_of_a_model_means_that_model(model: NamedModel) -> None:
    assert {get_model(text).id for text in spellings(model)} == {model.id}


@every_model
def test_case_and_separators_do_not_matter(model: NamedModel) -> None:
    for text in spellings(model):
        assert get_model(text.upper()).id == model.id
        assert get_model(f" {text.lower().replace(' ', '_')} ").id == model.id


def test_no_spelling_is_shared_by_two_models() -> None:
    owners: dict[str, set[str]] = {}
    for model in load_models():
        for text in spellings(model):
            owners.setdefault(one_spelling(text), set()).add(model.id)
    assert {text: ids for text, ids in owners.items() if len(ids) > 1} == {}


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("Llama-3.1-70B", "llama-3-1-70b"),
        ("llama3.1 8b", "llama-3-1-8b"),
        ("llama 405b", "llama-3-1-405b"),
        ("meta llama 2 13b", "llama-2-13b"),
        ("meta-llama/Llama-2-70b", "llama-2-70b"),
        ("GPT-3", "gpt-3-175b"),
        ("gpt", "gpt-3-175b"),
        ("BLOOM", "bloom-176b"),
        ("deepseek", "deepseek-v3"),
        ("Mixtral", "mixtral-8x7b"),
        ("qwen 72b", "qwen2-5-72b"),
        ("Qwen3", "qwen3-235b-a22b"),
        ("OLMo 7B", "olmo-7b"),
        ("olmo2-7b", "olmo-2-7b"),
        ("TinyLlama", "tinyllama-1-1b"),
        ("Megatron-Turing", "mt-nlg-530b"),
    ],
)
def test_a_well_known_spelling_resolves(name: str, id: str) -> None:
    assert get_model(name).id == id


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("llama 70b", ("llama-2-70b", "llama-3-1-70b", "llama-3-70b")),
        ("Llama 2", ("llama-2-13b", "llama-2-70b", "llama-2-7b")),
        ("pythia", ("pythia-12b", "pythia-1b")),
        ("mistral", ("mistral-7b", "mixtral-8x7b")),
    ],
)
def test_a_generic_name_is_ambiguous(name: str, candidates: tuple[str, ...]) -> None:
    with pytest.raises(AmbiguousName) as caught:
        get_model(name)
    assert caught.value.candidates == candidates


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("lama-2-7b", "llama-2-7b"),
        ("Llama 2 34B", "llama-2-7b"),
        ("mixtral-8x22b", "mixtral-8x7b"),
        ("GPT-4", "gpt-3-175b"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownName) as caught:
        get_model(name)
    assert nearest in caught.value.candidates
    assert len(caught.value.candidates) <= 5


@pytest.mark.parametrize("name", ["", " ", "70B", "7b model", "Meta", "Alibaba", "2", "OLMo 13B 32B", "no such thing"])
def test_words_that_name_no_model_are_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        get_model(name)


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@example("\ud800")
@example("llama\x00")
@example("llama " * 10_000)
def test_any_text_resolves_or_is_refused_and_nothing_else(name: str) -> None:
    try:
        model = get_model(name)
    except AmbiguousName as error:
        assert len(error.candidates) > 1
    except UnknownName as error:
        assert len(error.candidates) <= 5
    else:
        assert model in load_models()
