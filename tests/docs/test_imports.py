"""docs/imports.md names every field, format and doubt, and its figures are those of the code."""

import json
import re
from typing import get_args

import msgspec

from service.prices.importers.flat import FIELDS
from service.prices.importers.plausible import band_of
from service.prices.importers.schemas import MAX_BYTES, MAX_LISTED, MAX_ROWS, KnownFormat, Mapping
from tests.support.server import ROOT

TEXT = (ROOT / "docs" / "imports.md").read_text()
CODE = "\n".join(path.read_text() for path in sorted((ROOT / "service" / "prices" / "importers").glob("*.py")))


def test_every_field_of_a_mapping_and_every_format_is_named() -> None:
    for name in [*FIELDS, *get_args(KnownFormat)]:
        assert f"`{name}`" in TEXT, name


def test_every_doubt_that_it_names_is_in_the_code() -> None:
    named = re.search(r"## Doubts\n\n.*?listed: (.*?)\.\n", TEXT, re.DOTALL)
    assert named
    for code in re.findall(r"`(\w+)`", named.group(1)):
        assert f'"{code}"' in CODE, code


def test_its_limits_and_bands_are_those_of_the_code() -> None:
    for figure in (MAX_BYTES, MAX_ROWS, MAX_LISTED):
        assert f"{figure:,}" in TEXT
    for gpu_id in ("b200-sxm-180gb", "t4-16gb"):
        low, high = band_of([gpu_id])
        assert f"{low:.2f} to {high:.2f}" in " ".join(TEXT.split()), gpu_id


def test_its_mapping_is_one() -> None:
    shown = re.search(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert shown
    mapping = msgspec.convert(json.loads(shown.group(1)), Mapping)
    assert not (mapping.columns.keys() | mapping.constants.keys() | mapping.values.keys()) - FIELDS
