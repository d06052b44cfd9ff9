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
    lines,
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
    with pytest.raises(BrokenRule, match="is a quote not closed"):
        flat('L4,"' + "a" * 200_000)


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


@pytest.mark.parametrize("text", ["", "NaN", "n/a", "null", "None"])
def test_a_blank_price_is_unknown(text: str) -> None:
    assert only(flat(f"L4,a,,spot,{text},1")).unknown_reason == "The file gives no price"
