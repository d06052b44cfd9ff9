"""What `make fuzz` loads: our own check, and that the fuzzer does not revoke the key that it is let in by."""

import os
from typing import Any

import schemathesis

from tests.contract import checks  # noqa: F401  # registers our own check

OWN_KEY_ID = "FUZZER_KEY_ID"
NOBODY = "000000000000"


@schemathesis.hook
def before_call(context: Any, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """It finds its own key in the list of keys, and may do to it what it likes; then nothing would be answered."""
    parameters = case.path_parameters or {}
    if parameters.get("key_id") == os.environ.get(OWN_KEY_ID, NOBODY):
        parameters["key_id"] = NOBODY
