"""Requests to learn from: what the contract shows for POST /v1/estimates, and a test sends."""

from typing import Any

EXAMPLES: dict[str, Any] = {
    "classic_defaults": {"summary": "The classic calculator with its defaults: 27,950.00 USD", "value": {}},
    "seven_fields": {
        "summary": "The seven fields of the classic calculator: 821,700.00 USD",
        "value": {
            "cluster": {"gpu_count": 256},
            "work": {"kind": "gpu_hours", "hours": 500},
            "scaling": {"kind": "fixed", "efficiency_percent": 75},
            "rework": {"kind": "buffer", "rework_percent": 20},
            "price": {"kind": "hourly", "amount": "4.00"},
            "storage": {"kind": "fixed", "amount": "1500"},
            "egress": {"kind": "fixed", "amount": "1000"},
        },
    },
    "measured_scaling": {
        "summary": "A scaling efficiency fitted to three measurements of the same job",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 4096},
            "work": {"kind": "gpu_hours", "hours": 300},
            "scaling": {
                "kind": "measured",
                "points": [
                    {"gpu_count": 512, "tokens_per_second": 171268},
                    {"gpu_count": 2048, "tokens_per_second": 664274},
                    {"gpu_count": 2432, "tokens_per_second": 784333},
                ],
            },
        },
    },
    "budget_and_deadline": {
        "summary": "A price per node, an interconnect's band, a budget and a deadline",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512, "gpus_per_node": 8},
            "work": {"kind": "gpu_hours", "hours": 250000, "basis": "total"},
            "scaling": {"kind": "interconnect", "preset": "ib-ndr-400", "level": "typical"},
            "price": {"kind": "hourly", "amount": "22.40", "per": "node"},
            "start_at": "2027-01-04T09:00:00Z",
            "budget": {"amount": "1000000", "deadline": "2027-02-15T00:00:00Z"},
        },
    },
}
