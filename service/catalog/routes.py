"""The catalogue over HTTP: accelerators, models and interconnects, with their sources."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import PathParameter
from msgspec import UNSET, Meta, Struct, UnsetType

from service.catalog.gpus import GpuSort, get_gpu, list_gpus
from service.catalog.interconnects import load_interconnects
from service.catalog.model_schemas import Architecture, NamedModel
from service.catalog.models import get_model, list_models
from service.catalog.schemas import Accelerator, Interconnect, Precision, Vendor
from service.errors import AmbiguousName, Fault, NotFound, UnknownName
from service.http.conditional import CATALOGUE_CACHE, conditional, content_etag
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.paging import DEFAULT_LIMIT, Cursor, Limit, next_link, page_of
from service.http.requests import query_of
from service.http.responses import JSON
from service.http.text import LINE_PATTERN

GpuPath = Annotated[
    str,
    PathParameter(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ()+._-]*$",
        max_length=100,
        description="Catalogue id, or a well-known spelling of one accelerator.",
    ),
]


ModelPath = Annotated[
    str,
    PathParameter(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ()+._-]*$",
        max_length=100,
        description="Catalogue id, or a well-known spelling of one model.",
    ),
]


class GpuQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which accelerators, in which order."""

    vendor: Annotated[Vendor | UnsetType, Meta(description="Only this vendor's.")] = UNSET
    min_memory_gb: (
        Annotated[float, Meta(ge=0, le=1e6, description="At least this much usable memory, in GB.")] | UnsetType
    ) = UNSET
    precision: Annotated[Precision | UnsetType, Meta(description="Only with a published peak at it.")] = UNSET
    q: (
        Annotated[
            str,
            Meta(min_length=1, max_length=100, pattern=LINE_PATTERN, description="Part of an id, name or spelling."),
        ]
        | UnsetType
    ) = UNSET
    sort: Annotated[
        GpuSort | UnsetType, Meta(description="By id if absent; a leading - reverses; unknown values last.")
    ] = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class GpuPage(Struct, frozen=True):
    """One page of accelerators."""

    items: tuple[Accelerator, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class ModelQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which models."""

    architecture: Annotated[Architecture | UnsetType, Meta(description="Dense, or a mixture of experts.")] = UNSET
    q: (
        Annotated[
            str,
            Meta(min_length=1, max_length=100, pattern=LINE_PATTERN, description="Part of an id, name or maker."),
        ]
        | UnsetType
    ) = UNSET
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | UnsetType = UNSET


class ModelPage(Struct, frozen=True):
    """One page of models."""

    items: tuple[NamedModel, ...]
    next_cursor: Annotated[str | None, Meta(description="For the next page; null on the last.")]


class InterconnectList(Struct, frozen=True):
    """Every interconnect of the catalogue."""

    items: tuple[Interconnect, ...]


@get(
    "/gpus",
    operation_id="listGpus",
    opt=About(query=GpuQuery, conditional="read", headers=("Link",), success="A page of accelerators.").as_opt(),
    dependencies={"asked": Provide(query_of(GpuQuery), sync_to_thread=False)},
    sync_to_thread=False,
)
def list_accelerators(request: Request[Any, Any, Any], asked: NamedDependency[GpuQuery]) -> JSON[GpuPage]:
    """List accelerators.

    Dense peaks; physical and usable memory apart; a figure that is not published is null. Parts that are
    announced and not shipped are listed and marked.
    """
    filters = {
        "vendor": _given(asked.vendor),
        "min_memory_gb": _given(asked.min_memory_gb),
        "precision": _given(asked.precision),
        "q": _given(asked.q),
        "sort": _given(asked.sort),
    }
    items, cursor = page_of(list_gpus(**filters), asked.limit, asked.cursor, list(filters.values()))
    body = encoded(GpuPage(items, cursor))
    return conditional(request, body, content_etag(body), CATALOGUE_CACHE, next_link(request, cursor))


@get(
    "/gpus/{gpu_id:str}",
    operation_id="getGpu",
    opt=About(conditional="read", success="The accelerator.", errors=("422",)).as_opt(),
    sync_to_thread=False,
)
def get_accelerator(request: Request[Any, Any, Any], gpu_id: GpuPath) -> JSON[Accelerator]:
    """Get one accelerator.

    By its id or a well-known spelling ("H100 SXM"). A name that fits several answers 422 and lists them; an
    unknown one answers 404 and lists the nearest.
    """
    return _found(request, get_gpu, gpu_id, "gpu_id")


@get(
    "/models",
    operation_id="listModels",
    opt=About(query=ModelQuery, conditional="read", headers=("Link",), success="A page of models.").as_opt(),
    dependencies={"asked": Provide(query_of(ModelQuery), sync_to_thread=False)},
    sync_to_thread=False,
)
def list_named_models(request: Request[Any, Any, Any], asked: NamedDependency[ModelQuery]) -> JSON[ModelPage]:
    """List models.

    Published models by shape: what their makers state, and what the shape adds up to, with the source.
    """
    filters = {"architecture": _given(asked.architecture), "q": _given(asked.q)}
    items, cursor = page_of(list_models(**filters), asked.limit, asked.cursor, list(filters.values()))
    body = encoded(ModelPage(items, cursor))
    return conditional(request, body, content_etag(body), CATALOGUE_CACHE, next_link(request, cursor))


@get(
    "/models/{model_id:str}",
    operation_id="getModel",
    opt=About(conditional="read", success="The model.", errors=("422",)).as_opt(),
    sync_to_thread=False,
)
def get_named_model(request: Request[Any, Any, Any], model_id: ModelPath) -> JSON[NamedModel]:
    """Get one model.

    By its id or a well-known spelling ("Llama 3.1 70B"). A name that fits several answers 422 and lists them; an
    unknown one answers 404 and lists the nearest.
    """
    return _found(request, get_model, model_id, "model_id")


@get(
    "/interconnects",
    operation_id="listInterconnects",
    opt=About(conditional="read", success="The interconnects.").as_opt(),
    sync_to_thread=False,
)
def list_interconnects(request: Request[Any, Any, Any]) -> JSON[InterconnectList]:
    """List interconnects.

    With the band of scaling efficiency that a preset stands for, and whether it was measured or assumed.
    """
    body, etag = _interconnects()
    return conditional(request, body, etag, CATALOGUE_CACHE)


def _found(request: Request[Any, Any, Any], get: Callable[[str], Struct], name: str, parameter: str) -> JSON[Any]:
    """The row of this name; NotFound or AmbiguousName say which parameter it is about."""
    try:
        body = encoded(get(name))
    except AmbiguousName as error:
        raise error.placed(parameter, "path") from None
    except UnknownName as error:
        raise NotFound(error.detail, (Fault("path", parameter, error.detail),)) from None
    return conditional(request, body, content_etag(body), CATALOGUE_CACHE)


@cache
def _interconnects() -> tuple[bytes, str]:
    body = encoded(InterconnectList(load_interconnects()))
    return body, content_etag(body)


def _given(value: Any) -> Any:
    return None if value is UNSET else value


router = Router(
    "/v1",
    route_handlers=[list_accelerators, get_accelerator, list_named_models, get_named_model, list_interconnects],
    opt={"scope": "estimates:run"},
    tags=["Catalogue"],
)
