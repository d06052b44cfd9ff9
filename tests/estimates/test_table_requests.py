"""Thousands of requests that the schema allows and that read tables: an answer or a named rule, and never a failure."""

import random
from collections import Counter
from typing import Any

import httpx
import pytest

from service.prices.default import seed_default_table
from tests.conftest import NewDatabase, client_of
from tests.prices.rates import row
from tests.prices.stock import ESTIMATES, stock
from tests.support.formulas import computed

REQUESTS = 3000
_HUGE = "999999999999.999999"
_CURRENCIES = ("USD", "EUR", "JPY", "CLF", "BHD")  # of two, no, four and three digits


def _tier(kind: str, price: str, begin: float = 0, end: float | None = None, **fields: Any) -> dict[str, Any]:
    priced = {"price_per_gb" if kind == "egress" else "price_per_gb_month": price}
    return {
        "kind": kind,
        "provider": "aws",
        "source": "a test",
        "tier_from_gb": begin,
        "tier_to_gb": end,
        **priced,
        **fields,
    }


# Every kind of rate, some at the edge of what a table holds.
RATES = (
    row("2.00"),
    row("2.50", provider="b", valid_from="2026-01-10"),
    row("3.123456", provider="b", valid_from="2027-01-10"),
    row("1.10", provider="b", valid_from="2027-02-10", valid_to="2027-02-20"),
    row("1.00", provider="c", purchase="reserved", term_months=12.5, upfront="100000"),
    row(_HUGE, provider="d", purchase="spot"),
    row(_HUGE, provider="e", purchase="reserved", gpu_count=8, term_months=0.000001, upfront="999999999999"),
    row("0", provider="free", purchase="marketplace", gpu_count=0.25, free=True),
    row(None, purchase="capacity_block", unknown_reason="contact sales"),
    _tier("storage", "0.02", 0, 50, storage_class="object_storage"),
    _tier("storage", "0.0123", 50, storage_class="object_storage"),
    _tier("storage", "0.1", storage_class="shared_filesystem"),
    _tier("egress", "0", 0, 100, route="internet"),
    _tier("egress", _HUGE, 100, route="internet"),
    _tier("egress", "0.5", 0, 10, provider="broken", route="internet"),
)
_DAYS = ("2026-11-30", "0001-01-01", "9999-12-31", "2027-01-15", "2026-09-15")
_STARTS = (
    "2026-12-20T00:00:00Z",
    "2027-01-04T09:00:00+02:00",
    "2027-02-09T23:59:59.999999Z",
    "9999-12-31T23:00:00Z",
    "0001-01-01T00:00:00Z",
)


class Drawn:
    """Requests that a schema allows, mostly such as make sense."""

    def __init__(self, seed: int) -> None:
        self._pick = random.Random(seed)

    def _some(self, chance: float, **options: tuple[Any, ...]) -> dict[str, Any]:
        """Each of these fields with this chance, at one of its values."""
        return {name: self._pick.choice(values) for name, values in options.items() if self._pick.random() < chance}

    def _section(self, chance: float, *sections: dict[str, Any]) -> dict[str, Any] | None:
        return self._pick.choice(sections) if self._pick.random() < chance else None

    def request(self) -> dict[str, Any]:
        """One of them."""
        currency = self._pick.choice(_CURRENCIES)
        table = {"table": f"t-{currency}", **self._some(0.1, revision=(1, 2, 2**31 - 1), as_of=_DAYS)}
        tiers = {**table, "provider": self._pick.choice(("aws", "aws", "AWS", "broken"))}
        sections: dict[str, dict[str, Any] | None] = {
            "cluster": {
                "gpu": self._pick.choice(("h100-sxm-80gb", "h100-sxm-80gb", "H100 SXM", "h200-sxm-141gb")),
                **self._some(0.7, gpu_count=(1, 7, 8, 512, 1_000_000), gpus_per_node=(8, 8, 1, 1024)),
            },
            "work": self._section(
                0.8,
                {"kind": "gpu_hours", "hours": self._pick.choice((1e-6, 0.37, 100, 900, 5000, 1e9))},
                {"kind": "transformer", "model": "llama-3-8b", "tokens": 1e12, "mfu_percent": 40},
                {"kind": "throughput", "tokens": 1e12, "tokens_per_second": 1e5, "per": "cluster"},
            ),
            "rework": self._section(
                0.4,
                {"kind": "failures", "preset": "on_call"},
                {"kind": "failures", "spot": {"fallback_percent": 40, "on_demand_amount": "4"}},
                {"kind": "buffer", "rework_percent": self._pick.choice((0, 10_000))},
            ),
            "price": self._section(
                0.9,
                {
                    "kind": "table",
                    **table,
                    **self._some(0.3, purchase=("on_demand", "spot", "reserved", "marketplace", "capacity_block")),
                    **self._some(0.1, provider=("b", "c", "nobody"), jurisdiction=("US",), term_months=(12.5, 12)),
                    **self._some(0.2, discount_percent=(0, 12.5, 100), credits=("5000", _HUGE), tax_percent=(19,)),
                },
                {"kind": "hourly", "amount": "2", "currency": self._pick.choice((currency, "USD"))},
                {"kind": "commitment", "amount": "2", "gpu_count": 8, "term_hours": 1000, "overflow_amount": "3"},
            ),
            "storage": self._section(
                0.3,
                {
                    "kind": "metered",
                    "from_table": tiers,
                    **self._some(0.5, dataset_gb=(0, 1e-9, 60_000, 1e12), filesystem_gb=(0, 100, 1e12)),
                    **self._some(0.2, checkpoints=({}, {"size_gb": 10, "every_hours": 3})),
                },
                {"kind": "metered"},
            ),
            "egress": self._section(
                0.3,
                {
                    "kind": "metered",
                    "from_table": tiers,
                    **self._some(0.5, exported_gb=(0, 100, 10_000, 1e12), used_gb=(0, 1e12), route=("private",)),
                },
                {"kind": "metered", "tiers": [{"price_per_gb": "0.1"}]},
            ),
            "exchange": self._section(
                0.3,
                {
                    "from_currency": currency,
                    "to_currency": self._pick.choice(_CURRENCIES),
                    "rate": self._pick.choice(("0.92", "151.3", "0.000001", "0", _HUGE)),
                    "as_of": "2026-11-02",
                },
            ),
            "budget": self._section(0.2, {"amount": "100000"}, {"amount": "100000", "confidence_percent": 80}),
            "uncertainty": self._section(0.1, {"samples": 1000, "seed": 1}),
            "idle": self._section(0.2, {"setup_hours": 4, "spare_nodes": 2}),
        }
        given = {name: section for name, section in sections.items() if section is not None}
        return {**given, **self._some(0.6, start_at=_STARTS)}


@pytest.fixture
async def stocked(new_database: NewDatabase) -> Any:
    """A table in each currency, and the one that comes with the release."""
    url = new_database("sqlite")
    await seed_default_table(url)
    async with client_of(url) as client:
        for currency in _CURRENCIES:
            await stock(client, f"t-{currency}", *RATES, currency=currency)
        yield client


async def test_what_the_schema_allows_is_answered_or_breaks_a_rule_that_is_named(stocked: httpx.AsyncClient) -> None:
    drawn = Drawn(20270104)
    counts: Counter[int] = Counter()
    for number in range(REQUESTS):
        body = drawn.request()
        answer = await stocked.post(ESTIMATES, json=body, params={"explain": "true"} if number % 5 == 0 else {})
        counts[answer.status_code] += 1
        assert answer.status_code in (200, 422), (body, answer.text)
        if answer.status_code == 422:
            assert answer.json()["type"] != "/errors/invalid-body", (body, answer.text)
            assert answer.json()["errors"], (body, answer.text)
            continue
        for found in answer.json().get("explanations", ()):
            size = max((abs(symbol["value"]) for symbol in found["symbols"]), default=0)  # a sum may come to nothing
            near = pytest.approx(found["result"], rel=1e-9, abs=1e-12 * max(size, 1))
            assert computed(found["substituted"]) == near, (body, found)
    assert counts[200] > REQUESTS / 8, counts
