"""What a request about prices says: a table's name, a file and how to read it."""

from typing import Annotated, Any

import msgspec
from litestar import Request
from litestar.params import PathParameter
from msgspec import UNSET

from service.errors import BadRequest, BrokenRule, Fault
from service.http.conditional import STORED_CACHE, caching
from service.http.requests import FastRequest
from service.http.text import NAME_MAX_LENGTH, NAME_PATTERN, canonical_name
from service.prices.importers.schemas import MAX_BYTES, ImportOptions, Mapping
from service.prices.table_schemas import ImportQuery, RevisionWrite

AnyRequest = Request[Any, Any, Any]
Name = Annotated[
    str,
    PathParameter(
        # Said in the contract and checked by `canonical_name`, which looks at the name in NFC.
        schema_extra={"pattern": NAME_PATTERN, "min_length": 1, "max_length": NAME_MAX_LENGTH},
        description="The price table's name: unique in any case, kept in NFC.",
    ),
]
Number = Annotated[int, PathParameter(ge=1, le=2**31 - 1, description="The revision's number in its table.")]
RevisionId = Annotated[int, PathParameter(ge=1, le=2**53, description="The revision's id, good for ever.")]

CSV_TYPE = "text/csv"
FILE_TYPES = (CSV_TYPE, "application/json")
PRIVATE = caching(STORED_CACHE)


class FileRequest(FastRequest):
    """A request whose body is a price file."""

    max_body_bytes = MAX_BYTES


def require_file(request: AnyRequest) -> None:
    """One Content-Type, of CSV or JSON, and no encoding over it."""
    given = request.headers.getall("content-type", [])
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        message = "Bodies are read as they are: no Content-Encoding is accepted"
        raise BadRequest("unsupported-media-type", message + ".", (Fault("header", "Content-Encoding", message),))
    if len(given) != 1 or given[0].partition(";")[0].strip().lower() not in FILE_TYPES:
        message = (
            f"Content-Type must be {' or '.join(FILE_TYPES)}; it is {' and '.join(map(ascii, given)) or 'missing'}"
        )
        raise BadRequest("unsupported-media-type", message + ".", (Fault("header", "Content-Type", message),))


def options_of(asked: ImportQuery, currency: str) -> ImportOptions:
    """How the file is to be read."""
    return ImportOptions(
        format=asked.format,
        mapping=None if asked.mapping is UNSET else _mapping(asked.mapping),
        on_error=asked.on_error,
        provider=asked.provider or None,
        source=asked.source or None,
        currency=currency,
        confidence=asked.confidence,
        valid_from=asked.valid_from or None,
        valid_to=asked.valid_to or None,
        seen_on=asked.seen_on or None,
        as_of=asked.as_of or None,
        free_is_real=asked.free_is_real,
        encoding=asked.encoding,
        delimiter=asked.delimiter,
        decimal_mark=asked.decimal_mark,
    )


def _mapping(text: str) -> Mapping:
    try:
        return msgspec.json.decode(text, type=Mapping)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BrokenRule.at("mapping", f"It is no column mapping: {error}", "query") from None


def beside(asked: ImportQuery) -> RevisionWrite:
    """What is written beside the file's rates."""
    return RevisionWrite(
        rates=(),
        author=asked.author or "",
        note=asked.note or "",
        source=asked.source or "",
        licence=asked.licence or "",
        as_of=asked.as_of or None,
    )


def read_name(raw: str) -> str:
    """The table's name in NFC; BadRequest where it is none."""
    return canonical_name(raw, "path", "name")
