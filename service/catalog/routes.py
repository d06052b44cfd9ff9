"""The catalogue over HTTP: accelerators and interconnects, with their sources."""

from functools import cache
from typing import Annotated, Any

from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import PathParameter
from msgspec import UNSET, Meta, Struct, UnsetType

from service.catalog.gpus import GpuSort, get_gpu, list_gpus
from service.catalog.interconnects import load_interconnects
from service.catalog.schemas import Accelerator, Interconnect, Precision, Vendor
from service.errors import AmbiguousName, Fault, NotFound, UnknownName
from service.http.conditional import CATALOGUE_CACHE, conditional, content_etag
from service.http.encoding import encoded
from service.http.openapi import About
from service.http.paging import DEFAULT_LIMIT, Cursor, Limit, count_key, next_link, read_cursor, write_cursor
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
    rows = list_gpus(**filters)
    question = list(filters.values())
    start = 0 if asked.cursor is UNSET else read_cursor(asked.cursor, question, (count_key,))[0]
    end = start + asked.limit
    cursor = write_cursor(question, [end]) if end < len(rows) else None
    body = encoded(GpuPage(rows[start:end], cursor))
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
    try:
        body = encoded(get_gpu(gpu_id))
    except AmbiguousName as error:
        raise error.placed("gpu_id", "path") from None
    except UnknownName as error:
        raise NotFound(error.detail, (Fault("path", "gpu_id", error.detail),)) from None
    return conditional(request, body, content_etag(body), CATALOGUE_CACHE)


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


@cache
def _interconnects() -> tuple[bytes, str]:
    body = encoded(InterconnectList(load_interconnects()))
    return body, content_etag(body)


def _given(value: Any) -> Any:
    return None if value is UNSET else value


router = Router("/v1", route_handlers=[list_accelerators, get_accelerator, list_interconnects], tags=["Catalogue"])
