"""Whether the checks would notice: copies of openapi.yaml, each spoiled in one way, and what must be said of them."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contract import lint
from contract.changes import Change, compare
from contract.tools import Failure, load_document

Document = dict[str, Any]
Spoil = Callable[[Document], object]

_SCENARIO = "/v1/scenarios/{name}"
_JSON = "application/json"
_PROBLEM_JSON = "application/problem+json"


def _operation(document: Document, method: str, path: str) -> Any:
    return document["paths"][path][method]


def _schema(document: Document, name: str) -> Any:
    return document["components"]["schemas"][name]


def _property(document: Document, name: str, member: str) -> Any:
    return _schema(document, name)["properties"][member]


def _move(path: str, to: str) -> Spoil:
    return lambda document: document["paths"].update({to: document["paths"].pop(path)})


def _drop(method: str, path: str, member: str) -> Spoil:
    return lambda document: _operation(document, method, path).pop(member)


def _without_if_match(method: str) -> Spoil:
    def spoil(document: Document) -> None:
        operation = _operation(document, method, _SCENARIO)
        operation["parameters"] = [one for one in operation["parameters"] if one["name"] != "If-Match"]

    return spoil


def _without_status(method: str, status: str) -> Spoil:
    return lambda document: _operation(document, method, _SCENARIO)["responses"].pop(status)


def _accept(schema: Document, *, query: bool = False) -> Spoil:
    """Let something be sent that ought not to be."""

    def spoil(document: Document) -> None:
        if query:
            parameter = {"name": "spoiled", "in": "query", "description": "Spoiled.", "schema": schema}
            _operation(document, "get", "/v1/gpus")["parameters"].append(parameter)
        else:
            _schema(document, "EstimateRequest")["properties"]["spoiled"] = schema

    return spoil


def _answer_not_found(content: Document) -> Spoil:
    return lambda document: document["components"]["responses"]["NotFound"].update(content=content)


def _inline_not_found(document: Document) -> None:
    answer = document["components"]["responses"]["NotFound"]
    _operation(document, "get", _SCENARIO)["responses"]["404"] = answer


_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
_NOT_A_PROBLEM = {"schema": {"$ref": "#/components/schemas/Version"}}

SPOILED: list[tuple[str, Spoil]] = [
    ("path-kebab-case", _move("/v1/gpus", "/v1/gpu_cards")),
    ("path-kebab-case", _move("/v1/gpus", "/v1/gpus/")),
    ("path-kebab-case", _move("/v1/gpus/{gpu_id}", "/v1/gpus/{gpuId}")),
    ("path-plural", _move("/v1/gpus", "/v1/gpu")),
    ("path-plural", _move("/v1/gpus/{gpu_id}", "/v1/gpus/rate/{gpu_id}")),
    (
        "property-snake-case",
        lambda document: _schema(document, "Cost")["properties"].update(taxRate={"type": "number"}),
    ),
    (
        "parameter-snake-case",
        lambda document: _operation(document, "get", "/v1/gpus")["parameters"][0].update(name="x-y"),
    ),
    (
        "operation-id-camel-case",
        lambda document: _operation(document, "get", "/v1/gpus").update(operationId="list_gpus"),
    ),
    ("operation-documented", _drop("get", "/v1/gpus", "tags")),
    ("operation-documented", _drop("get", "/v1/gpus", "summary")),
    ("operation-documented", _drop("get", "/v1/gpus", "description")),
    ("error-is-problem", _answer_not_found({_JSON: _PROBLEM})),
    ("error-is-problem", _answer_not_found({_PROBLEM_JSON: _PROBLEM, _JSON: _PROBLEM})),
    ("error-is-problem", _answer_not_found({_PROBLEM_JSON: _NOT_A_PROBLEM})),
    ("error-by-reference", _inline_not_found),
    ("secured-or-public", _drop("get", "/v1/gpus", "security")),
    ("secured-or-public", lambda document: _operation(document, "get", "/v1/gpus").update(security=[])),
    ("secured-or-public", _without_status("get", "401")),
    *(
        ("write-is-conditional", spoil)
        for method in ("put", "patch", "delete")
        for spoil in (_without_if_match(method), _without_status(method, "412"), _without_status(method, "428"))
    ),
    ("sent-string-limit", _accept({"type": "string", "pattern": "^a*$"})),
    ("sent-string-restricted", _accept({"type": "string", "maxLength": 9}, query=True)),
    ("sent-number-limit", _accept({"type": "integer", "minimum": 0})),
    ("sent-number-limit", _accept({"type": "number", "maximum": 9}, query=True)),
    ("sent-array-limit", _accept({"type": "array", "items": {"type": "boolean"}})),
    ("sent-object-closed", lambda document: _schema(document, "Cluster").pop("additionalProperties")),
    ("sent-object-closed", _accept({"type": "object", "additionalProperties": {"type": "boolean"}})),
    # Of the rules that are not ours, one of each origin: they are loaded, and warnings count.
    (
        "oas3-parameter-description",
        lambda document: _operation(document, "get", "/v1/gpus")["parameters"][0].pop("description"),
    ),
    ("operation-operationId", _drop("get", "/v1/gpus", "operationId")),
    (
        "owasp:api8:2023-define-error-responses-500",
        lambda document: _operation(document, "get", "/v1/gpus")["responses"].pop("500"),
    ),
]


def _spoiled(document: Document, spoil: Spoil, name: str) -> Document:
    copy = deepcopy(document)
    try:
        spoil(copy)
    except (LookupError, ValueError) as error:
        raise Failure(f"what {name} spoils is not in openapi.yaml any more: {error!r}") from error
    return copy


def rules_bite() -> str:
    """Spectral reports each spoiled copy, by the rule that it was spoiled for."""
    document = load_document()
    untried = lint.own_rules() - {rule for rule, _ in SPOILED}
    if untried:
        raise Failure(f"no spoiled copy tries {', '.join(sorted(untried))}")
    with TemporaryDirectory() as name:
        sound = Path(name) / "sound.json"
        sound.write_text(json.dumps(document), encoding="utf-8")
        files = [sound]
        for index, (rule, spoil) in enumerate(SPOILED):
            files.append(Path(name) / f"{index}.json")
            files[-1].write_text(json.dumps(_spoiled(document, spoil, f"{rule}, copy {index}")), encoding="utf-8")
        found = lint.findings(files)
    reported: dict[str, set[tuple[str, tuple[str, ...]]]] = {file.name: set() for file in files}
    for finding in found:
        reported[finding.file].add((finding.rule, finding.place))
    unnoticed = [
        f"  {rule}, copy {index}"
        for index, (rule, _) in enumerate(SPOILED)
        if rule not in {new for new, _ in reported[f"{index}.json"] - reported[sound.name]}
    ]
    if unnoticed:
        raise Failure("spoiled copies that Spectral did not report", "\n".join(unnoticed))
    return f"{len(SPOILED)} spoiled copies reported, each by its rule"


BREAKS: dict[str, Spoil] = {
    "an operation is gone": lambda document: document["paths"][_SCENARIO].pop("patch"),
    "a field of an answer is gone": lambda document: _schema(document, "Cost")["properties"].pop("idle"),
    "a field of an answer has another type": lambda document: _property(document, "Duration", "ideal_hours").update(
        type="string"
    ),
    "a field of a request is gone": lambda document: _schema(document, "Cluster")["properties"].pop("gpus_per_node"),
    "a field of a request is needed": lambda document: _schema(document, "Cluster").update(required=["gpu"]),
    "a bound is narrower": lambda document: _property(document, "Cluster", "gpu_count").update(maximum=10),
    "a default is another": lambda document: _property(document, "Cluster", "gpu_count").update(default=8),
    "a parameter is gone": lambda document: _operation(document, "get", "/v1/gpus")["parameters"].pop(0),
    "an operation has another name": lambda document: _operation(document, "get", "/v1/gpus").update(operationId="x"),
}


def _grow(document: Document) -> None:
    """What a minor release may do."""
    document["paths"]["/v1/spoiled-things"] = deepcopy(document["paths"]["/v1/gpus"])
    _schema(document, "Cost")["properties"]["tax"] = {"type": "string"}
    _schema(document, "Cluster")["properties"]["spoiled"] = {"type": "boolean"}
    _property(document, "Cluster", "gpu_count").update(maximum=10_000_000)
    _property(document, "InterconnectScaling", "level")["enum"].append("best")
    _schema(document, "Cost").update(description="Other words.")
    new = {"name": "spoiled", "in": "query", "required": False, "schema": {"type": "boolean"}}
    _operation(document, "get", "/v1/gpus")["parameters"].append(new)


def comparison_bites() -> str:
    """Each change that breaks callers is told as such, and what only grows is not."""
    document = load_document()
    changes_made: dict[str, Spoil] = {"what only grows": _grow, **BREAKS}
    copies = [_spoiled(document, change, name) for name, change in changes_made.items()]
    grown, *broken = compare(document, copies)
    wrong = [
        *(f"  not told: {name}" for name, changes in zip(BREAKS, broken, strict=True) if not _any_breaking(changes)),
        *(f"  told, and harmless: {change.place}: {change.text}" for change in grown if change.breaking),
    ]
    if wrong or not grown:
        raise Failure("api-smart-diff is not to be trusted", "\n".join(wrong))
    return f"{len(BREAKS)} breaking changes told, {len(grown)} harmless ones let pass"


def _any_breaking(changes: list[Change]) -> bool:
    return any(change.breaking for change in changes)
