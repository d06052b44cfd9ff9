"""Any flat table by a mapping: columns, constants and what words mean."""

import datetime
import json
from decimal import Decimal

import pytest

from service.errors import BrokenRule, Fault
from service.prices.importers.schemas import Mapping
from service.prices.schemas import EgressRate, StorageRate
from tests.prices.importers.samples import FLAT, codes, fault, flat, gpu_rates, notes, only, prices, read


def test_a_row_is_read_by_the_mapping() -> None:
    rate = only(flat("H100 SXM,Acme,north,on-demand,2.50,8"))
    assert (rate.accelerator_id, rate.provider, rate.region) == ("h100-sxm-80gb", "acme", "north")
    assert (rate.price_per_gpu_hour, rate.gpu_count, rate.confidence) == (Decimal("2.50"), 8, "medium")
    assert rate.source == "imported file"


def test_the_options_say_what_the_file_does_not() -> None:
    rate = only(
        flat(
            "L4,acme,,spot,0.20,",
            source="a quote of 1 October",
            confidence="high",
            seen_on=datetime.date(2026, 10, 1),
            valid_from=datetime.date(2026, 9, 1),
            valid_to=datetime.date(2027, 1, 1),
        )
    )
    assert (rate.source, rate.confidence) == ("a quote of 1 October", "high")
    assert (rate.valid_from, rate.valid_to) == (datetime.date(2026, 9, 1), datetime.date(2027, 1, 1))
    assert rate.seen_on == datetime.date(2026, 10, 1)
    assert (rate.region, rate.gpu_count) == (None, None)


def test_constants_hold_where_the_column_is_absent_or_blank() -> None:
    mapping = Mapping(
        columns={"accelerator": "gpu", "price_per_gpu_hour": "usd", "region": "where"},
        constants={"provider": "acme", "purchase": "reserved", "term_months": "12", "region": "home"},
    )
    outcome = read("gpu,usd,where\nL4,1,\nL4,1,away\n", mapping=mapping)
    assert [(rate.region, rate.purchase, rate.term_months) for rate in gpu_rates(outcome)] == [
        ("home", "reserved", 12),
        ("away", "reserved", 12),
    ]


def test_a_value_map_says_what_a_word_means_and_the_word_is_kept() -> None:
    mapping = Mapping(
        columns=FLAT.columns, values={"purchase": {"Proto-Typing": "on_demand"}, "accelerator": {"big": "B200"}}
    )
    rate = only(flat("big,acme,,prototyping,4,", mapping=mapping))
    assert (rate.accelerator_id, rate.purchase, rate.purchase_word) == ("b200-sxm-180gb", "on_demand", "prototyping")


@pytest.mark.parametrize("part", ["columns", "constants", "values"])
def test_a_field_that_is_none_of_ours_is_named_with_those_that_are(part: str) -> None:
    given = {"columns": FLAT.columns} | {
        part: {"price_per_gpu": {} if part == "values" else "x"} | ({} if part != "columns" else FLAT.columns)
    }
    with pytest.raises(BrokenRule) as raised:
        flat("L4,acme,,spot,0.20,", mapping=Mapping(**given))  # type: ignore[arg-type]
    assert raised.value.faults[0] == Fault("query", "mapping", raised.value.detail)
    assert raised.value.detail.startswith(f"{part}: there is no field 'price_per_gpu'")
    assert "price_per_gpu_hour" in raised.value.detail


def test_a_column_that_the_file_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(BrokenRule, match=r"no column 'how'.*'gpu', 'who'"):
        flat("L4,acme", header="gpu,who,usd,n,where")


def test_a_member_that_no_item_has_is_named() -> None:
    with pytest.raises(BrokenRule, match="No item has 'where'"):
        read(json.dumps([{"gpu": "L4", "who": "a", "how": "spot", "usd": 1, "n": 1}]), mapping=FLAT)


def test_a_member_may_come_late() -> None:
    items = [{"gpu": "L4", "who": f"a{n}", "how": "spot", "usd": "1", "n": 1} for n in range(200)]
    outcome = read(json.dumps([*items, {**items[0], "where": "north"}]), mapping=FLAT)
    assert gpu_rates(outcome)[-1].region == "north"


def test_without_a_mapping_columns_that_are_called_as_our_fields_are_taken() -> None:
    outcome = read("accelerator,provider,price_per_gpu_hour,else\nL4,acme,0.80,x\n")
    assert only(outcome).price_per_gpu_hour == Decimal("0.80")
    assert outcome.report.format == "flat"
    assert outcome.report.unused_columns == ("else",)
    assert notes(outcome) == {"purchase_assumed": 1}


def test_a_table_in_which_nothing_can_be_found_says_what_to_map() -> None:
    with pytest.raises(BrokenRule, match="price_per_gpu_hour"):
        read("a,b\n1,2\n", provider="acme")
    with pytest.raises(BrokenRule, match="provider"):
        read("accelerator,price_per_gpu_hour\nL4,1\n")


def test_a_json_array_of_objects_is_a_table_too() -> None:
    items = [{"gpu": "L4", "who": "a", "where": None, "how": "spot", "usd": 0.30000000000000004, "n": 2, "x": [1]}]
    rate = only(read(json.dumps(items), mapping=FLAT))
    assert (rate.price_per_gpu_hour, rate.gpu_count, rate.region) == (Decimal("0.3"), 2, None)


def test_an_instance_price_is_divided_by_its_count_and_needs_one() -> None:
    mapping = Mapping(
        columns={"accelerator": "gpu", "instance_price_per_hour": "usd", "gpu_count": "n"}, constants={"provider": "a"}
    )
    outcome = read("gpu,usd,n\nL4,10,3\nL4,10,\n", mapping=mapping, on_error="skip")
    assert prices(outcome) == ["3.333333"]
    assert fault(outcome) == ("missing", "gpu_count")


def test_two_prices_that_do_not_agree_are_suspicious() -> None:
    header = "accelerator,provider,price_per_gpu_hour,instance_price_per_hour,gpu_count"
    outcome = read(f"{header}\nL4,a,1.00,8.00,8\nL4,b,1.00,9.00,8\n")
    assert prices(outcome) == ["1.00", "1.00"]
    assert codes(outcome) == [(3, "prices_differ")]


def test_both_prices_of_a_row_give_two_rates() -> None:
    outcome = read("accelerator,provider,price_per_gpu_hour,spot_price_per_gpu_hour\nL4,a,0.80,0.20\n")
    assert [(rate.purchase, str(rate.price_per_gpu_hour)) for rate in gpu_rates(outcome)] == [
        ("on_demand", "0.80"),
        ("spot", "0.20"),
    ]


def test_counts_in_cores_are_turned_into_chips() -> None:
    header = "accelerator,provider,instance_price_per_hour,gpu_count,count_unit"
    outcome = read(f"{header}\nTPU v5p,a,16,8,cores\nTPU v5p,b,16,8,chips\nTPU v6e,c,16,8,cores\n")
    assert [(rate.gpu_count, str(rate.price_per_gpu_hour)) for rate in gpu_rates(outcome)] == [
        (4, "4"),
        (8, "2"),
        (8, "2"),
    ]


def test_a_slice_of_one_chip_needs_no_count_and_prices_one_chip() -> None:
    header = "accelerator,provider,instance_price_per_hour,price_per_gpu_hour"
    outcome = read(f"{header}\ntpu-v6e-1,a,2.7,\ntpu-v6e-1,b,,2.7\ntpu-v6e-4,c,10.8,\n")
    assert [(rate.gpu_count, str(rate.price_per_gpu_hour)) for rate in gpu_rates(outcome)] == [
        (1, "2.7"),
        (1, "2.7"),
        (4, "2.7"),
    ]
    assert notes(outcome)["slices"] == 3


@pytest.mark.parametrize("name", ["tpu-v7x", "tpu v9", "H100 SXM"])
def test_cores_of_a_part_whose_cores_nobody_knows_are_rejected(name: str) -> None:
    header = "accelerator,provider,instance_price_per_hour,gpu_count,count_unit"
    assert fault(read(f"{header}\n{name},a,24.00,8,cores\n")) == ("unknown_unit", "count_unit")


def test_a_count_beside_a_slice_that_may_be_its_chips_is_asked_for() -> None:
    header = "accelerator,provider,instance_price_per_hour,gpu_count,count_unit"
    for row in ("v5litepod-8,a,16,8,", "tpu-v4-16,a,16,8,", "tpu-v4-16,a,16,16,"):
        assert fault(read(f"{header}\n{row}\n")) == ("two_meanings", "gpu_count")
    outcome = read(f"{header}\nv5litepod-8,a,16,8,chips\nv5litepod-8,b,32,2,\ntpu-v4-16,c,16,16,cores\n")
    assert [(rate.gpu_count, str(rate.price_per_gpu_hour)) for rate in gpu_rates(outcome)] == [
        (8, "2"),
        (16, "2"),
        (8, "2"),
    ]


def test_a_part_of_three_figures_is_no_slice() -> None:
    assert only(read("accelerator,provider,price_per_gpu_hour\nv100-32,a,1\n")).accelerator_name == "v100-32"


def test_a_member_that_stands_twice_in_an_item_is_rejected() -> None:
    once = r'{"gpu": "L4", "who": "a:b", "how": "spot", "n": 1, "usd" : 1, "w": {"usd": "\":", "x": 1}}'
    twice = once.replace('"w"', '"usd"\n: 2, "w"')
    text = f"[{twice}, {once}]"
    mapping = Mapping(columns={name: column for name, column in FLAT.columns.items() if name != "region"})
    outcome = read(text, mapping=mapping, on_error="skip")
    assert fault(outcome) == ("named_twice", None)
    assert "'usd' twice" in outcome.report.rejected[0].reason
    assert prices(outcome) == ["1"]


@pytest.mark.parametrize(("text", "says"), [("[]", "empty"), ("null", "null"), ("7", "an array of objects")])
def test_json_without_a_table_is_called_what_it_is(text: str, says: str) -> None:
    with pytest.raises(BrokenRule, match=says):
        read(text)


def test_the_mount_beside_a_name_may_tell_which_it_is() -> None:
    header = "accelerator,provider,price_per_gpu_hour,memory_gb,mount"
    outcome = read(f"{header}\nA100,a,1,80,SXM4\nA100,b,1,80,PCIe\nA100,c,1,80,NVLink\nA100 NVLink,d,1,40,SXM\n")
    assert [rate.accelerator_id for rate in gpu_rates(outcome)] == [
        "a100-sxm-80gb",
        "a100-pcie-80gb",
        None,
        "a100-sxm-40gb",
    ]


def test_storage_and_egress_come_from_tables_too_and_their_zero_is_a_zero() -> None:
    header = "kind,provider,region,storage_class,route,price_per_gb_month,price_per_gb,tier_from_gb,tier_to_gb"
    outcome = read(
        f"{header}\nstorage,acme,,object_storage,,0.023,,0,51200\negress,acme,,,internet,,0,0,100\n",
        mapping=Mapping(columns={name: name for name in header.split(",")}),
    )
    storage, egress = outcome.rates
    assert isinstance(storage, StorageRate)
    assert isinstance(egress, EgressRate)
    assert (storage.price_per_gb_month, storage.tier_to_gb) == (Decimal("0.023"), 51200)
    assert egress.price_per_gb == 0
    assert (egress.tier_from_gb, egress.tier_to_gb) == (0, 100)


def test_an_unknown_word_is_told_with_those_that_are_allowed() -> None:
    header = "kind,provider,storage_class,price_per_gb_month"
    outcome = read(
        f"{header}\nstorage,acme,s3,0.023\n", mapping=Mapping(columns={one: one for one in header.split(",")})
    )
    (fault,) = outcome.report.rejected
    assert fault.field == "storage_class"
    assert "is none of object_storage, " in fault.reason


@pytest.mark.parametrize(
    ("row", "code", "field"),
    [
        ("=1+1,acme,,spot,1,", "formula", "accelerator"),
        ("L4,=cmd,,spot,1,", "formula", "provider"),
        ("L4,acme,=A1,spot,1,", "formula", "region"),
        ("L4,acme,,spot,=1+1,", "formula", "price_per_gpu_hour"),
        ("L4,acme,,spot,-1.5,", "negative", "price_per_gpu_hour"),
        ("L4,acme,,spot,call us,", "not_a_number", "price_per_gpu_hour"),
        ("L4,acme,,spot,inf,", "not_a_number", "price_per_gpu_hour"),
        ("L4,acme,,spot,1e30,", "too_large", "price_per_gpu_hour"),
        ("L4,acme,,spot,1,many", "not_a_number", "gpu_count"),
        ("L4,acme,,spot,1,-2", "negative", "gpu_count"),
        ("L4,acme,,spot,1,2000000", "invalid", "gpu_count"),
        ("L4,acme,,,1,", "missing", "purchase"),
        ("L4,,,spot,1,", "missing", "provider"),
        (",acme,,spot,1,8", "missing", "accelerator"),
        (f"L4,{'a' * 101},,spot,1,", "invalid", "provider"),
        ("L4,ac\x07me,,spot,1,", "invalid", "provider"),
    ],
)
def test_a_cell_that_cannot_be_is_rejected_with_its_field(row: str, code: str, field: str) -> None:
    outcome = flat(row)
    assert fault(outcome) == (code, field)
    assert outcome.report.rejected[0].line == 2
    assert outcome.rates == []


@pytest.mark.parametrize("day", ["12026-01-01", "2026-13-01", "1/2/2026", "2026-1-1", "today", "0000-01-01"])
def test_a_day_that_is_no_day_is_rejected(day: str) -> None:
    outcome = read(f"accelerator,provider,price_per_gpu_hour,valid_from\nL4,a,1,{day}\n")
    assert fault(outcome) == ("not_a_day", "valid_from")


def test_an_end_before_the_beginning_is_rejected() -> None:
    header = "accelerator,provider,price_per_gpu_hour,valid_from,valid_to"
    assert fault(read(f"{header}\nL4,a,1,2026-02-01,2026-02-01\n")) == ("invalid", "valid_to")


def test_a_row_in_another_currency_is_rejected() -> None:
    header = "accelerator,provider,price_per_gpu_hour,currency"
    outcome = read(f"{header}\nL4,a,1,EUR\nL4,b,1,usd\nL4,c,€1,\nL4,d,$1.50,\n", on_error="skip")
    assert [(entry.line, entry.field) for entry in outcome.report.rejected] == [
        (2, "currency"),
        (4, "price_per_gpu_hour"),
    ]
    assert prices(outcome) == ["1", "1.50"]
