"""The table that comes with the release: its data as data, there after a start, and not to be changed."""

import asyncio
import datetime

import httpx
import pytest

from service.catalog.gpus import load_gpus
from service.estimator.charges import tiered_cost
from service.money import exact
from service.prices import default
from service.prices.default import load_default_rates, seed_default_table
from service.prices.lookup import Question, choose, price_segments
from service.prices.rules import broken_rule
from service.prices.schemas import EgressRate, GpuRate, Rate, StorageRate
from service.prices.tier_lookup import egress_tiers, storage_tiers
from tests.conftest import NewDatabase, client_of
from tests.prices.rates import TODAY, gpu, indexed
from tests.support.server import Server

URL = "/v1/price-tables/list-prices"
RATES = load_default_rates()
each_rate = pytest.mark.parametrize("rate", RATES, ids=[f"{n}-{rate.provider}" for n, rate in enumerate(RATES)])


@each_rate
def test_every_rate_has_a_source_and_breaks_no_rule(rate: Rate) -> None:
    assert rate.source
    assert broken_rule(rate) is None
    assert rate.provider == rate.provider.casefold()
    if isinstance(rate, GpuRate):
        assert rate.accelerator_id in {row.id for row in load_gpus()}
        if rate.instance_price_per_hour is not None:
            assert rate.gpu_count
            assert rate.price_per_gpu_hour is not None
            assert abs(rate.instance_price_per_hour / exact(rate.gpu_count) - rate.price_per_gpu_hour) < exact(0.000001)


def test_nothing_is_lost_of_the_files() -> None:
    assert len(RATES) == len({repr(rate) for rate in RATES}) == 155
    kinds = [sum(isinstance(rate, kind) for rate in RATES) for kind in (GpuRate, StorageRate, EgressRate)]
    assert kinds == [118, 15, 22]


def test_a_cluster_of_h100_on_demand_is_priced_by_a_provider_of_nodes() -> None:
    choice = choose(indexed(*RATES), Question(accelerator_id="h100-sxm-80gb", gpu_count=512, as_of=TODAY))
    assert (choice.rate.provider, str(choice.rate.price_per_gpu_hour)) == ("lambda", "3.99")
    assert all((rate.gpu_count or 0) >= 8 for rate in (choice.rate, *choice.beaten))


def test_a_run_over_a_rise_of_price_is_cut_at_its_day() -> None:
    question = Question(accelerator_id="h100-sxm-80gb", gpu_count=64, as_of=TODAY, provider="nebius")
    start = datetime.datetime(2026, 9, 20, tzinfo=datetime.UTC)
    pieces = price_segments(indexed(*RATES), question, start, start + datetime.timedelta(days=30))
    assert [str(piece.rate.price_per_gpu_hour) for piece in pieces] == ["3.85", "4.5"]
    assert pieces[1].start == datetime.datetime(2026, 10, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp", "oci", "nebius", "coreweave", "lambda"])
def test_every_provider_of_egress_has_whole_tiers(provider: str) -> None:
    tiers = egress_tiers(indexed(*RATES), provider=provider, as_of=TODAY).tiers
    assert tiered_cost(exact(1_000_000), tiers) >= 0


def test_storage_has_whole_tiers() -> None:
    index = indexed(*RATES)
    for provider in ("aws", "azure", "gcp", "oci", "coreweave", "crusoe", "nebius"):
        assert storage_tiers(index, provider=provider, as_of=TODAY).tiers[-1].price_per_gb > 0
    assert storage_tiers(index, provider="nebius", as_of=TODAY, storage_class="shared_filesystem").tiers


@pytest.fixture
async def seeded(database_url: str) -> str:
    await seed_default_table(database_url)
    return database_url


async def test_it_states_what_it_does_not_know(seeded: str) -> None:
    async with client_of(seeded) as api:
        table = (await api.get(URL)).json()
        assert table["read_only"] is True
        assert any("Reserved" in gap for gap in table["gaps"])
        assert any("European" in gap for gap in table["gaps"])
        assert table["latest"]["rate_count"] == len(RATES)
        assert table["latest"]["as_of"] == "2026-11-09"


async def test_it_cannot_be_changed(seeded: str) -> None:
    async with client_of(seeded) as api:
        any_version = {"If-Match": "*"}
        answers = [
            await api.put(URL, json={"currency": "USD"}, headers=any_version),
            await api.patch(URL, json={}, headers=any_version),
            await api.delete(URL, headers=any_version),
            await api.post(f"{URL}/revisions", json={"rates": []}),
            await api.post(f"{URL}/imports", content=b"kind", headers={"content-type": "text/csv"}),
            await api.put("/v1/price-tables/LIST-PRICES", json={"currency": "USD"}, headers=any_version),
        ]
        for answer in answers:
            assert answer.status_code == 409, answer.text
            assert "comes with the release" in answer.json()["detail"]


async def test_its_name_is_kept_where_it_is_not_there_yet(api: httpx.AsyncClient) -> None:
    assert (await api.put(URL, json={"currency": "USD"})).status_code == 409


async def test_a_second_start_changes_nothing_and_other_data_add_a_revision(
    seeded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision, created = await seed_default_table(seeded)
    assert (revision.number, created) == (1, False)
    monkeypatch.setattr(
        default, "load_default_rates", lambda: (*RATES, gpu("1.00", provider="new", seen_on="2026-11-30"))
    )
    revision, created = await seed_default_table(seeded)
    assert (revision.number, revision.rate_count, created) == (2, len(RATES) + 1, True)
    async with client_of(seeded) as api:
        changes = (await api.get(f"{URL}/comparison")).json()
        assert (changes["added"], changes["removed"], changes["changed"]) == (1, 0, 0)


async def test_many_starts_at_once_make_one_table(database_url: str) -> None:
    await asyncio.gather(*(seed_default_table(database_url) for _ in range(5)))
    async with client_of(database_url) as api:
        assert len((await api.get("/v1/price-tables")).json()["items"]) == 1
        assert (await api.get(URL)).json()["latest"]["number"] == 1


def test_it_is_there_after_a_start(new_database: NewDatabase) -> None:
    with Server(new_database("sqlite")) as server:
        answer = httpx.get(f"{server.base}{URL}/choice?gpu=h100-sxm-80gb&gpu_count=512", trust_env=False)
        assert answer.status_code == 200, answer.text
        assert answer.json()["rate"]["provider"] == "lambda"
