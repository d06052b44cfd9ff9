"""Our own check on every generated case: a request that matches its schema is never called an invalid body."""

from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, GenerationMode, Response


@schemathesis.check
def valid_is_never_an_invalid_body(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """The schema and the decoder agree on what matches."""
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    if response.status_code in (400, 422):
        kind = response.json().get("type")
        assert kind not in ("/errors/invalid-body", "/errors/malformed-parameter", "/errors/malformed-json"), (
            f"matches the schema and was refused: {response.json()['errors']}"
        )
