"""Between which prices an accelerator-hour is plausible: one band by its peak, wide enough for any real offer."""

from collections.abc import Iterable
from decimal import Decimal
from functools import cache

from service.catalog.gpus import get_gpu
from service.catalog.schemas import Accelerator

# Dense BF16 TFLOPS (FP16 where a part has no BF16) are what a price follows. The lower bound is a third of the
# cheapest public offer that was read, 0.00075 USD a TFLOPS-hour (a B200 at 1.69, spot, May 2026). The upper bound
# leaves half again above the dearest: H100 12.29 and A100 5.12 (on demand, August 2026), B200 14.24 (2026); and room
# for small parts in large machines, such as one T4 among 64 vCPUs for 4.35.
LOW_PER_TFLOPS = Decimal("0.00025")
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
