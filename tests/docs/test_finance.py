"""docs/finance.md: its request and its file are read, and every figure of its example is what the service answers."""

import json
import re
from decimal import Decimal

import httpx

from tests.support.server import ROOT

TEXT = (ROOT / "docs" / "finance.md").read_text()
FLAT = " ".join(TEXT.split())
URL = "/v1/scenarios/run"


def block(kind: str) -> str:
    """What stands in a block of code."""
    found = re.search(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)
    assert found
    return found.group(1)


def dollars(amount: str, sign: str = "") -> str:
    """An amount as the text writes it."""
    return f"{sign}${abs(Decimal(amount)):,.2f}"


def signed(amount: str) -> str:
    return dollars(amount, "-" if Decimal(amount) < 0 else "+")


async def test_its_example_is_what_the_service_answers(stored_api: httpx.AsyncClient) -> None:
    request = json.loads(block("json"))
    first = {**request, "cluster": {"gpu_count": 80}, "price": {"kind": "hourly", "amount": "2.20"}}
    await stored_api.put(URL, json={"request": first})
    await stored_api.put(URL, json={"request": request}, headers={"If-Match": "*"})
    sides = {"before": {"name": "run", "revision": 1}, "after": {"name": "run", "revision": 2}}
    found = (await stored_api.post("/v1/scenario-diffs", json=sides)).json()["attribution"]
    told = [dollars(found[name]) for name in ("before", "after", "difference")]
    told += [f"`{effect['fields'][0]}` {signed(effect['amount'])}" for effect in found["effects"]]
    assert len(found["effects"]) == 2
    months = (await stored_api.get(f"{URL}/phasing")).json()["phasing"]["months"]
    told += [
        f"{dollars(month['amount'])} in {name}" for month, name in zip(months, ("January", "February"), strict=True)
    ]
    imported = await stored_api.post(
        f"{URL}/actuals/import", content=block("csv"), headers={"Content-Type": "text/csv"}
    )
    assert imported.json()["created"] == 1
    whole = (await stored_api.get(f"{URL}/forecast", params={"as_of": "2027-02-01"})).json()
    variance, forecast, verdict = whole["variance"], whole["forecast"], whole["verdict"]
    told += [dollars(variance["difference"]), dollars(variance["planned"]["amount"])]
    told += [f"{name} {signed(variance[name])}" for name in ("price", "volume", "efficiency")]
    told += [f"${variance['actual']['rate_per_gpu_hour']:.2f}", f"{forecast['remaining_hours']:.2f} hours"]
    told += [dollars(forecast[name]) for name in ("remaining", "total", "over_plan")]
    told += [f"`{verdict['status']}`: {dollars(verdict['cost']['headroom'])} too much"]
    told += [f"{-verdict['deadline']['headroom_hours']:.1f} hours too late"]
    assert forecast["finish_at"].startswith("2027-02-14T06:51")
    assert [figure for figure in told if figure not in FLAT] == []
