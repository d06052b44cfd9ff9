"""Price tables for estimates in process: rates put in by name and revision, and those that come with the release."""

import datetime
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import pytest

from service.errors import BrokenRule, Fault
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import read_custom
from service.http.encoding import encoded
from service.http.text import name_key
from service.prices.default import CURRENCY, default_as_of, load_default_rates
from service.prices.lookup import RateIndex
from service.prices.offers import in_order
from service.prices.schemas import Rate
from service.prices.snapshots import Snapshot
from service.prices.store import RELEASED_NAME

_decoder = msgspec.json.Decoder(EstimateRequest, dec_hook=read_custom)


class InMemory:
    """Tables as a worker holds them, without a database."""

    def __init__(self) -> None:
        self._held: dict[str, list[Snapshot]] = {}

    def put(
        self, name: str, rates: Iterable[Rate], currency: str = "USD", as_of: datetime.date | None = None
    ) -> "InMemory":
        """Another revision of a table."""
        ordered = in_order(rates)
        revisions = self._held.setdefault(name_key(name), [])
        number = len(revisions) + 1
        index = RateIndex(ordered)
        revisions.append(Snapshot(1, name, currency, number, number, as_of, len(ordered), index))
        return self

    def find(self, name: str, revision: int | None = None) -> Snapshot | None:
        """The newest revision, or the one of this number."""
        revisions = self._held.get(name_key(name), [])
        if revision is None:
            return revisions[-1] if revisions else None
        return revisions[revision - 1] if revision <= len(revisions) else None


@cache
def list_prices() -> InMemory:
    """The table that comes with the release, as it is after a first start."""
    return InMemory().put(RELEASED_NAME, load_default_rates(), CURRENCY, default_as_of())


def table_of(*rates: Rate, currency: str = "USD", as_of: datetime.date | None = None) -> InMemory:
    """These rates as the one revision of the table that is read where none is named."""
    return InMemory().put(RELEASED_NAME, rates, currency, as_of)


def answer_bytes(body: dict[str, Any], tables: InMemory, *, explain: bool = False) -> bytes:
    """What is answered to this body with these tables, to the byte."""
    return encoded(estimate(_decoder.decode(json.dumps(body)), explain=explain, tables=tables))


def ask(body: dict[str, Any], tables: InMemory, *, explain: bool = False) -> dict[str, Any]:
    """The answer to this body with these tables."""
    answer: dict[str, Any] = json.loads(answer_bytes(body, tables, explain=explain))
    return answer


def refused(body: dict[str, Any], tables: InMemory) -> Fault:
    """Why this body cannot be answered with these tables: the first fault."""
    with pytest.raises(BrokenRule) as caught:
        answer_bytes(body, tables)
    return caught.value.faults[0]
