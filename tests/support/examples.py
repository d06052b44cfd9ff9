"""The five worked examples of the classic calculator, every figure, typed in from its page."""

from decimal import Decimal
from typing import Any, NamedTuple


class Example(NamedTuple):
    """One row: seven inputs, and what the classic calculator shows (hours and days rounded to 2 places)."""

    gpu_count: int
    ideal_hours: int
    price: str
    efficiency: int
    rework: int
    storage: int
    egress: int
    wall_clock_hours: str
    wall_clock_days: str
    gpu_hours: str
    compute_cost: str
    rework_cost: str
    total: str

    @property
    def query(self) -> dict[str, str]:
        """As the query of the GET form."""
        return {
            "gpu_count": str(self.gpu_count),
            "ideal_gpu_hours": str(self.ideal_hours),
            "gpu_cost_per_hour": self.price,
            "scaling_efficiency_percent": str(self.efficiency),
            "failed_run_rework_percent": str(self.rework),
            "storage_cost": str(self.storage),
            "egress_cost": str(self.egress),
        }

    @property
    def body(self) -> dict[str, Any]:
        """As the body of the POST form."""
        return {
            "cluster": {"gpu_count": self.gpu_count},
            "work": {"kind": "gpu_hours", "hours": self.ideal_hours},
            "scaling": {"kind": "fixed", "efficiency_percent": self.efficiency},
            "rework": {"kind": "buffer", "rework_percent": self.rework},
            "price": {"kind": "hourly", "amount": self.price},
            "storage": {"kind": "fixed", "amount": str(self.storage)},
            "egress": {"kind": "fixed", "amount": str(self.egress)},
        }


# fmt: off
EXAMPLES = (
    Example(64, 120, "2.50", 80, 15, 200, 150, "150", "6.25", "9600", "24000.00", "3600.00", "27950.00"),
    Example(32, 80, "2.00", 85, 10, 100, 50, "94.12", "3.92", "3011.76", "6023.53", "602.35", "6775.88"),
    Example(256, 500, "4", 75, 20, 1500, 1000, "666.67", "27.78", "170666.67", "682666.67", "136533.33", "821700.00"),
    Example(8, 48, "2.50", 95, 5, 50, 0, "50.53", "2.11", "404.21", "1010.53", "50.53", "1111.06"),
    Example(64, 200, "1.00", 80, 35, 300, 200, "250", "10.42", "16000", "16000.00", "5600.00", "22100.00"),
)
# fmt: on


def to_hundredths(value: float) -> Decimal:
    """As the classic calculator shows a figure."""
    return round(Decimal(value), 2)
