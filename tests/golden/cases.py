"""Ten realistic requests: what each one is, and what was published of the run that it stands for."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import read_custom
from service.http.encoding import encoded

HERE = Path(__file__).parent
_decoder = msgspec.json.Decoder(EstimateRequest, strict=True, dec_hook=read_custom)


def answered(body: bytes) -> bytes:
    """What the service answers to this body, without a server."""
    return encoded(estimate(_decoder.decode(body)))


class Published(NamedTuple):
    """GPU-hours that were reported of such a run; a miss is shown, not tuned away."""

    gpu_hours: float
    source: str


class Case(NamedTuple):
    """One request, by the name of its file; `against` is the same run elsewhere."""

    name: str
    title: str
    published: Published | None = None
    against: str | None = None

    @property
    def request_path(self) -> Path:
        return HERE / "requests" / f"{self.name}.json"

    @property
    def report_path(self) -> Path:
        return HERE / "reports" / f"{self.name}.txt"

    def body(self) -> bytes:
        """The request as it is sent."""
        return self.request_path.read_bytes()

    def answered(self) -> bytes:
        """The answer in process, in the bytes that go on the wire."""
        return answered(self.body())

    def answer(self) -> dict[str, Any]:
        """The answer as any client reads it."""
        found: dict[str, Any] = json.loads(self.answered())
        return found


CASES = (
    Case(
        "01-llama-405b",
        "Llama 3.1 405B, 15.6T tokens on 16,384 H100, layout and batch as published",
        Published(30_840_000, "30.84M H100-hours: meta-llama/llama-models models/llama3_1/MODEL_CARD.md"),
    ),
    Case(
        "02-deepseek-v3",
        "DeepSeek-V3, 14.8T tokens on 2,048 H800 in FP8, no utilisation given",
        Published(2_664_000, "2.664M H800-hours of pre-training: arXiv 2412.19437 section 1"),
    ),
    Case("03-lora-7b", "LoRA of Llama 2 7B, 3 epochs of 50M tokens on one node of 8 A100"),
    Case(
        "04-70b-searched",
        "70B on 2T tokens, 1,024 H100, layout searched; budget of 3.5M USD with 80 % confidence",
        Published(
            7_000_000 * 2 / 15,
            "2/15 of the 7.0M H100-hours of Llama 3.1 70B on 15T tokens, its long-context stage among them: "
            "meta-llama/llama-models models/llama3_1/MODEL_CARD.md",
        ),
    ),
    Case("05-70b-h100", "The same run on H100 and on B200: 70B, 1T tokens, 512 H100 at 3.99 USD"),
    Case(
        "06-70b-b200",
        "The same run on H100 and on B200: 70B, 1T tokens, 512 B200 at 6.69 USD",
        against="05-70b-h100",
    ),
    Case("07-billed-eur", "34B on 1T tokens at a billed MFU of 38 %; discount, credits and tax in EUR"),
    Case("08-commitment-within", "70B on 2T tokens, 512 of 544 H100 committed for 90 days; the whole term is billed"),
    Case("08-commitment-overrun", "The same run on a term of 45 days, which ends before it; beyond it 3.90 USD"),
    Case("09-spot", "70B fine-tuned on 6B tokens, 64 spot H100, each node interrupted every 5 hours"),
    Case("10-owned", "70B on 2T tokens on 512 H100 that were bought: cash, book and fully loaded"),
)


def case_of(name: str) -> Case:
    """The case of this name."""
    return next(one for one in CASES if one.name == name)
