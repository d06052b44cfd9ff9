"""The key that the fuzzer is let in by is not revoked by it: what it does to that key, it does to none."""

from typing import Any

import schemathesis

NOBODY = "000000000000"


def spare_key(case: schemathesis.Case[Any], key_id: str) -> None:
    """Ask for a key that there is not, in the place of this one."""
    parameters = case.path_parameters or {}
    if parameters.get("key_id") == key_id:
        parameters["key_id"] = NOBODY
