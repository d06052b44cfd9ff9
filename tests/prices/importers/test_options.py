"""What is said beside a file: it holds where the file says nothing, and what cannot hold is refused."""

import datetime

import pytest

from service.errors import BrokenRule, Fault
from service.money import Money
from service.prices.importers.own_csv import write_rates
from service.prices.schemas import GpuRate
from tests.prices.importers.samples import FLAT, SKYPILOT_HEADER, codes, gpu_rates, notes, only, read

OWN = "kind,accelerator_id,provider,purchase,price_per_gpu_hour,source,confidence,seen_on,valid_from,valid_to"
BARE = f"{OWN}\naccelerator,l4-24gb,,on_demand,0.80,,,,,\n"
FULL = f"{OWN}\naccelerator,l4-24gb,acme,on_demand,0.80,a quote,high,2026-01-01,2026-02-01,2026-03-01\n"
DAY = datetime.date(2026, 10, 1)
LATER = datetime.date(2027, 1, 1)


def test_options_hold_in_our_own_format_where_a_cell_is_blank_and_nowhere_else() -> None:
    options = {
        "provider": "Acme",
        "source": "their page",
        "confidence": "low",
        "seen_on": DAY,
        "valid_from": DAY,
        "valid_to": LATER,
    }
    bare = only(read(BARE, **options))
    assert (bare.provider, bare.source, bare.confidence) == ("acme", "their page", "low")
    assert (bare.seen_on, bare.valid_from, bare.valid_to) == (DAY, DAY, LATER)
    assert only(read(FULL, **options)) == only(read(FULL))


def test_the_day_of_a_revision_is_when_its_prices_were_read_but_changes_no_rate_of_our_own_format() -> None:
    rate = GpuRate(
        accelerator_id="l4-24gb", provider="a", purchase="spot", price_per_gpu_hour=Money("0.20"), source="x"
    )
    assert read(b"".join(write_rates([rate])), as_of=DAY).rates == [rate]
    text = "accelerator,provider,price_per_gpu_hour\nL4,a,1\n"
    assert only(read(text, as_of=DAY)).seen_on == DAY
    assert only(read(text, as_of=DAY, seen_on=LATER)).seen_on == LATER


@pytest.mark.parametrize("format_", ["own_csv", "skypilot_csv", "rental_json"])
def test_a_mapping_beside_a_format_that_has_its_own_is_refused(format_: str) -> None:
    with pytest.raises(BrokenRule) as raised:
        read(f"{SKYPILOT_HEADER}\n", format=format_, mapping=FLAT, provider="acme")
    assert raised.value.faults == (Fault("query", "mapping", raised.value.detail),)
    assert format_ in raised.value.detail


def test_what_the_query_has_to_say_is_asked_of_the_query() -> None:
    with pytest.raises(BrokenRule) as raised:
        read("accelerator,price_per_gpu_hour\nL4,1\n")
    assert (raised.value.faults[0].where, raised.value.faults[0].pointer) == ("query", "provider")
    with pytest.raises(BrokenRule) as raised:
        read("a,b\n1,2\n", provider="acme")
    assert (raised.value.faults[0].where, raised.value.faults[0].pointer) == ("query", "mapping")


def test_an_implausible_price_in_our_own_format_is_flagged_and_stored_as_it_is() -> None:
    outcome = read(FULL.replace("0.80", "700"))
    assert codes(outcome) == [(2, "implausible_price")]
    assert (only(outcome).confidence, str(only(outcome).price_per_gpu_hour)) == ("high", "700")
    bare = read(BARE.replace("0.80", "700"), provider="a", source="x")
    assert (codes(bare), only(bare).confidence) == ([(2, "implausible_price")], "low")


def test_that_other_currencies_are_not_judged_is_said() -> None:
    for text in (FULL, "accelerator,provider,price_per_gpu_hour\nL4,a,700\n"):
        outcome = read(text, currency="EUR")
        assert codes(outcome) == []
        assert notes(outcome)["not_judged"] == 1
        (note,) = [note for note in outcome.report.notes if note.code == "not_judged"]
        assert note.message.endswith("these prices are in EUR")
    assert "not_judged" not in notes(read(FULL))


@pytest.mark.parametrize("given", ["h100-sxm", "h100-sxm5", "b200"])
def test_an_id_that_is_only_a_spelling_of_another_is_rejected_with_that(given: str) -> None:
    outcome = read(FULL.replace("l4-24gb", given))
    (rejected,) = outcome.report.rejected
    assert (rejected.code, rejected.field) == ("another_id", "accelerator_id")
    assert "in the catalogue" in rejected.reason


def test_a_generic_id_stays_ambiguous() -> None:
    outcome = read(FULL.replace("l4-24gb", "h100"))
    assert [name.matched for name in outcome.report.unmatched] == ["ambiguous"]
    assert [rate.accelerator_id for rate in gpu_rates(outcome)] == ["h100"]


def test_a_name_without_the_id_that_it_has_is_kept_and_listed_with_it() -> None:
    text = FULL.replace("accelerator_id", "accelerator_name").replace("l4-24gb", "H100 SXM5 80GB")
    outcome = read(text)
    (name,) = outcome.report.unmatched
    assert (name.name, name.matched, name.candidates) == ("H100 SXM5 80GB", "without_id", ("h100-sxm-80gb",))
    assert only(outcome).accelerator_id is None


def test_a_word_that_is_none_of_a_few_is_answered_with_them() -> None:
    text = "kind,provider,storage_class,price_per_gb_month,source\nstorage,a,s3,1,x\n"
    (rejected,) = read(text).report.rejected
    assert rejected.reason == "'s3' is none of object_storage, object_infrequent, shared_filesystem"
