"""Between which prices an accelerator-hour is plausible: one band by its peak, wide enough for any real offer."""

from collections.abc import Iterable
from decimal import Decimal
from functools import cache

from service.catalog.gpus import get_gpu
from service.catalog.schemas import Accelerator

# Dense BF16 TFLOPS (FP16 where a part has no BF16) are what a price follows. The bounds are a third of the cheapest
# and about half again the dearest public offers in USD that were read in 2026. Cheapest: 0.0006 a TFLOPS-hour (MI300X
# and H100 spot, T4 on a consumer network). Dearest: H100 12.29 and A100 5.12 (AWS on demand in North Virginia, and up
# to 1.6 times that elsewhere), GB200 10.50; and small parts in large machines, such as one T4 with 64 vCPUs for 4.35.
LOW_PER_TFLOPS = Decimal("0.0002")
HIGH_PER_TFLOPS = Decimal("0.015")
HIGH_OF_ANY_MACHINE = Decimal(6)

Band = tuple[Decimal, Decimal]
# A part that the catalogue does not know: from a 2016 card at its cheapest to a current one at its dearest.
UNKNOWN_PART: Band = (Decimal("0.005"), Decimal(50))


def band_of(ids: Iterable[str]) -> Band:
    """The lowest and the highest plausible USD per accelerator-hour of any of these parts."""
    bands = [_band(gpu_id) for gpu_id in ids]
    return (min(low for low, _ in bands), max(high for _, high in bands)) if bands else UNKNOWN_PART


@cache
def _band(gpu_id: str) -> Band:
    peak = _peak_tflops(get_gpu(gpu_id))
    if peak is None:
        return UNKNOWN_PART
    return LOW_PER_TFLOPS * peak, HIGH_OF_ANY_MACHINE + HIGH_PER_TFLOPS * peak


def _peak_tflops(gpu: Accelerator) -> Decimal | None:
    peak = gpu.bf16_tflops or gpu.fp16_tflops
    return None if peak is None else Decimal(str(peak))
