"""The links between accelerators: the file of them, and each by its id."""

from functools import cache
from importlib.resources import files

from msgspec import toml

from service.catalog.names import Known, nearest, one_spelling, words_of
from service.catalog.schemas import Interconnect
from service.errors import UnknownName


@cache
def load_interconnects() -> tuple[Interconnect, ...]:
    """Every interconnect, in the file's order: scale-up first, then scale-out from fast to slow."""
    document = (files("service.catalog") / "data" / "interconnects.toml").read_bytes()
    return toml.decode(document, type=dict[str, tuple[Interconnect, ...]])["interconnect"]


def get_interconnect(id: str) -> Interconnect:
    """The interconnect with this id; UnknownName names the nearest."""
    try:
        return _by_id()[id]
    except KeyError:
        raise UnknownName("interconnect", id, nearest(id, _known())) from None


@cache
def _by_id() -> dict[str, Interconnect]:
    return {row.id: row for row in load_interconnects()}


@cache
def _known() -> tuple[Known, ...]:
    return tuple(
        Known(
            id=row.id,
            spellings=(one_spelling(row.id), one_spelling(row.name)),
            words=words_of(row.id) | words_of(row.name),
        )
        for row in load_interconnects()
    )
