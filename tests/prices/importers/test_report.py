"""What the report says: duplicates, doubts, refusals, and lists that end while counts do not."""

from decimal import Decimal

import pytest

from service.catalog.gpus import load_gpus
from service.errors import BrokenRule
from service.prices.importers import reading
from service.prices.importers.plausible import band_of
from service.prices.importers.schemas import MAX_BYTES, MAX_LISTED, ImportOptions
from tests.prices.importers.samples import assert_adds_up, codes, flat, gpu_rates, notes, only, prices, read


@pytest.mark.parametrize(
    ("gpu", "price", "doubted"),
    [
        ("B200", "0.01", True),  # a sentinel
        ("B200", "700.0", True),
        ("H100 SXM", "700", True),
        ("H100", "700", True),  # ambiguous: outside the band of every part that may be meant
        ("B200", "2.40", False),
        ("B200", "14.2416", False),
        ("H100 SXM", "0.90", False),
        ("H100 SXM", "12.29", False),
        ("A100 SXM 80GB", "5.12", False),
        ("T4", "0.03", False),
        ("T4", "4.352", False),  # one in a machine with 64 vCPUs
        ("V100 SXM2 16GB", "3.06", False),
        ("GTX 1060", "0.02", False),
        ("GTX 1060", "700", True),
    ],
)
def test_a_price_outside_the_band_of_its_part_is_kept_flagged_and_of_low_confidence(
    gpu: str, price: str, doubted: bool
) -> None:
    outcome = flat(f"{gpu},acme,,on-demand,{price},1")
    rate = only(outcome)
    assert rate.price_per_gpu_hour == Decimal(price)
    assert codes(outcome) == ([(2, "implausible_price")] if doubted else [])
    assert rate.confidence == ("low" if doubted else "medium")


def test_every_part_of_the_catalogue_has_a_band_with_room_for_real_offers() -> None:
    for gpu in load_gpus():
        low, high = band_of([gpu.id])
        assert 0 < low * 10 < high, gpu.id


def test_prices_in_another_currency_are_not_judged() -> None:
    assert codes(flat("B200,acme,,on-demand,700,1", currency="JPY")) == []


def test_of_two_prices_for_the_same_thing_the_first_stays_and_the_second_is_flagged() -> None:
    outcome = flat("L4,acme,north,on-demand,0.80,1", "L4,acme,north,on-demand,0.90,1")
    assert prices(outcome) == ["0.80"]
    assert codes(outcome, "skipped") == [(3, "conflicting_price")]
    assert codes(outcome) == [(3, "conflicting_price")]
    assert "0.80 in line 2, 0.90 here" in outcome.report.skipped[0].reason


def test_the_same_rate_again_is_skipped_and_no_doubt() -> None:
    outcome = flat("L4,acme,north,on-demand,0.80,1", "nvidia l4,ACME,north,on-demand,0.8,1")
    assert codes(outcome, "skipped") == [(3, "repeated")]
    assert codes(outcome) == []


def test_a_rate_with_a_price_replaces_one_without() -> None:
    outcome = flat("thing,acme,north,on-demand,0,8", "thing,acme,north,on-demand,2.5,8", "L4,acme,,spot,1,1")
    assert prices(outcome) == ["2.5", "1"]
    assert codes(outcome, "skipped") == [(2, "no_price")]
    assert (outcome.report.rates.unknown_price, notes(outcome)["unknown_replaced"]) == (0, 1)
    assert (outcome.report.rows.unknown, outcome.report.unmatched[0].rows) == (1, 1)
    assert_adds_up(outcome.report, 3)


def test_a_row_whose_other_rate_stays_is_not_skipped() -> None:
    header = "accelerator,provider,price_per_gpu_hour,spot_price_per_gpu_hour"
    outcome = read(f"{header}\nL4,a,0,0.20\nL4,a,0.80,\n")
    assert [(rate.purchase, str(rate.price_per_gpu_hour)) for rate in gpu_rates(outcome)] == [
        ("on_demand", "0.80"),
        ("spot", "0.20"),
    ]
    assert (outcome.report.rows.accepted, codes(outcome, "skipped")) == (2, [])


def test_another_region_count_provider_or_way_to_buy_is_another_thing() -> None:
    outcome = flat(
        "L4,acme,north,on-demand,0.80,1",
        "L4,acme,south,on-demand,0.90,1",
        "L4,acme,north,on-demand,0.70,8",
        "L4,other,north,on-demand,0.60,1",
        "L4,acme,north,spot,0.20,1",
        "L4,acme,north,secure,0.85,1",
    )
    assert len(outcome.rates) == 6
    assert codes(outcome, "skipped") == []


def test_one_rejected_row_refuses_the_file_and_the_report_still_tells_of_every_row() -> None:
    rows = ["L4,a,,on-demand,1,1", "L4,b,,on-demand,x,1", "L4,c,,on-demand,1,1"]
    refused = flat(*rows)
    assert refused.rates == []
    assert refused.report.refused
    assert refused.report.rows.accepted == 2
    taken = flat(*rows, on_error="skip")
    assert len(taken.rates) == 2
    assert not taken.report.refused
    for outcome in (refused, taken):
        assert_adds_up(outcome.report, 3)


def test_lists_end_and_counts_are_exact() -> None:
    rows = [f"L4,a{number},,on-demand,x,1" for number in range(MAX_LISTED + 50)]
    report = flat(*rows, *(f"thing {number},b,,on-demand,900,1" for number in range(MAX_LISTED + 20))).report
    assert (len(report.rejected), report.rows.rejected) == (MAX_LISTED, MAX_LISTED + 50)
    assert (len(report.suspicious), report.rows.suspicious) == (MAX_LISTED, MAX_LISTED + 20)
    assert (len(report.unmatched), report.rows.unknown) == (MAX_LISTED, MAX_LISTED + 20)


def test_a_file_that_is_too_large_is_refused_unread() -> None:
    with pytest.raises(BrokenRule, match="20,000,000"):
        read(b" " * (MAX_BYTES + 1))


def test_a_file_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_ROWS", 3)
    assert flat(*(f"L4,a{number},,spot,1,1" for number in range(3))).report.rows.total == 3
    with pytest.raises(BrokenRule, match="more than 3 rows"):
        flat(*(f"L4,a{number},,spot,1,1" for number in range(4)))


def test_progress_is_told_in_bytes_and_ends_with_all_of_them() -> None:
    data = "\n".join(["accelerator,provider,price_per_gpu_hour", *(f"L4,a{n},1" for n in range(5_000))]).encode()
    told: list[int] = []
    reading.read_rates(data, ImportOptions(), told.append)
    assert told == sorted(told)
    assert len(told) == 3
    assert told[-1] == len(data)


def test_the_same_file_gives_the_same_answer() -> None:
    rows = [f"thing {number % 7},a{number % 5},r{number % 3},on-demand,{number % 11 + 1},1" for number in range(200)]
    assert flat(*rows) == flat(*rows)
    assert gpu_rates(flat(*rows))[0].accelerator_name == "thing 0"
