"""The named models: the file of them, and each by any of its names."""

import re
from functools import cache
from importlib.resources import files

from msgspec import toml

from service.catalog.directory import Directory
from service.catalog.model_schemas import Architecture, NamedModel
from service.catalog.names import words_of

_NOISE_WORDS = frozenset({"base", "hf", "model", "parameters"})
_SIZE = re.compile(r"[0-9]+(x[0-9]+)?[bm]")


@cache
def load_models() -> tuple[NamedModel, ...]:
    """Every model, in the file's order: by family, and within it by age and size."""
    document = (files("service.catalog") / "data" / "models.toml").read_bytes()
    return toml.decode(document, type=dict[str, tuple[NamedModel, ...]])["model"]


def get_model(name: str) -> NamedModel:
    """The model with this id, or the only one that this spelling fits.

    AmbiguousName names all that a generic name fits ("llama 70b"); UnknownName names the nearest.
    """
    return _directory().get(name)


def list_models(*, architecture: Architecture | None = None, q: str | None = None) -> tuple[NamedModel, ...]:
    """The models that pass every filter given, by id; `q` looks for a part of an id, name, maker or alias."""
    part = None if q is None else q.casefold()
    return tuple(
        model
        for model in sorted(load_models(), key=lambda model: model.id)
        if architecture in (None, model.architecture) and (part is None or _mentions(model, part))
    )


def _mentions(model: NamedModel, part: str) -> bool:
    return any(part in text.casefold() for text in (model.id, model.name, model.organisation, *model.aliases))


@cache
def _directory() -> Directory[NamedModel]:
    return Directory(
        "model", load_models(), words_of_row=_words, common_words=_common_words(), noise_words=_NOISE_WORDS
    )


def _words(model: NamedModel) -> frozenset[str]:
    """Every word that may be said of this row; its aliases know more of them ("qwen", "allenai")."""
    return frozenset().union(*map(words_of, (model.id, model.name, model.organisation, *model.aliases)))


def _common_words() -> frozenset[str]:
    """Words that say how large a model is, which version, or whose, and do not name it."""
    names = frozenset().union(*(words_of(model.id) | words_of(model.name) for model in load_models()))
    makers = frozenset().union(*(words_of(model.organisation) for model in load_models()))
    return (makers - names) | {word for word in names if word.isdigit() or _SIZE.fullmatch(word)}
