"""The JSON of a price index: offers with a price per GPU, a word for how they are sold, and when they were read."""

import datetime
import json
from decimal import Decimal

import pytest

from service.errors import BrokenRule
from tests.prices.importers.samples import codes, fault, gpu_rates, only, read, rental


def test_an_offer_brings_its_source_and_the_day_it_was_read() -> None:
    rate = only(rental({"gpu": "h100-sxm", "vram_gb": 80, "usd_hr": 3.29, "kind": "secure", "min_gpus": 8}))
    assert (rate.accelerator_id, rate.price_per_gpu_hour, rate.gpu_count) == ("h100-sxm-80gb", Decimal("3.29"), 8)
    assert (rate.purchase, rate.purchase_word) == ("on_demand", "secure")
    assert (rate.source, rate.seen_on, rate.valid_from) == ("https://prices.test", datetime.date(2026, 8, 22), None)


@pytest.mark.parametrize(
    ("kind", "purchase", "word"),
    [
        ("on-demand", "on_demand", None),
        ("spot", "spot", None),
        ("secure", "on_demand", "secure"),
        ("serverless", "on_demand", "serverless"),
        ("community", "marketplace", "community"),
        ("Pre-emptible", "spot", "Pre-emptible"),
        ("reserved", "reserved", None),
        ("capacity-block", "capacity_block", None),
    ],
)
def test_the_word_for_how_it_is_sold_is_mapped_and_kept_where_it_says_more(
    kind: str, purchase: str, word: str | None
) -> None:
    rate = only(rental({"gpu": "l4", "vram_gb": 24, "usd_hr": 0.5, "kind": kind}))
    assert (rate.purchase, rate.purchase_word) == (purchase, word)


def test_a_word_that_nobody_knows_is_rejected_with_its_field_and_column() -> None:
    outcome = rental({"gpu": "l4", "usd_hr": 0.5, "kind": "prototyping"})
    assert fault(outcome) == ("unknown_word", "purchase")
    assert outcome.report.rejected[0].column == "kind"
    assert "on_demand" in outcome.report.rejected[0].reason


def test_a_generic_name_is_kept_as_ambiguous_with_all_that_fit() -> None:
    outcome = rental({"gpu": "h100", "vram_gb": 80, "usd_hr": 2.0})
    rate = only(outcome)
    assert (rate.accelerator_id, rate.accelerator_name) == (None, "h100")
    (name,) = outcome.report.unmatched
    assert (name.matched, name.candidates) == ("ambiguous", ("h100-pcie-80gb", "h100-sxm-80gb"))
    assert (outcome.report.rows.ambiguous, outcome.report.rows.unknown) == (1, 0)


def test_an_unknown_name_is_kept_with_the_nearest() -> None:
    outcome = rental(
        {"gpu": "rtx-3090-ti", "vram_gb": 24, "usd_hr": 0.2}, {"gpu": "rtx-3090-ti", "usd_hr": 0.3, "provider": "b"}
    )
    assert [rate.accelerator_name for rate in gpu_rates(outcome)] == ["rtx-3090-ti"] * 2
    (name,) = outcome.report.unmatched
    assert (name.matched, name.rows) == ("unknown", 2)
    assert name.candidates[0] == "rtx-3090-24gb"
    assert outcome.report.rows.unknown == 2


@pytest.mark.parametrize(
    ("gpu", "memory", "accelerator_id"),
    [
        ("a100-sxm-80", 80, "a100-sxm-80gb"),  # the last number is the memory
        ("h100", 94, "h100-nvl-94gb"),  # only one has so much
        ("b200", 180, "b200-sxm-180gb"),
        ("b200", 192, "b200-sxm-180gb"),
        ("HGX H100", 80, "h100-sxm-80gb"),
    ],
)
def test_the_memory_beside_a_name_may_tell_which_it_is(gpu: str, memory: int, accelerator_id: str) -> None:
    outcome = rental({"gpu": gpu, "vram_gb": memory, "usd_hr": 2.0})
    assert only(outcome).accelerator_id == accelerator_id
    assert codes(outcome) == []


def test_a_number_that_is_not_the_memory_is_no_memory() -> None:
    assert only(rental({"gpu": "a100-sxm-80", "vram_gb": 40, "usd_hr": 2.0})).accelerator_id is None


def test_the_noise_of_a_float_is_not_part_of_the_price() -> None:
    assert only(rental({"gpu": "l4", "usd_hr": 3.9492000000000003})).price_per_gpu_hour == Decimal("3.9492")


def test_a_discount_for_a_whole_node_is_kept_apart() -> None:
    outcome = rental(
        {"gpu": "h100-sxm", "usd_hr": 4.29, "min_gpus": 1}, {"gpu": "h100-sxm", "usd_hr": 3.99, "min_gpus": 8}
    )
    assert [(rate.gpu_count, str(rate.price_per_gpu_hour)) for rate in gpu_rates(outcome)] == [(1, "4.29"), (8, "3.99")]
    assert codes(outcome) == []


def test_spot_is_compared_with_the_on_demand_offer_of_another_row() -> None:
    outcome = rental({"gpu": "l4", "usd_hr": 0.6, "kind": "spot"}, {"gpu": "l4", "usd_hr": 0.5, "kind": "on-demand"})
    assert codes(outcome) == [(1, "spot_above_on_demand")]


@pytest.mark.parametrize(
    "offers",
    ['[{"gpu": ["l4"], "provider": "a", "usd_hr": 1, "kind": "spot"}]', '["l4"]', "[7]", "[null]"],
)
def test_an_offer_of_another_shape_is_rejected(offers: str) -> None:
    outcome = read(f'{{"offers": {offers}}}')
    assert outcome.report.rows.rejected == 1


@pytest.mark.parametrize("text", ["{", '{"offers": 3}', '{"rows": []}', "[" * 5000, '{"offers": [}', '{"a": NaN}'])
def test_what_is_no_such_json_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(BrokenRule):
        read(text)


def test_an_index_without_offers_is_refused_and_says_that_it_has_none() -> None:
    report = read('{"offers": []}').report
    assert (report.rows.total, report.refused, [note.code for note in report.notes]) == (0, True, ["no_rate"])


@pytest.mark.parametrize("member", ["provider", "gpu", "usd_hr", "kind"])
def test_an_index_whose_members_are_called_otherwise_is_refused_by_name(member: str) -> None:
    offer = {"provider": "acme", "gpu": "l4", "usd_hr": 0.5, "kind": "spot"}
    renamed = {name if name != member else "renamed": value for name, value in offer.items()}
    with pytest.raises(BrokenRule, match=f"No item has '{member}'"):
        read(json.dumps({"offers": [renamed] * 2}))
    assert read(json.dumps({"offers": [offer]})).report.rows.accepted == 1
