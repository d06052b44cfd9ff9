"""Whatever bytes come: an answer in which every row is counted once, or an error of ours."""

import json
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.errors import TraincostError
from service.prices.importers.own_csv import COLUMNS
from service.prices.importers.reading import read_rates
from service.prices.importers.schemas import ImportOptions, Mapping
from service.prices.rules import broken_rule
from service.prices.schemas import Rate
from tests.prices.importers.samples import FLAT, FLAT_HEADER, SKYPILOT_HEADER, assert_adds_up

_CELLS = st.sampled_from(
    [
        "", " ", "L4", "H100", "tpu-v4-8", "A100-80GB", "x", "acme", "spot", "on-demand", "accelerator", "storage",
        "egress", "1", "0", "0.00", "-1", "2.5", "2,5", "1,234", "1e9", "1e999", "nan", "=1+1", "'", '"', "700", "0.01",
        "2026-01-01", "12026-01-01", "{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81920}}]}", "Oslo, NO, EU", "\0", "é",

        "internet", "object_storage", "high", "true", "9" * 70, "a" * 300,
        "0.001", "9999999999.99", "500000000000", "999999999999.9999996", "h100-sxm", "5e-324", "tpu-v6e-1", "98,50",
    ]
)  # fmt: skip
_HEADERS = st.sampled_from(
    [SKYPILOT_HEADER, FLAT_HEADER, ",".join(COLUMNS), "a,b", "accelerator,provider,price_per_gpu_hour"]
)
_OPTIONS = st.builds(
    ImportOptions,
    format=st.sampled_from(["auto", "own_csv", "skypilot_csv", "rental_json", "flat"]),
    mapping=st.none() | st.just(FLAT),
    provider=st.none() | st.just("acme"),
    on_error=st.sampled_from(["reject", "skip"]),
    free_is_real=st.booleans(),
    encoding=st.sampled_from(["auto", "utf-8", "utf-16", "windows-1252"]),
    decimal_mark=st.sampled_from(["auto", "point", "comma"]),
)
_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | _CELLS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_CELLS, inner, max_size=2),
    max_leaves=3,
)
_items = st.dictionaries(
    st.sampled_from(["gpu", "who", "where", "how", "usd", "n", "provider", "usd_hr", "kind", "vram_gb", "min_gpus"]),
    _values,
)


def read_anything(data: bytes, options: ImportOptions, rows: int | None = None) -> None:
    """Read it, and hold the answer to the laws; an error of ours is an answer too."""
    try:
        outcome = read_rates(data, options)
    except TraincostError as error:
        assert error.detail
        return
    assert_adds_up(outcome.report, rows)
    report = outcome.report
    header_alone = report.format == "own_csv" and not report.rows.total
    is_empty = not report.rates.total and not header_alone
    assert report.refused == (report.rows.rejected > 0 and options.on_error == "reject") or is_empty
    assert len(outcome.rates) == (0 if outcome.report.refused else outcome.report.rates.total)
    for rate in outcome.rates:
        assert broken_rule(rate) is None
        # The schema's own decoder agrees with what the importers have put together.
        assert type(rate)(**{name: getattr(rate, name) for name in rate.__struct_fields__}) == rate
        assert _decoded(rate) == rate
    msgspec.json.encode(outcome.report)


def _decoded(rate: Rate) -> Any:
    from service.money import Money, read_money

    def hook(kind: type, value: object) -> object:
        return read_money(value) if kind is Money else value

    def plain(value: object) -> object:
        return str(value)

    return msgspec.json.decode(msgspec.json.encode(rate, enc_hook=plain), type=Rate, dec_hook=hook)


@given(st.binary(max_size=400), _OPTIONS)
@example(b"\xff\xfe\x00", ImportOptions())
@example(b"[]", ImportOptions(mapping=FLAT))
@example(b"\x00\xd8" * 10, ImportOptions(encoding="utf-16"))
def test_any_bytes_are_answered_or_refused(data: bytes, options: ImportOptions) -> None:
    read_anything(data, options)


@given(st.text(max_size=400), _OPTIONS)
def test_any_text_is_answered_or_refused(text: str, options: ImportOptions) -> None:
    read_anything(text.encode("utf-8", "surrogatepass"), options)


@settings(max_examples=300)
@given(_HEADERS, st.lists(st.lists(_CELLS, min_size=1, max_size=12), max_size=8), _OPTIONS, st.sampled_from(",;\t"))
def test_any_cells_under_a_header_are_counted_once(
    header: str, rows: list[list[str]], options: ImportOptions, delimiter: str
) -> None:
    quoted = [delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    text = "\n".join([header.replace(",", delimiter), *quoted])
    read_anything(text.encode(), options, len(rows) if options.encoding in {"auto", "utf-8", "windows-1252"} else None)


@settings(max_examples=300)
@given(st.lists(_items | _values, max_size=6), _OPTIONS, st.booleans())
def test_any_items_are_counted_once(items: list[Any], options: ImportOptions, index: bool) -> None:
    document = {"offers": items} if index else items
    read_anything(json.dumps(document).encode(), options)


@given(st.dictionaries(st.text(max_size=10), _CELLS), st.dictionaries(st.text(max_size=10), st.text(max_size=10)))
def test_any_mapping_is_used_or_refused(constants: dict[str, str], columns: dict[str, str]) -> None:
    mapping = Mapping(columns={**FLAT.columns, **columns}, constants=constants)
    read_anything(f"{FLAT_HEADER}\nL4,a,,spot,1,1\n".encode(), ImportOptions(mapping=mapping))
