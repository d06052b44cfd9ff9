"""What `make fuzz` loads: our own check, and that the fuzzer does not revoke the key that it is let in by."""

import os
from typing import Any

import schemathesis

from tests.contract import checks  # noqa: F401  # registers our own check
from tests.contract.sparing import NOBODY, spare_key

OWN_KEY_ID = "FUZZER_KEY_ID"


@schemathesis.hook
def before_call(context: Any, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """It finds its own key in the list of keys, and may do to it what it likes; then nothing would be answered."""
    spare_key(case, os.environ.get(OWN_KEY_ID, NOBODY))
