"""Why two evaluations differ: effects of inputs, prices, model version and currency that add up to the cent.

Sequential substitution: from the earlier point, one thing at a time becomes what it is at the later one, and what the
total then moves by is its effect. Inputs come first, field by field in the order of the request's sections (within one
alphabetically), then prices, then the model version, then the currency: that of the price, the request's own exchange,
and the rates that totals are converted by. The order matters, for effects of
things that multiply each other depend on which is changed first; any fixed order telescopes, so the sum is exact
without a remainder that belongs to nobody. This one asks of what people decided first, at the prices that they knew,
and of what happened to them afterwards. Averages over all orders (Shapley) would need 2^n evaluations and rounding.

An amount of another currency is another amount: the caller makes it differ, and `evaluate` takes what it is worth in
the currency of the request that it stands in. So what is typed in another currency is an input at its worth, and what
is left for the currency's own field is what the conversion does by itself: at one rate on both sides, rounding.

An old model version cannot be run again. Every evaluation is made by the current one, so the model's effect is what
evaluating the stored points now moves them by: the earlier point's total evaluated now less the stored one, and the
same at the later point, if that is old too, the other way round.

A typed price is an input; the effect of prices is that of another revision of a price table, or another day of it. So
`/price/revision` and `/price/as_of` (and those of `from_table`) are not inputs: the point's `prices` say which are
meant, and `evaluate` goes by them. Substituting half of what belongs together can make a request that cannot be
(another `kind` is replaced whole for that reason): such a field is taken together with the next ones until the request
can be evaluated again.
"""

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from service.errors import BrokenRule
from service.estimates.bill_schemas import Exchange
from service.estimates.schemas import EstimateRequest
from service.estimator.results import Note
from service.money import exact_arithmetic, nothing, number
from service.scenarios.arithmetic.rates import ExchangeRates
from service.units import PERCENT

EffectKind = Literal["input", "price", "model", "currency", "joint"]
SimpleKind = Literal["input", "price", "model", "currency"]

SECTIONS = EstimateRequest.__struct_fields__
PRICES_SAY = frozenset(
    f"{section}/{field}"
    for section in ("/price", "/storage/from_table", "/egress/from_table")
    for field in ("revision", "as_of")
)
_PRICE_CURRENCY = ("price", "currency")
_EXCHANGE = "exchange"
_KIND = "kind"


class PriceVersion(Struct, frozen=True, kw_only=True):
    """Which prices of a table were used."""

    table: str
    revision: int
    as_of: Annotated[datetime.date, Meta(description="The day whose prices these are.")]
    revision_id: int | None = None


class PriceVersions(Struct, frozen=True, kw_only=True):
    """The same by section of the request; None where a section read no table."""

    price: PriceVersion | None
    storage: PriceVersion | None
    egress: PriceVersion | None


class StatedRates(Struct, frozen=True, kw_only=True):
    """What was exchanged within the request, and what its total was converted by."""

    exchange: Exchange | None
    conversion: ExchangeRates | None


class Point(Struct, frozen=True, kw_only=True):
    """All that a total depends on."""

    request: Annotated[dict[str, Any], Meta(description="The estimate request, as JSON.")]
    prices: Annotated[PriceVersion | PriceVersions | None, Meta(description="Null where no price came from a table.")]
    model_version: str
    rates: Annotated[ExchangeRates | StatedRates | None, Meta(description="Null where nothing was converted.")]


class Evaluation(Struct, frozen=True, kw_only=True):
    """A point and what it came to when it was stored."""

    point: Point
    currency: Annotated[str, Meta(description="Of `total`: after conversion, where there was one.")]
    total: Decimal


class Effect(Struct, frozen=True):
    """What one change moved the total by."""

    kind: Annotated[EffectKind, Meta(description="`joint` where changes of several kinds only go together.")]
    kinds: Annotated[tuple[SimpleKind, ...], Meta(description="The kind, or all that go together.")]
    fields: Annotated[
        tuple[str, ...],
        Meta(
            description="JSON pointers of the inputs that changed; several where one without the others cannot be.",
            examples=[["/cluster/gpu_count"]],
        ),
    ]
    amount: Annotated[Decimal, Meta(description="Later less earlier; 0 where the change costs nothing.")]


class KindTotals(Struct, frozen=True):
    """The effects by kind; they add up to the difference."""

    input: Decimal
    price: Decimal
    model: Decimal
    currency: Decimal
    joint: Decimal


class Attribution(Struct, frozen=True):
    """The difference of two totals, by what caused it. Null where the totals cannot be compared."""

    currency: Annotated[str, Meta(description="Of the earlier total, and of all amounts if nothing is null.")]
    before: Decimal
    after: Decimal
    difference: Annotated[Decimal | None, Meta(description="Later less earlier.")]
    difference_percent: Annotated[float | None, Meta(description="Of the earlier total; null if that is 0.")]
    by_kind: KindTotals | None
    effects: Annotated[tuple[Effect, ...] | None, Meta(description="In the order in which they were taken.")]
    order: Annotated[tuple[SimpleKind, ...], Meta(description="The order of the kinds, which effects depend on.")]
    notes: tuple[Note, ...]


class Change(Struct, frozen=True):
    """One field of a request that differs; None where it is not there."""

    path: tuple[str, ...]
    before: Any
    after: Any

    @property
    def pointer(self) -> str:
        """As a JSON pointer (RFC 6901)."""
        return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in self.path)

    @property
    def kind(self) -> SimpleKind:
        """What is the currency's, and not an input."""
        return "currency" if self.path == _PRICE_CURRENCY or self.path[0] == _EXCHANGE else "input"


Evaluate = Callable[[Point], Decimal]
_ORDER: tuple[SimpleKind, ...] = ("input", "price", "model", "currency")


def attributed(before: Evaluation, after: Evaluation, evaluate: Evaluate, model_version: str) -> Attribution:
    """The effects of everything that differs. `evaluate` makes a total of any point by the current model version, in
    the common currency, or raises BrokenRule (or msgspec's ValidationError) where there can be none."""
    if before.currency != after.currency:
        told = f"The totals are in {before.currency} and {after.currency}, and no rate between them is given."
        notes = (Note("currencies-differ", "warning", told),)
        return Attribution(before.currency, before.total, after.total, None, None, None, None, _ORDER, notes)
    with exact_arithmetic():
        effects, is_together = _effects(before, after, evaluate, model_version)
        difference = after.total - before.total
        percent = number(difference * PERCENT / before.total) if before.total else None
        return Attribution(
            before.currency,
            before.total,
            after.total,
            difference,
            percent,
            _by_kind(effects, nothing(before.currency)),
            effects,
            _ORDER,
            _notes(before, after, effects, model_version, is_together=is_together),
        )


def changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    """Every field that differs, in the order of the request's sections, with those of the currency at the end; a
    section of another `kind`, or one that the other request does not have, is one field, and so is a list, and an
    exchange, whose rate means nothing without its currencies."""
    found = _changes(before, after, ())
    return tuple(sorted(found, key=lambda change: (_ORDER.index(change.kind), _section(change), change.path)))


def substituted(request: dict[str, Any], change: Change) -> dict[str, Any]:
    """The request with one field as it is afterwards."""
    return _replaced(request, change.path, change.after)


# ------------------------------------------------------------------------------------------- effects


class _Step(Struct, frozen=True):
    """The next thing to change, and the point once it has."""

    kind: SimpleKind
    fields: tuple[str, ...]
    point: Point


def _effects(
    before: Evaluation, after: Evaluation, evaluate: Evaluate, model_version: str
) -> tuple[tuple[Effect, ...], bool]:
    """One after the other, and whether one of them is of several changes."""
    effects: list[Effect] = []
    is_together = False
    waiting: list[tuple[SimpleKind, tuple[str, ...]]] = []
    here = _find_total(before.point, evaluate)
    moved_by_model = nothing(before.currency)
    if here is None:  # the earlier request cannot be evaluated any more: the model goes with the first that can
        here, waiting = before.total, [("model", ())]
    else:
        moved_by_model = here - before.total
    for step in _steps(before.point, after.point):
        waiting.append((step.kind, step.fields))
        there = _find_total(step.point, evaluate)
        if there is not None:
            effects.append(_effect(waiting, there - here))
            is_together |= len(waiting) > 1
            here, waiting = there, []
    if waiting:
        if after.total != here or waiting != [("model", ())]:
            effects.append(_effect(waiting, after.total - here))
            is_together |= len(waiting) > 1
    else:
        moved_by_model += after.total - here
    versions = {before.point.model_version, after.point.model_version}
    told_elsewhere = any("model" in effect.kinds for effect in effects)
    if moved_by_model or (len(versions) > 1 and not told_elsewhere):
        model = Effect("model", ("model",), (), moved_by_model)
        at = next((index for index, effect in enumerate(effects) if "currency" in effect.kinds), len(effects))
        effects.insert(at, model)
    return tuple(effects), is_together


def _steps(before: Point, after: Point) -> Iterator[_Step]:
    """One substitution after the other; the model's is none, because all are evaluated by the current one."""
    point = structs.replace(before, model_version=after.model_version)
    differ = changes(before.request, after.request)
    for change in differ:
        if change.kind == "input":
            point = structs.replace(point, request=substituted(point.request, change))
            if change.pointer not in PRICES_SAY:
                yield _Step("input", (change.pointer,), point)
    if before.prices != after.prices:
        point = structs.replace(point, prices=after.prices)
        yield _Step("price", (), point)
    for change in differ:
        if change.kind == "currency":
            point = structs.replace(point, request=substituted(point.request, change))
            yield _Step("currency", (change.pointer,), point)
    if before.rates != after.rates:
        yield _Step("currency", (), structs.replace(point, rates=after.rates))


def _find_total(point: Point, evaluate: Evaluate) -> Decimal | None:
    """What it comes to; None where it cannot be."""
    try:
        return evaluate(point)
    except (BrokenRule, msgspec.ValidationError):
        return None


def _effect(parts: list[tuple[SimpleKind, tuple[str, ...]]], amount: Decimal) -> Effect:
    kinds = tuple(kind for kind in _ORDER if any(kind == part for part, _ in parts))
    fields = tuple(field for _, named in parts for field in named)
    return Effect(kinds[0] if len(kinds) == 1 else "joint", kinds, fields, amount)


def _by_kind(effects: tuple[Effect, ...], nothing: Decimal) -> KindTotals:
    sums: dict[EffectKind, Decimal] = dict.fromkeys((*_ORDER, "joint"), nothing)
    for effect in effects:
        sums[effect.kind] += effect.amount
    return KindTotals(**sums)


def _notes(
    before: Evaluation, after: Evaluation, effects: tuple[Effect, ...], model_version: str, *, is_together: bool
) -> tuple[Note, ...]:
    """What the reader must know to read the effects."""
    notes = []
    versions = sorted({before.point.model_version, after.point.model_version} - {model_version})
    if versions:
        told = (
            f"Stored by model version {' and '.join(versions)}, which cannot be run again: the other effects are by "
            f"{model_version}, and the model's is what that moves the stored totals by."
        )
        notes.append(Note("model-not-rerun", "info", told))
    elif any("model" in effect.kinds and effect.amount for effect in effects):
        told = "The model version is the same and a stored total is not met again: its catalogue or prices have moved."
        notes.append(Note("not-reproduced", "warning", told))
    if is_together:
        told = "Some changes are one effect together, because the request cannot be evaluated with only one of them."
        notes.append(Note("changes-together", "info", told))
    return tuple(notes)


# ------------------------------------------------------------------------------------------- fields


def _changes(before: dict[str, Any], after: dict[str, Any], at: tuple[str, ...]) -> Iterator[Change]:
    for key in before.keys() | after.keys():
        one, other, path = before.get(key), after.get(key), (*at, key)
        is_whole = path == (_EXCHANGE,)
        if not is_whole and isinstance(one, dict) and isinstance(other, dict) and one.get(_KIND) == other.get(_KIND):
            yield from _changes(one, other, path)
        elif one != other or isinstance(one, bool) != isinstance(other, bool):
            yield Change(path, one, other)


def _section(change: Change) -> int:
    """Where its section stands in a request; what is no section comes last."""
    return SECTIONS.index(change.path[0]) if change.path[0] in SECTIONS else len(SECTIONS)


def _replaced(request: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy with one value in it; null is the same as nothing there."""
    copy, key = dict(request), path[0]
    if len(path) > 1:
        copy[key] = _replaced(copy[key], path[1:], value)
    elif value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy
