"""The same where everybody is asked for a key: with a good one all is as it was, and without one nothing is."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis

from tests.contract.configs import KEYED
from tests.contract.served import Served

# Cases are generated when the tests are collected, so the application exists before any fixture.
SERVED = Served(KEYED)


@pytest.fixture(scope="module", autouse=True)
def _database() -> Iterator[None]:
    SERVED.open()
    yield
    SERVED.close()


@SERVED.schema.parametrize()  # type: ignore[untyped-decorator]  # the fuzzer's
def test_every_operation_keeps_its_contract(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate(headers=SERVED.headers)


def test_sequences_of_operations_keep_the_contract() -> None:
    SERVED.run_sequences()
