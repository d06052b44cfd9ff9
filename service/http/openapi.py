"""The OpenAPI document: Litestar's skeleton of routes, msgspec's schemas, and every answer a route can give.

Litestar's own schemas miss what a strict contract needs (`additionalProperties: false`, discriminators, integer
bounds, docstrings), and it documents an error shape that is not ours. So its document is taken for paths,
methods and operation ids, and the rest is written here, from the same handlers.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
import yaml
from litestar import Litestar, Router
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.routes import HTTPRoute
from msgspec import Struct

from service.http.conditional import KEY_MAX_LENGTH, KEY_PATTERN, TAGS_MAX_LENGTH, TAGS_PATTERN
from service.http.diagnosis import schema_of_custom
from service.http.limits import Rate
from service.http.principal import PUBLIC
from service.http.problems import PROBLEM_JSON, Problem
from service.http.requests import JSON_TYPE, MERGE_PATCH_TYPE

OPENAPI_VERSION = "3.1.0"
_REF = "#/components/schemas/{name}"
_METHODS = ("get", "put", "post", "patch", "delete")

_DESCRIPTION = """\
What a large distributed training run will cost all in, when it will end, and how sure we are.

Figures are estimates, not quotes: nothing here is an offer, and a provider's invoice is what counts.

Money is exact: decimal strings in answers, strings or numbers in requests, rounded half-up per line to the
currency's minor unit; totals are sums of lines. Every number's name ends in its unit, ratios are percents. Times
are RFC 3339 in UTC. Unknown fields and unknown query parameters are refused. Errors are RFC 9457 problem details
that name each bad field. HEAD is answered wherever GET is.
"""

_ERRORS = {
    "400": ("BadRequest", "The body is no JSON, or a query, path or header parameter cannot be read."),
    "401": ("Unauthenticated", "Where keys are asked for: there is none, or it is no good."),
    "403": ("Forbidden", "Where keys are asked for: the key lacks the scope."),
    "404": ("NotFound", "There is nothing by this name."),
    "409": ("Conflict", "Things as they stand do not allow it."),
    "412": ("PreconditionFailed", "The version that the write is based on is not the current one."),
    "413": ("BodyTooLarge", "The body has more than 1,000,000 bytes, or as a file 20,000,000."),
    "415": ("UnsupportedMediaType", "The body is not labelled as what is read here."),
    "422": ("Unprocessable", "The body is JSON, and breaks the schema or a rule; each bad field is named."),
    "428": ("PreconditionRequired", "The object exists: If-Match is needed."),
    "429": (
        "TooManyRequests",
        "Where keys are asked for: the key has asked too often within this minute, or this address has sent too many "
        "keys or links that are no good; try again after Retry-After seconds.",
    ),
    "500": ("InternalError", "Something failed here; the log has it under the instance's id."),
    "503": ("Unavailable", "The database does not answer; try again after Retry-After seconds."),
}
_ERROR_HEADERS = {
    "401": {"WWW-Authenticate": {"description": "How to send a key.", "schema": {"type": "string"}}},
    "403": {"WWW-Authenticate": {"description": "The scope that is lacking.", "schema": {"type": "string"}}},
    "429": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1, "maximum": 60}}},
}
_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "The key, as `Authorization: Bearer tc_...`."},
    "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The key, as it is."},
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The key as the password, for programs that can keep nothing else; any user name.",
    },
}
_SECURITY: list[dict[str, list[str]]] = [{name: []} for name in _SECURITY_SCHEMES]
_ETAG_SCHEMA = {"type": "string", "pattern": '^(W/)?"[!-~]*"$', "maxLength": 200}
_TAGS_SCHEMA = {
    "anyOf": [
        {"type": "string", "const": "*"},
        {"type": "string", "pattern": TAGS_PATTERN, "maxLength": TAGS_MAX_LENGTH},
    ]
}
_HEADERS = {
    "ETag": {"description": "The version's entity tag.", "schema": _ETAG_SCHEMA},
    "Location": {
        "description": "Where the new object is.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Link": {"description": 'The next page, as rel="next".', "schema": {"type": "string"}},
    "Cache-Control": {
        "description": "Who may keep the answer, and for how long.",
        "schema": {"type": "string"},
    },
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes it safe to send the request again: with the same key, for 24 hours, the first answer is "
    "given again and nothing is done twice.",
    "schema": {"type": "string", "pattern": KEY_PATTERN, "maxLength": KEY_MAX_LENGTH},
}
_HEADERS_READ = ("ETag", "Cache-Control")


class About(Struct, frozen=True):
    """What a route says of itself beyond its handler's signature and docstring."""

    query: type[Any] | None = None
    examples: dict[str, Any] | None = None
    conditional: Literal["read", "write", "add"] | None = None
    headers: tuple[str, ...] = ()
    success: str = "The answer."
    created: bool = False
    links: dict[str, Any] | None = None
    errors: tuple[str, ...] = ()
    database: bool = False
    idempotent: bool = False
    body: dict[str, Any] | None = None  # what is sent by media type, where no Struct says so
    content: dict[str, Any] | None = None  # what is answered by media type, likewise
    scope: str | None = None  # what a key must have, or PUBLIC, where it is not said of the whole router
    rate: Rate | None = None  # what it is counted as, where that is neither a plain read nor a plain write

    def as_opt(self) -> dict[str, Any]:
        """As a handler's `opt`, where what refuses stray parameters and bodies looks too."""
        said = {"query": self.query, "body": self.body, "scope": self.scope, "rate": self.rate}
        return {"about": self, **{name: value for name, value in said.items() if value is not None}}


def build_document(routers: Sequence[Router], *, version: str, tags: dict[str, str]) -> dict[str, Any]:
    """The document of these routers; the same routers give the same document."""
    app = Litestar(
        list(routers),
        openapi_config=OpenAPIConfig(title="traincost", version=version, use_handler_docstrings=True),
        logging_config=None,
    )
    handlers = _handlers(app)
    skeleton = app.openapi_schema.to_schema()
    paths = {
        path: {
            method: _operation(item[method], handlers[item[method]["operationId"]])
            for method in _METHODS
            if method in item
        }
        for path, item in sorted(skeleton["paths"].items())
    }
    used = {status for item in paths.values() for operation in item.values() for status in operation["responses"]}
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "traincost",
            "version": version,
            "summary": "Cost, duration and risk of a training run.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "contact": {"name": "The traincost developers"},
        },
        "servers": [{"url": "/", "description": "Where this document came from."}],
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
        "paths": paths,
        "components": {
            "securitySchemes": _SECURITY_SCHEMES,
            "schemas": _schemas(handlers.values()),
            "responses": {
                name: {
                    "description": text,
                    **({"headers": _ERROR_HEADERS[status]} if status in _ERROR_HEADERS else {}),
                    "content": {PROBLEM_JSON: {"schema": {"$ref": _REF.format(name="Problem")}}},
                }
                for status, (name, text) in _ERRORS.items()
                if status in used
            },
        },
    }


def as_yaml(document: dict[str, Any]) -> bytes:
    """The document as it is committed: keys in our order, no aliases, UTF-8."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, encoding="utf-8")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _as_block(dumper: _Dumper, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _as_block)


def _handlers(app: Litestar) -> dict[str, HTTPRouteHandler]:
    found: dict[str, HTTPRouteHandler] = {}
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                if isinstance(handler.operation_id, str):
                    found[handler.operation_id] = handler
    return found


def _about(handler: HTTPRouteHandler) -> About:
    about = handler.opt.get("about")
    return about if isinstance(about, About) else About()


def _operation(skeleton: dict[str, Any], handler: HTTPRouteHandler) -> dict[str, Any]:
    about = _about(handler)
    docstring = skeleton.get("description", "")
    summary, _, rest = docstring.partition("\n")
    body = _request_body(handler, about)
    parameters = [*_path_parameters(skeleton), *_query_parameters(about), *_header_parameters(about)]
    scope = handler.opt.get("scope")
    needs = [] if scope == PUBLIC else [f"Needs the scope `{scope}`."]
    made: dict[str, Any] = {
        "operationId": skeleton["operationId"],
        "summary": summary.rstrip("."),
        "description": " ".join([" ".join(rest.split()) or summary, *needs]),
        "tags": skeleton.get("tags", []),
        "security": [] if scope == PUBLIC else _SECURITY,
    }
    if parameters:
        made["parameters"] = parameters
    if body:
        made["requestBody"] = body
    made["responses"] = _responses(skeleton, handler, about, has_body=body is not None)
    return made


def _path_parameters(skeleton: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": parameter["name"],
            "in": "path",
            "required": True,
            "description": parameter.get("description", ""),
            "schema": parameter["schema"],
        }
        for parameter in skeleton.get("parameters", [])
        if parameter["in"] == "path"
    ]


def _query_parameters(about: About) -> list[dict[str, Any]]:
    if about.query is None:
        return []
    _, components = msgspec.json.schema_components([about.query], ref_template=_REF, schema_hook=schema_of_custom)
    made = []
    asked = components[about.query.__name__]
    for name, described in asked["properties"].items():
        schema = dict(described)
        description = schema.pop("description", "")
        required = name in asked.get("required", ())
        made.append({"name": name, "in": "query", "required": required, "description": description, "schema": schema})
    return made


def _header_parameters(about: About) -> list[dict[str, Any]]:
    texts = {
        "If-Match": "The ETag of the version that the write is based on; needed where the object exists.",
        "If-None-Match": "ETags that the caller has (304 if current); for a write, `*` creates only.",
    }
    names = {"read": ["If-None-Match"], "write": ["If-Match", "If-None-Match"], "add": ["If-Match"], None: []}
    made = [
        {"name": name, "in": "header", "required": False, "description": texts[name], "schema": _TAGS_SCHEMA}
        for name in names[about.conditional]
    ]
    if about.idempotent:
        made.append(_IDEMPOTENCY_KEY)
    return made


def _request_body(handler: HTTPRouteHandler, about: About) -> dict[str, Any] | None:
    if about.body is not None:
        return {"required": True, "content": about.body}
    field = handler.parsed_data_field
    if field is None:
        return None
    content: dict[str, Any] = {"schema": {"$ref": _REF.format(name=field.annotation.__name__)}}
    if about.examples:
        content["examples"] = about.examples
    patch = "PATCH" in handler.http_methods
    types = (MERGE_PATCH_TYPE, JSON_TYPE) if patch else (JSON_TYPE,)
    return {"required": not field.has_default, "content": dict.fromkeys(types, content)}


def _responses(skeleton: dict[str, Any], handler: HTTPRouteHandler, about: About, *, has_body: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    headers = (*about.headers, *(_HEADERS_READ if about.conditional == "read" else ()))
    for status in sorted(code for code in skeleton["responses"] if code.startswith("2")):
        answer: dict[str, Any] = {"description": about.success}
        content = about.content or skeleton["responses"][status].get("content")
        if headers:
            answer["headers"] = {name: _HEADERS[name] for name in headers}
        if content and status != "204":
            answer["content"] = content
        made[status] = answer
    if about.created:
        made["201"] = {
            **made["200"],
            "description": "Created.",
            "headers": {name: _HEADERS[name] for name in (*headers, "Location")},
        }
        if about.links:
            made["201"]["links"] = about.links
    elif about.links:
        made[min(made)]["links"] = about.links
    if about.conditional == "read":
        made["304"] = {
            "description": "The caller has it already.",
            "headers": {name: _HEADERS[name] for name in _HEADERS_READ},
        }
    refusals: tuple[str, ...] = ("401", "403", "429")
    if handler.opt.get("scope") == PUBLIC:
        refusals = ("429",) if handler.opt.get("secret_path") else ()
    for status in (*refusals, *_error_statuses(skeleton, about, has_body)):
        made[status] = {"$ref": f"#/components/responses/{_ERRORS[status][0]}"}
    return dict(sorted(made.items()))


def _error_statuses(skeleton: dict[str, Any], about: About, has_body: bool) -> Iterable[str]:
    yield "400"
    yield "500"
    yield from about.errors
    if has_body:
        yield from ("413", "415", "422")
    if any(parameter["in"] == "path" for parameter in skeleton.get("parameters", [])):
        yield "404" if not about.created else "422"
    if about.query is not None:
        yield "422"
    if about.conditional == "write":
        yield from ("412", "428")
    if about.conditional == "add":
        yield "412"
    if about.database:
        yield "503"


def _schemas(handlers: Iterable[HTTPRouteHandler]) -> dict[str, Any]:
    """Every Struct that a handler takes or gives, as msgspec describes it.

    What only answers is open to growth: a client must bear a new field. It gets every field but those that can be
    unset, which are sections that do not apply.
    """
    taken, given = [], [Problem]
    for handler in handlers:
        if handler.parsed_data_field is not None:
            taken.append(handler.parsed_data_field.annotation)
        returned = handler.parsed_fn_signature.return_type
        given.extend(inner.annotation for inner in returned.inner_types if _is_struct(inner.annotation))
    asked = _components(taken)
    answered = {name: _as_answer(schema) for name, schema in _components(given).items()}
    return dict(sorted({**answered, **asked}.items()))


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def _components(roots: list[Any]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components(
        list(dict.fromkeys(roots)), ref_template=_REF, schema_hook=schema_of_custom
    )
    return components


def _as_answer(schema: dict[str, Any]) -> dict[str, Any]:
    open_schema = {key: value for key, value in schema.items() if key != "additionalProperties"}
    if "properties" not in schema:
        return open_schema
    properties = {
        name: {key: value for key, value in described.items() if key != "default"}
        for name, described in schema["properties"].items()
    }
    given = set(schema.get("required", ())) | {name for name, one in schema["properties"].items() if "default" in one}
    return {**open_schema, "properties": properties, "required": [name for name in properties if name in given]}
