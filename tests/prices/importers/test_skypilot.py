"""A SkyPilot catalogue: instances, slices and bare accelerators, on demand and spot."""

from decimal import Decimal

import pytest

from tests.prices.importers.samples import assert_adds_up, codes, fault, gpu_rates, notes, only, prices, read, skypilot

INFO = "\"{'Gpus': [{'Name': 'X', 'Manufacturer': 'NVIDIA', 'Count': 1.0, 'MemoryInfo': {'SizeInMiB': %d}}]}\""


def test_an_instance_gives_its_price_by_its_gpu_count_on_demand_and_spot() -> None:
    outcome = skypilot("big.8x,H100-SXM,8.0,192,2048,,55.04,20.00,north-1,north-1a")
    on_demand, spot = gpu_rates(outcome)
    assert (on_demand.accelerator_id, on_demand.gpu_count, on_demand.instance) == ("h100-sxm-80gb", 8, "big.8x")
    assert on_demand.price_per_gpu_hour == Decimal("6.88")
    assert on_demand.instance_price_per_hour == Decimal("55.04")
    assert (on_demand.purchase, spot.purchase) == ("on_demand", "spot")
    assert spot.price_per_gpu_hour == Decimal("2.5")
    assert spot.note == "zone north-1a"
    assert outcome.report.rows.accepted == 1
    assert outcome.report.rates.total == 2


@pytest.mark.parametrize(
    ("price", "count", "per_gpu"),
    [
        ("0.454", "0.167", "2.718563"),
        ("1.0", "0.333", "3.003003"),
        ("1.6", "0.5", "3.2"),
        ("21.957642", "8", "2.744705"),
    ],
)
def test_a_fraction_of_a_gpu_is_priced_as_a_whole_one(price: str, count: str, per_gpu: str) -> None:
    rate = only(skypilot(f"part,A10,{count},6,55,,{price},,north-1,"))
    assert rate.price_per_gpu_hour == Decimal(per_gpu)
    assert rate.gpu_count == float(count)


def test_a_row_without_an_accelerator_is_skipped_and_says_so() -> None:
    outcome = skypilot("cpu.large,,,8,32,,0.5,0.1,north-1,", "cpu.x,,0,8,32,,0.5,,north-1,")
    assert codes(outcome, "skipped") == [(2, "cpu_only"), (3, "cpu_only")]
    assert outcome.rates == []


@pytest.mark.parametrize("spot", ["", "0.00", "0", "nan"])
def test_no_spot_price_is_no_spot_rate(spot: str) -> None:
    outcome = skypilot(f"a.1x,L4,1,8,32,,0.80,{spot},north-1,")
    assert only(outcome).purchase == "on_demand"
    assert notes(outcome)["spot_absent"] == 1


@pytest.mark.parametrize(("spot", "code"), [("0.80", "spot_equals_on_demand"), ("0.81", "spot_above_on_demand")])
def test_spot_at_or_above_on_demand_is_kept_and_suspicious(spot: str, code: str) -> None:
    outcome = skypilot(f"a.1x,L4,1,8,32,,0.80,{spot},north-1,")
    assert len(outcome.rates) == 2
    assert codes(outcome) == [(2, code)]
    assert outcome.report.rows.suspicious == 1


def test_spot_below_on_demand_is_nothing_to_remark() -> None:
    assert codes(skypilot("a.1x,L4,1,8,32,,0.80,0.79,north-1,")) == []


def test_an_accelerator_without_an_instance_says_that_no_machine_is_in_its_price() -> None:
    outcome = skypilot(",V100,1,,,,2.48,,north-1,")
    rate = gpu_rates(outcome)[0]
    assert rate.instance is None
    assert rate.note == "the accelerator without a machine"
    assert notes(outcome)["accelerator_only"] == 1


@pytest.mark.parametrize(
    ("name", "chips", "per_chip"),
    [
        ("tpu-v5p-8", 4, "4"),  # named by cores, two to a chip
        ("tpu-v4-16", 8, "2"),
        ("tpu-v5litepod-8", 8, "2"),  # named by chips
        ("tpu-v6e-4", 4, "4"),
        ("TPU v5e-1", 1, "16"),
    ],
)
def test_a_tpu_slice_is_priced_per_chip(name: str, chips: int, per_chip: str) -> None:
    rate = only(skypilot(f"TPU-VM,{name},1,,,,16.00,,north-1,"))
    assert rate.gpu_count == chips
    assert rate.price_per_gpu_hour == Decimal(per_chip)
    assert rate.accelerator_id is not None
    assert rate.accelerator_id.startswith("tpu-v")


def test_a_slice_of_a_generation_that_is_not_in_the_catalogue_keeps_its_name_and_is_priced_per_chip() -> None:
    rate = only(skypilot("TPU-VM,tpu-v3-8,1,,,,8.80,,north-1,"))
    assert (rate.accelerator_id, rate.accelerator_name, rate.gpu_count) == (None, "tpu-v3-8", 4)
    assert rate.price_per_gpu_hour == Decimal("2.2")


@pytest.mark.parametrize(
    ("name", "code"), [("tpu-v7x-8", "slice_of_unknown_unit"), ("tpu-v4-7", "invalid"), ("tpu-v4-0", "invalid")]
)
def test_a_slice_whose_chips_cannot_be_told_is_rejected(name: str, code: str) -> None:
    assert fault(skypilot(f"TPU-VM,{name},1,,,,8.80,,north-1,")) == (code, "accelerator")


@pytest.mark.parametrize(
    ("name", "mib", "accelerator_id"),
    [("V100-SXM2", 32768, "v100-sxm2-32gb"), ("A100-SXM", 40960, "a100-sxm-40gb"), ("GH200", 97871, "gh200-96gb")],
)
def test_the_printed_description_tells_the_memory(name: str, mib: int, accelerator_id: str) -> None:
    assert only(skypilot(f"a,{name},1,8,32,{INFO % mib},2.00,,north-1,")).accelerator_id == accelerator_id


@pytest.mark.parametrize(
    "info",
    [
        "A100",
        "\"__import__('os').abort()\"",
        "\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': __import__('os').abort()}}]}\"",
        "\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': -1}}]}\"",
        "\"{'Gpus': []}\"",
        "\"{'Gpus': [{'MemoryInfo': {'SizeInMiB': True}}]}\"",
        '"' + "{" * 1000 + '"',
        "\"{'Gpus': '" + "x" * 3000 + "'}\"",
    ],
)
def test_a_description_that_tells_nothing_is_passed_over_and_never_evaluated(info: str) -> None:
    rate = only(skypilot(f"a,V100-SXM2,1,8,32,{info},2.00,,north-1,"))
    assert (rate.accelerator_id, rate.accelerator_name) == (None, "V100-SXM2")


def test_a_memory_that_the_part_does_not_have_is_suspicious() -> None:
    outcome = skypilot(f"a,H100-SXM,1,8,32,{INFO % 40960},2.00,,north-1,")
    assert codes(outcome) == [(2, "memory_differs")]
    assert outcome.report.suspicious[0].column == "GpuInfo"


@pytest.mark.parametrize("mib", [184320, 196608])
def test_both_sizes_that_a_b200_is_sold_by_are_a_b200(mib: int) -> None:
    outcome = skypilot(f"a,B200,8,8,32,{INFO % mib},40.00,,north-1,")
    assert only(outcome).accelerator_id == "b200-sxm-180gb"
    assert codes(outcome) == []


def test_other_zones_at_the_same_price_are_repetitions_and_at_another_the_first_stays() -> None:
    outcome = skypilot(
        "a.1x,L4,1,8,32,,0.80,0.30,north-1,north-1a",
        "a.1x,L4,1,8,32,,0.80,0.30,north-1,north-1b",
        "a.1x,L4,1,8,32,,0.80,0.40,north-1,north-1c",
    )
    assert prices(outcome) == ["0.8", "0.3"]
    assert codes(outcome, "skipped") == [(3, "repeated"), (4, "another_zone")]
    assert notes(outcome)["another_zone"] == 1
    assert codes(outcome) == []


def test_one_price_in_seventeen_regions_is_kept_and_noted_once() -> None:
    outcome = skypilot(*(f"gpu_1x,H100-PCIe,1,26,200,,2.49,,region-{number}," for number in range(17)))
    assert len(outcome.rates) == 17
    assert notes(outcome)["same_price_elsewhere"] == 16
    assert codes(outcome) == []


def test_the_word_that_ends_an_instance_says_whose_machine_it_is() -> None:
    outcome = skypilot("1x_L4_SECURE,L4,1,8,32,,0.44,,CA,CA-1", "1x_L4_COMMUNITY,L4,1,8,32,,0.39,,CA,CA-1")
    assert [(rate.purchase, rate.purchase_word) for rate in gpu_rates(outcome)] == [
        ("on_demand", "secure"),
        ("marketplace", "community"),
    ]


def test_a_region_in_quotes_tells_its_country() -> None:
    outcome = skypilot(
        'a,L4,1,8,32,,0.44,,"Frankfurt, DE, EU",', 'b,L4,1,8,32,,0.44,,"Atlantis, XX, EU",', "c,L4,1,8,32,,0.44,,CA,"
    )
    assert [(rate.region, rate.country) for rate in gpu_rates(outcome)] == [
        ("Frankfurt, DE, EU", "DE"),
        ("Atlantis, XX, EU", None),
        ("CA", None),
    ]


@pytest.mark.parametrize(
    "region", ["Wilmington, DE", "San Jose, CA", "Chicago, IL", "Atlanta, GA", "Denver, CO", "Winnipeg, MB"]
)
def test_a_state_or_a_province_is_no_country(region: str) -> None:
    assert only(skypilot(f'a,L4,1,8,32,,0.44,,"{region}",')).country is None


@pytest.mark.parametrize(("region", "country"), [("Oslo, NO", "NO"), ("Tel Aviv, IL, AS", "IL"), ("Oslo, XX", None)])
def test_a_country_that_is_nothing_else_is_read(region: str, country: str | None) -> None:
    assert only(skypilot(f'a,L4,1,8,32,,0.44,,"{region}",')).country == country


def test_a_doubt_about_a_spot_price_names_its_column() -> None:
    outcome = skypilot("a.1x,L4,1,8,32,,0.80,700,north-1,", "a.2x,L4,1,8,32,,700,0.20,north-1,")
    assert [(doubt.line, doubt.code, doubt.column) for doubt in outcome.report.suspicious] == [
        (2, "implausible_price", "SpotPrice"),
        (2, "spot_above_on_demand", "SpotPrice"),
        (3, "implausible_price", "Price"),
    ]


def test_columns_may_stand_in_any_order_with_others_between() -> None:
    outcome = read(
        "Region,Arch,Price,AcceleratorCount,SpotPrice,AcceleratorName\nnorth-1,x86,4.00,2,,L40S\n", provider="acme"
    )
    assert only(outcome).price_per_gpu_hour == 2
    assert outcome.report.format == "skypilot_csv"
    assert outcome.report.unused_columns == ("Arch",)


def test_an_accelerator_at_zero_is_unknown_unless_it_is_said_to_be_free() -> None:
    unknown = only(skypilot("a,L4,1,8,32,,0.00,,north-1,"))
    assert (unknown.price_per_gpu_hour, unknown.free) == (None, False)
    assert unknown.unknown_reason
    free = only(skypilot("a,L4,1,8,32,,0.00,,north-1,", free_is_real=True))
    assert free.price_per_gpu_hour == 0
    assert (free.free, free.unknown_reason) == (True, None)


def test_an_accelerator_without_a_price_is_unknown() -> None:
    outcome = skypilot("a,L4,1,8,32,,,,north-1,")
    assert only(outcome).unknown_reason == "The file gives no price"
    assert outcome.report.rates.unknown_price == 1
    assert_adds_up(outcome.report, 1)
