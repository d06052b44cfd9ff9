"""The named models: the file of them, and each by any of its names."""

import re
from functools import cache
from importlib.resources import files

from msgspec import toml

from service.catalog.model_schemas import Architecture, NamedModel
from service.catalog.names import Known, nearest, one_spelling, words_of
from service.errors import AmbiguousName, UnknownName

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
    rows = _by_id()
    row = rows.get(name)
    if row is not None:
        return row
    exact = _by_spelling().get(one_spelling(name))
    return rows[_only_fit(name) if exact is None else exact]


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


def _only_fit(name: str) -> str:
    """The id of the only row that every word of the name may be said of."""
    words = words_of(name) - _NOISE_WORDS
    fits = tuple(known.id for known in _known() if words <= known.words)
    if words - _common_words():
        if len(fits) > 1:
            raise AmbiguousName("model", name, fits)
        if fits:
            return fits[0]
    raise UnknownName("model", name, nearest(name, _known(), _common_words()))


@cache
def _by_id() -> dict[str, NamedModel]:
    return {model.id: model for model in load_models()}


@cache
def _by_spelling() -> dict[str, str]:
    """The id behind each exact spelling; that no two rows share one is a law of the data."""
    return {spelling: known.id for known in _known() for spelling in known.spellings}


@cache
def _known() -> tuple[Known, ...]:
    """Every row, by id."""
    return tuple(
        Known(
            id=model.id,
            spellings=tuple(one_spelling(text) for text in (model.id, model.name, *model.aliases)),
            words=_words(model),
        )
        for model in sorted(load_models(), key=lambda model: model.id)
    )


def _words(model: NamedModel) -> frozenset[str]:
    """Every word that may be said of this row; its aliases know more of them ("qwen", "allenai")."""
    return frozenset().union(*map(words_of, (model.id, model.name, model.organisation, *model.aliases)))


@cache
def _common_words() -> frozenset[str]:
    """Words that say how large a model is, which version, or whose, and do not name it."""
    names = frozenset().union(*(words_of(model.id) | words_of(model.name) for model in load_models()))
    makers = frozenset().union(*(words_of(model.organisation) for model in load_models()))
    return (makers - names) | {word for word in names if word.isdigit() or _SIZE.fullmatch(word)}
