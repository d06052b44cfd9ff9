"""Amounts at the edge of what a table can hold: nothing that is read back otherwise is ever taken."""

import pytest

from service.prices.importers.schemas import Mapping
from service.prices.offers import decode_rate, encoded_rate
from tests.prices.importers.samples import fault, prices, read, skypilot

ROUNDED_UP = "999999999999.9999996"  # below the limit as it is written, and at it with six fraction digits
LARGEST = "999999999999.999999"
OWN = "kind,accelerator_id,provider,purchase,upfront,price_per_gpu_hour,source"


@pytest.mark.parametrize(
    ("count", "price"), [("0.001", "9999999999.99"), ("0.167", "500000000000"), ("5e-324", "1"), ("0.5", ROUNDED_UP)]
)
def test_a_price_that_is_too_large_after_the_division_is_rejected(count: str, price: str) -> None:
    outcome = read(f"provider,accelerator,gpu_count,instance_price_per_hour\na,t4,{count},{price}\n")
    assert fault(outcome) == ("too_large", "instance_price_per_hour")


def test_so_is_a_spot_price_with_the_column_it_is_from() -> None:
    outcome = skypilot("part,A10,0.125,6,55,,1,500000000000,north-1,")
    assert fault(outcome) == ("too_large", "spot_instance_price_per_hour")
    assert outcome.report.rejected[0].column == "SpotPrice"
    assert fault(skypilot("part,A10,0.125,6,55,,500000000000,,north-1,")) == ("too_large", "instance_price_per_hour")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (f"accelerator,provider,price_per_gpu_hour\nL4,a,{ROUNDED_UP}\n", "price_per_gpu_hour"),
        (f"accelerator,provider,price_per_gpu_hour,upfront\nL4,a,1,{ROUNDED_UP}\n", "upfront"),
        (f"kind,provider,route,price_per_gb\negress,a,internet,{ROUNDED_UP}\n", "price_per_gb"),
        (
            f"kind,provider,storage_class,price_per_gb_month\nstorage,a,object_storage,{ROUNDED_UP}\n",
            "price_per_gb_month",
        ),
        (f"{OWN}\naccelerator,l4-24gb,a,spot,,{ROUNDED_UP},x\n", "price_per_gpu_hour"),
        (f"{OWN}\naccelerator,l4-24gb,a,spot,{ROUNDED_UP},1,x\n", "upfront"),
    ],
)
def test_an_amount_that_is_too_large_after_rounding_is_rejected(text: str, field: str) -> None:
    columns = text.partition("\n")[0].split(",")
    mapping = None if text.startswith(OWN) else Mapping(columns={name: name for name in columns})
    assert fault(read(text, mapping=mapping)) == ("too_large", field)
    largest = read(text.replace(ROUNDED_UP, LARGEST), mapping=mapping)
    (rate,) = largest.rates
    assert decode_rate(encoded_rate(rate)) == rate


def test_the_largest_amount_is_read() -> None:
    assert prices(read(f"accelerator,provider,price_per_gpu_hour\nL4,a,{LARGEST}\n")) == ["999999999999.999999"]
