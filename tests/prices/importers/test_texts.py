"""How a file is written: encodings, delimiters, decimal marks, ragged rows and headers."""

import codecs
import gzip
from decimal import Decimal

import pytest

from service.errors import BrokenRule
from tests.prices.importers.samples import (
    FLAT,
    FLAT_HEADER,
    assert_adds_up,
    codes,
    fault,
    flat,
    gpu_rates,
    lines,
    notes,
    only,
    prices,
    read,
)

ROW = "L4,Zürich AG,north,spot,0.25,1"


@pytest.mark.parametrize(
    "data",
    [
        lines(FLAT_HEADER, [ROW]).encode(),
        codecs.BOM_UTF8 + lines(FLAT_HEADER, [ROW]).encode(),
        lines(FLAT_HEADER, [ROW]).encode("utf-16"),
        codecs.BOM_UTF16_BE + lines(FLAT_HEADER, [ROW]).encode("utf-16-be"),
        lines(FLAT_HEADER, [ROW]).encode("utf-16-le"),
        lines(FLAT_HEADER, [ROW]).encode("utf-16-be"),
        lines(FLAT_HEADER, [ROW], "\r\n").encode(),
        lines(FLAT_HEADER, [ROW], "\r").encode(),
        ("\n\n" + lines(FLAT_HEADER, ["", ROW, ""])).encode(),
        lines(FLAT_HEADER, [ROW]).replace(",", ";").encode(),
        lines(FLAT_HEADER, [ROW]).replace(",", "\t").encode("utf-16"),
        lines(FLAT_HEADER, [ROW]).replace(",", "|").encode(),
        lines("sep=;\n" + FLAT_HEADER.replace(",", ";"), [ROW.replace(",", ";")]).encode(),
        lines(FLAT_HEADER.replace(",", ";"), [ROW.replace(",", ";").replace("0.25", "0,25")]).encode(),
        lines(FLAT_HEADER.upper(), [ROW]).encode(),
    ],
)
def test_the_same_table_however_it_is_written(data: bytes) -> None:
    rate = only(read(data, mapping=FLAT))
    assert (rate.provider, rate.price_per_gpu_hour) == ("zürich ag", Decimal("0.25"))


def test_an_encoding_may_be_said() -> None:
    data = lines(FLAT_HEADER, [ROW]).encode("cp1252")
    assert only(read(data, mapping=FLAT, encoding="windows-1252")).provider == "zürich ag"
    with pytest.raises(BrokenRule, match="not utf-8"):
        read(data, mapping=FLAT)


@pytest.mark.parametrize("data", [b"", b"\n\r\n \n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE])
def test_an_empty_file_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenRule, match="empty"):
        read(data, mapping=FLAT)


def test_a_header_alone_is_a_table_without_rows() -> None:
    assert read(FLAT_HEADER, mapping=FLAT).report.rows.total == 0


@pytest.mark.parametrize(
    "data", [b"PK\x03\x04....", gzip.compress(b"gpu,usd", mtime=0), b"%PDF-1.7", "gpu,usd".encode("utf-32")]
)
def test_what_is_no_text_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(BrokenRule, match="save it as"):
        read(data, mapping=FLAT)


def test_a_row_that_is_too_short_has_blank_cells_and_one_that_is_too_long_is_rejected() -> None:
    outcome = flat(
        "L4,a,north,spot,0.25",
        "L4,b,north,spot",
        "L4,c,north,spot,0.25,1,,",
        "L4,d,north,EU,spot,0.25,1",
        on_error="skip",
    )
    assert prices(outcome) == ["0.25", None, "0.25"]
    assert codes(outcome, "rejected") == [(5, "too_many_cells")]
    assert_adds_up(outcome.report, 4)


def test_a_header_that_names_a_column_twice_is_refused_if_the_column_is_asked_for() -> None:
    with pytest.raises(BrokenRule, match="2 columns called 'usd'"):
        flat("L4,a,,spot,1,1,2", header=FLAT_HEADER + ",usd")
    assert only(flat("L4,a,,spot,1,1,2,3", header=FLAT_HEADER + ",x,x")).price_per_gpu_hour == 1


def test_a_header_that_comes_again_and_an_empty_row_are_skipped() -> None:
    outcome = flat("L4,a,,spot,1,1", FLAT_HEADER, ",,,,,", "L4,b,,spot,1,1")
    assert codes(outcome, "skipped") == [(3, "header_again"), (4, "empty_row")]
    assert_adds_up(outcome.report, 4)


def test_lines_are_counted_as_an_editor_does() -> None:
    outcome = flat('L4,"a\nb",,spot,1,1', "", "L4,c,,spot,x,1", on_error="skip")
    assert [entry.line for entry in outcome.report.rejected] == [2, 5]


def test_a_quote_that_is_never_closed_is_an_error_of_ours() -> None:
    rows = [f"L4,a{number},,spot,1,1,{number}" for number in range(1000)]
    rows[10] += '"27 inch'  # an inch behind a number is a part of the text
    assert flat(*rows, header=f"{FLAT_HEADER},remark").report.rows.accepted == 1000
    rows[10] = 'L4,a10,,spot,1,1,"27 inch'
    with pytest.raises(BrokenRule, match=r"begins in line 12 cannot be read.*is a quote not closed") as raised:
        flat(*rows, header=f"{FLAT_HEADER},remark")
    assert raised.value.faults[0].pointer == "/12"


def test_so_is_one_that_a_later_quote_closes() -> None:
    rows = ["L4,a,,spot,1,1,x", 'L4,b,,spot,1,1,"27 inch', "L4,c,,spot,1,1,y", 'L4,d,,spot,1,1,"30 inch"']
    with pytest.raises(BrokenRule, match="begins in line 3"):
        flat(*rows, header=f"{FLAT_HEADER},remark")


def test_rows_that_go_over_lines_are_counted_for_a_quote_may_be_too_many() -> None:
    outcome = flat('L4,a,,spot,1,1,"27 inch', 'L4,b,,spot,1,1,30"', "L4,c,,spot,1,1,x", header=f"{FLAT_HEADER},remark")
    assert (outcome.report.rows.total, notes(outcome)["rows_over_lines"]) == (2, 1)


def test_quotes_within_a_text_and_doubled_ones_are_read() -> None:
    outcome = flat('L4,5" disk,,spot,1,1', 'L4,"5"" disk, new",,spot,1,1')
    assert [rate.provider for rate in gpu_rates(outcome)] == ['5" disk', '5" disk, new']


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("2.5", "2.5"),
        (".5", "0.5"),
        ("2.", "2"),
        ("5e-05", "0.00005"),
        ('"1,234.50"', "1234.50"),
        ('"1,234,567"', "1234567"),
        ("3.9492000000000003", "3.9492"),
        ("0.1234567", "0.123457"),
        ("0.30000000000000004", "0.3"),
        ("999999999999.999999", "999999999999.999999"),
        ("$2.50", "2.50"),
        ("2.50 USD", "2.50"),
    ],
)
def test_a_price_is_read_exactly(text: str, price: str) -> None:
    assert only(flat(f"L4,a,,spot,{text},1")).price_per_gpu_hour == Decimal(price)


@pytest.mark.parametrize(
    "text", ['"2,50"', '"1,23,456"', "1.2.3", "2,50 EUR", "0x10", "1_000", "١٢", "--1", "1e", "£2"]
)
def test_what_is_no_price_is_rejected(text: str) -> None:
    assert fault(flat(f"L4,a,,spot,{text},1"))[1] in {"price_per_gpu_hour", None}


def test_a_number_that_may_be_two_is_rejected_until_the_mark_is_said() -> None:
    assert fault(flat('L4,a,,spot,"1,234",1')) == ("two_meanings", "price_per_gpu_hour")
    assert prices(flat('L4,a,,spot,"1,234",1', decimal_mark="point")) == ["1234"]
    assert prices(flat('L4,a,,spot,"1,234",1', decimal_mark="comma")) == ["1.234"]
    header, rows = FLAT_HEADER.replace(",", ";"), ["L4;a;;spot;2,50;1", "L4;b;;spot;1.234;1"]
    assert fault(read(lines(header, rows), mapping=FLAT)) == ("two_meanings", "price_per_gpu_hour")
    outcome = read(lines(header, rows), mapping=FLAT, decimal_mark="comma")
    assert prices(outcome) == ["2.50", "1234"]
    assert outcome.report.decimal_mark == "comma"


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_what_may_be_thousands_is_no_evidence_of_a_decimal_comma(delimiter: str) -> None:
    header = "accelerator,provider,gpu_count,instance_price_per_hour".replace(",", delimiter)
    rows = [f"L4{delimiter}a{delimiter}512{delimiter}1,234", f"L4{delimiter}b{delimiter}8{delimiter}98.50"]
    outcome = read(lines(header, rows), on_error="skip")
    assert outcome.report.decimal_mark == "point"
    assert fault(outcome) == ("two_meanings", "instance_price_per_hour")
    assert prices(read(lines(header, rows), decimal_mark="point")) == ["2.410156", "12.3125"]


def test_a_column_that_nobody_reads_does_not_change_the_decimal_mark() -> None:
    outcome = read("accelerator;provider;price_per_gpu_hour;ram\nL4;a;98.50;2,048\n")
    assert (outcome.report.decimal_mark, prices(outcome)) == ("point", ["98.50"])


def test_after_a_decimal_comma_was_found_what_may_be_thousands_is_asked_for_all_the_same() -> None:
    header, rows = FLAT_HEADER.replace(",", ";"), ["L4;a;;spot;98,50;1", "L4;b;;spot;1,234;1", "L4;c;;spot;0,234;1"]
    outcome = read(lines(header, rows), mapping=FLAT, on_error="skip")
    assert fault(outcome) == ("two_meanings", "price_per_gpu_hour")
    assert prices(outcome) == ["98.50", "0.234"]
    assert prices(read(lines(header, rows), mapping=FLAT, decimal_mark="comma")) == ["98.50", "1.234", "0.234"]


@pytest.mark.parametrize("text", ["", "NaN", "n/a", "null", "None"])
def test_a_blank_price_is_unknown(text: str) -> None:
    assert only(flat(f"L4,a,,spot,{text},1")).unknown_reason == "The file gives no price"
