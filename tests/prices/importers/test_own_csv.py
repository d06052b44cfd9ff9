"""Our own CSV: what is written is read back exactly, and a spreadsheet finds nothing in it to calculate."""

import csv
import datetime
import io
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.money import Money
from service.prices.importers.own_csv import COLUMNS, write_rates
from service.prices.offers import encoded_rate
from service.prices.rules import broken_rule
from service.prices.schemas import EgressRate, GpuRate, Rate, StorageRate
from tests.prices.importers.samples import assert_adds_up, codes, fault, read

ACTIVE = ("=", "+", "-", "@", "\t", "\r")

_texts = (
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=30)
    | st.sampled_from(
        [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "'",
            "''=1",
            " =1",
            "\N{FULLWIDTH EQUALS SIGN}1",
            "a,b",
            'say "hi"',
            "a;b",
            "null",
            "NaN",
        ]
    )
).filter(lambda text: bool(text.strip()))
_money = st.decimals(0, 999_999_999_999, places=6, allow_nan=False).map(
    lambda amount: Money(format(abs(amount), "f"))
) | st.sampled_from([Money("2.50"), Money("0.000001"), Money("999999999999.999999"), Money("4")])
_days = st.none() | st.dates()
_confidences = st.sampled_from(["high", "medium", "low"])
_tiers = st.floats(0, 1e12)
_told = {
    "provider": _texts,
    "region": st.none() | _texts,
    "valid_from": _days,
    "valid_to": _days,
    "seen_on": _days,
    "source": _texts,
    "confidence": _confidences,
    "note": st.none() | _texts,
}
_gpu = st.builds(
    GpuRate,
    accelerator_id=st.none() | st.sampled_from(["h100-sxm-80gb", "no-such-part"]),
    accelerator_name=st.none() | _texts,
    country=st.none() | st.sampled_from(["DE", "US"]),
    purchase=st.sampled_from(["on_demand", "spot", "reserved", "marketplace", "capacity_block"]),
    purchase_word=st.none() | _texts,
    term_months=st.none() | st.floats(0, 120, exclude_min=True),
    upfront=st.none() | _money,
    commitment=st.none() | _texts,
    price_per_gpu_hour=st.none() | _money | st.just(Money(0)),
    unknown_reason=st.none() | _texts,
    free=st.booleans(),
    gpu_count=st.none() | st.floats(0, 1e6, exclude_min=True) | st.sampled_from([0.167, 8.0]),
    instance=st.none() | _texts,
    instance_price_per_hour=st.none() | _money,
    **_told,
)
_storage = st.builds(
    StorageRate,
    storage_class=st.sampled_from(["object_storage", "object_infrequent", "shared_filesystem"]),
    price_per_gb_month=_money,
    tier_from_gb=_tiers,
    tier_to_gb=st.none() | _tiers,
    **_told,
)
_egress = st.builds(
    EgressRate,
    route=st.sampled_from(["internet", "inter_region", "inter_zone", "cdn", "private"]),
    price_per_gb=_money,
    tier_from_gb=_tiers,
    tier_to_gb=st.none() | _tiers,
    **_told,
)
_rates: st.SearchStrategy[Rate] = (_gpu | _storage | _egress).filter(lambda rate: broken_rule(rate) is None)


def written(rates: list[Rate]) -> bytes:
    return b"".join(write_rates(rates))


@given(st.lists(_rates, max_size=6, unique_by=encoded_rate))
def test_what_is_written_is_read_back_exactly(rates: list[Rate]) -> None:
    outcome = read(written(rates))
    assert outcome.report.rejected == ()
    assert outcome.rates == rates
    assert outcome.report.format == "own_csv"
    assert [str(rate) for rate in outcome.rates] == [str(rate) for rate in rates]


@given(st.lists(_rates, min_size=1, max_size=3))
def test_no_cell_starts_a_formula(rates: list[Rate]) -> None:
    text = written(rates).decode()
    for row in list(csv.reader(io.StringIO(text, newline="")))[1:]:
        assert not [cell for cell in row if cell.lstrip(" ").startswith(ACTIVE)]


A_RATE = GpuRate(
    accelerator_id="l4-24gb",
    provider="acme",
    purchase="on_demand",
    price_per_gpu_hour=Money("0.80"),
    valid_from=datetime.date(2026, 10, 1),
    source="a quote",
)


def row(**cells: str) -> bytes:
    """A file of one rate, with these cells instead of its own."""
    usual = dict(zip(COLUMNS, next(csv.reader([written([A_RATE]).decode().splitlines()[1]])), strict=True))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([COLUMNS, list({**usual, **cells}.values())])
    return text.getvalue().encode()


def test_a_table_without_rates_is_a_header() -> None:
    assert written([]).decode() == ",".join(COLUMNS) + "\r\n"
    assert read(written([])).rates == []


def test_columns_may_be_left_out_and_stand_in_any_order() -> None:
    outcome = read(
        "source,price_per_gpu_hour,kind,purchase,provider,accelerator_name\nx,1.5,accelerator,spot,acme,L4\n"
    )
    (rate,) = outcome.rates
    assert isinstance(rate, GpuRate)
    assert (rate.price_per_gpu_hour, rate.confidence, rate.free) == (Decimal("1.5"), "medium", False)


def test_a_file_that_a_spreadsheet_has_written_again_with_semicolons_and_commas_is_read() -> None:
    text = written([A_RATE]).decode().replace(",", ";").replace("0.80", "0,80")
    assert read("\ufeff" + text).rates == [A_RATE]


@pytest.mark.parametrize(
    ("cells", "code", "field"),
    [
        ({"kind": "gpu"}, "unknown_word", "kind"),
        ({"provider": ""}, "missing", "provider"),
        ({"provider": "=HYPERLINK(1)"}, "formula", "provider"),
        ({"purchase": "lease"}, "invalid", "purchase"),
        ({"country": "Germany"}, "invalid", "country"),
        ({"price_per_gpu_hour": "-1"}, "negative", "price_per_gpu_hour"),
        ({"price_per_gpu_hour": ""}, "broken_rule", "price_per_gpu_hour"),
        ({"price_per_gpu_hour": "0"}, "broken_rule", "price_per_gpu_hour"),
        ({"gpu_count": "0"}, "invalid", "gpu_count"),
        ({"gpu_count": "nine"}, "not_a_number", "gpu_count"),
        ({"free": "maybe"}, "unknown_word", "free"),
        ({"valid_from": "12026-01-01"}, "not_a_day", "valid_from"),
        ({"valid_to": "2026-09-01"}, "broken_rule", "valid_to"),
        ({"price_per_gb": "1"}, "not_of_kind", "price_per_gb"),
    ],
)
def test_a_cell_that_cannot_be_is_rejected_with_its_field(cells: dict[str, str], code: str, field: str) -> None:
    assert fault(read(row(**cells))) == (code, field)


def test_nothing_is_left_out_and_what_contradicts_is_flagged() -> None:
    dearer = msgspec.structs.replace(A_RATE, price_per_gpu_hour=Money("0.90"))
    outcome = read(written([A_RATE, dearer]))
    assert outcome.rates == [A_RATE, dearer]
    assert codes(outcome) == [(3, "conflicting_price")]


def test_the_same_row_twice_is_one_rate_whatever_stands_between() -> None:
    dearer = msgspec.structs.replace(A_RATE, price_per_gpu_hour=Money("0.90"))
    outcome = read(written([A_RATE, dearer, A_RATE, dearer, msgspec.structs.replace(dearer, note="another")]))
    assert [rate.note for rate in outcome.rates] == [None, None, "another"]
    assert outcome.report.rates.total == 3
    assert codes(outcome, "skipped") == [(4, "repeated"), (5, "repeated")]
    assert codes(outcome) == [(3, "conflicting_price"), (6, "conflicting_price")]
    assert_adds_up(outcome.report, 5)


def test_an_id_that_the_catalogue_does_not_have_is_kept_and_reported() -> None:
    outcome = read(row(accelerator_id="l4-25gb"))
    (name,) = outcome.report.unmatched
    assert (name.name, name.matched, name.candidates[0]) == ("l4-25gb", "unknown", "l4-24gb")
