"""Estimates asked for in process: a body as it would be sent, and its answer as it would come."""

import json
from typing import Any

import msgspec
import pytest

from service.errors import BrokenRule, Fault
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import read_custom
from service.http.encoding import encoded

_decoder = msgspec.json.Decoder(EstimateRequest, dec_hook=read_custom)


def answer_bytes(body: dict[str, Any]) -> bytes:
    """What is answered to this body, to the byte."""
    return encoded(estimate(_decoder.decode(json.dumps(body))))


def ask(body: dict[str, Any]) -> dict[str, Any]:
    """The answer to this body."""
    answer: dict[str, Any] = json.loads(answer_bytes(body))
    return answer


def refused(body: dict[str, Any]) -> Fault:
    """Why this body cannot be answered: the first fault."""
    with pytest.raises(BrokenRule) as caught:
        answer_bytes(body)
    return caught.value.faults[0]


def codes(answer: dict[str, Any]) -> set[str]:
    """The codes of its notes."""
    return {note["code"] for note in answer["notes"]}


def said(answer: dict[str, Any], field: str) -> dict[str, Any]:
    """The assumption on a field; the last, if it was said twice."""
    found: list[dict[str, Any]] = [item for item in answer["assumptions"] if item["field"] == field]
    return found[-1]


def a_transformer(gpu_count: int = 64, gpu: str = "h100-sxm-80gb", **work: Any) -> dict[str, Any]:
    """Llama 3 8B on a trillion tokens, unless the work says otherwise."""
    subject = {} if {"model", "shape", "parameters"} & work.keys() else {"model": "llama-3-8b"}
    return {
        "cluster": {"gpu": gpu, "gpu_count": gpu_count},
        "work": {"kind": "transformer", "tokens": 1e12, **subject, **work},
    }
