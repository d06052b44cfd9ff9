"""What a request about scenarios says: a name, a number, and whether its sender may approve."""

from typing import Annotated, Any

from litestar import Request
from litestar.params import PathParameter

from service.http.conditional import STORED_CACHE, caching
from service.http.principal import principal_of, project_of
from service.http.responses import JSON
from service.http.text import NAME_MAX_LENGTH, NAME_PATTERN, canonical_name
from service.prices.operations import Prices
from service.prices.snapshots import ProjectTables
from service.scenarios.creations import TOKEN_LENGTH, TOKEN_PATTERN
from service.scenarios.heads import Stored

AnyRequest = Request[Any, Any, Any]
Name = Annotated[
    str,
    PathParameter(
        # Said in the contract and checked by `canonical_name`, which looks at the name in NFC.
        schema_extra={"pattern": NAME_PATTERN, "min_length": 1, "max_length": NAME_MAX_LENGTH},
        description="The scenario's name: unique in any case, kept in NFC.",
    ),
]
Number = Annotated[int, PathParameter(ge=1, le=2**31 - 1, description="The revision's number.")]
ShareId = Annotated[int, PathParameter(ge=1, le=2**53, description="The link's id.")]
Token = Annotated[
    str,
    PathParameter(
        pattern=TOKEN_PATTERN,
        min_length=TOKEN_LENGTH,
        max_length=TOKEN_LENGTH,
        description="What was shown when the link was made.",
    ),
]
SAME_NAME = {"name": "$request.path.name"}


def diff_link(before: dict[str, str], after: dict[str, str]) -> dict[str, object]:
    """A link of the document from what was answered to why it is not another."""
    return {"operationId": "diffScenarios", "requestBody": {"before": before, "after": after}}


def comparison_link(*scenarios: dict[str, str]) -> dict[str, object]:
    """Likewise to these beside each other."""
    return {"operationId": "compareScenarios", "requestBody": {"scenarios": list(scenarios)}}


def read_name(raw: str) -> str:
    """The name in a path."""
    return canonical_name(raw, "path", "name")


def may_approve(request: AnyRequest) -> bool:
    """Whether the sender's key has the scope that approves."""
    return "scenarios:approve" in principal_of(request).scopes


def tables_for(request: AnyRequest) -> ProjectTables:
    """The price tables as the sender's project sees them."""
    prices: Prices = request.app.state["prices"]
    return prices.snapshots.of(project_of(request))


def tagged(saved: Stored) -> JSON[Any]:
    """What was stored, with its tag."""
    return JSON(saved.body, 200, [(b"etag", saved.etag.encode()), *caching(STORED_CACHE)])
