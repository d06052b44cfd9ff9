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
    "transformer_by_name": {
        "summary": "A named model, its hours predicted by the step model: what a first look needs",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512},
            "work": {"kind": "transformer", "model": "llama-3.1-70b", "tokens": 2000000000000},
            "price": {"kind": "hourly", "amount": "2.80"},
            "start_at": "2027-01-04T09:00:00Z",
        },
    },
    "transformer_by_shape": {
        "summary": "Llama 3 405B by its shape and the layout it had on 16,384 H100",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 16384, "interconnect": "roce-400"},
            "work": {
                "kind": "transformer",
                "shape": {
                    "layers": 126,
                    "hidden": 16384,
                    "heads": 128,
                    "kv_heads": 8,
                    "ffn_hidden": 53248,
                    "vocabulary": 128256,
                },
                "tokens": 15600000000000,
                "sequence_length": 8192,
                "global_batch_sequences": 2048,
                "recompute": "none",
                "layout": {"tensor": 8, "pipeline": 16, "interleave": 8, "sharding": "zero2"},
            },
            "price": {"kind": "hourly", "amount": "2.50"},
        },
    },
    "billed_utilisation": {
        "summary": "Parameters and tokens alone (6ND), with the utilisation of a whole earlier bill",
        "value": {
            "cluster": {"gpu": "a100-sxm-80gb", "gpu_count": 2048},
            "work": {
                "kind": "transformer",
                "parameters": 70000000000,
                "tokens": 2000000000000,
                "mfu_percent": 42.8,
                "mfu_kind": "billed",
            },
            "price": {"kind": "hourly", "amount": "1.50"},
        },
    },
    "mfu_of_a_smaller_cluster": {
        "summary": "A step MFU measured on 64 GPUs, carried to 512 by the step model",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512},
            "work": {"kind": "transformer", "model": "llama-3.1-70b", "tokens": 1000000000000, "mfu_percent": 41},
            "scaling": {"kind": "model", "base_gpu_count": 64},
            "price": {"kind": "hourly", "amount": "2.80"},
        },
    },
    "one_measurement": {
        "summary": "One measured throughput, carried to 1,024 GPUs by the shape of the step model",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
            "work": {
                "kind": "transformer",
                "model": "llama-3.1-8b",
                "tokens": 5000000000000,
                "global_batch_sequences": 1024,
                "layout": {"sharding": "zero3"},
            },
            "scaling": {"kind": "measured", "points": [{"gpu_count": 128, "tokens_per_second": 833800}]},
            "price": {"kind": "hourly", "amount": "2.80"},
        },
    },
    "measured_throughput": {
        "summary": "Tokens a second as measured on 64 GPUs, and the share of a step that communication took there",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 256},
            "work": {
                "kind": "throughput",
                "tokens": 500000000000,
                "tokens_per_second": 403200,
                "per": "cluster",
                "measured_gpu_count": 64,
            },
            "scaling": {"kind": "communication", "share_percent": 6, "gpu_count": 64},
            "price": {"kind": "hourly", "amount": "2.80"},
        },
    },
    "fine_tuning": {
        "summary": "Adapters beside frozen 4-bit weights on one node, three epochs",
        "value": {
            "cluster": {"gpu": "a100-sxm-80gb", "gpu_count": 8},
            "work": {
                "kind": "transformer",
                "model": "llama-3.1-70b",
                "tokens": 200000000,
                "epochs": 3,
                "sequence_length": 2048,
                "global_batch_sequences": 64,
                "training": "qlora",
                "lora": {"rank": 16},
            },
            "price": {"kind": "hourly", "amount": "12.00", "per": "node"},
        },
    },
    "mixture_of_experts": {
        "summary": "DeepSeek-V3 as trained, by the utilisation that its 2.66 million H800 hours come to",
        "value": {
            "cluster": {"gpu": "h800-sxm-80gb", "gpu_count": 2048},
            "work": {"kind": "transformer", "model": "deepseek-v3", "mfu_percent": 43.9, "mfu_kind": "billed"},
            "price": {"kind": "hourly", "amount": "2.00"},
        },
    },
    "spot_with_failures": {
        "summary": "Spot capacity with failures by cause, optimal checkpoints and a part that falls back",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 64},
            "work": {"kind": "transformer", "model": "llama-3.1-8b", "tokens": 300000000000, "mfu_percent": 40},
            "rework": {
                "kind": "failures",
                "preset": "on_call",
                "checkpoint": {"bandwidth_gb_s": 10},
                "spot": {
                    "interruptions_per_node_hour": 0.02,
                    "wait_hours": 1,
                    "fallback_percent": 40,
                    "on_demand_amount": "2.80",
                },
            },
            "price": {
                "kind": "hourly",
                "amount": "1.10",
                "purchase": "spot",
                "alternatives": {"on_demand": "2.80", "spot": "1.10"},
            },
            "idle": {"setup_hours": 4},
        },
    },
    "commitment": {
        "summary": "A quarter's commitment for 512 GPUs, billed whole, and on-demand capacity beyond it",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 640},
            "work": {"kind": "transformer", "model": "llama-3.1-70b", "tokens": 400000000000, "mfu_percent": 40},
            "price": {
                "kind": "commitment",
                "amount": "2.10",
                "gpu_count": 512,
                "term_hours": 2160,
                "term_start": "2027-01-01T00:00:00Z",
                "overflow_amount": "3.20",
                "attribution": "term",
            },
            "start_at": "2027-01-04T09:00:00Z",
        },
    },
    "owned_hardware": {
        "summary": "Hardware that was bought: cash, book and fully loaded, with energy and emissions",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 256},
            "work": {"kind": "transformer", "parameters": 13000000000, "tokens": 1000000000000, "mfu_percent": 42},
            "price": {
                "kind": "owned",
                "capex": "11000000",
                "life_years": 5,
                "capital_percent_per_year": 8,
                "energy_amount_per_kwh": "0.0826",
                "colocation_per_year": "450000",
                "support_per_year": "300000",
                "staff_per_year": "500000",
                "utilisation_percent": 80,
                "basis": "loaded",
            },
            "energy": {"pue": 1.25, "grams_per_kwh": 380},
        },
    },
    "metered_storage_and_egress": {
        "summary": "Data set, checkpoints and egress by size, time and tier",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512},
            "work": {"kind": "transformer", "model": "llama-3.1-70b", "tokens": 400000000000, "mfu_percent": 40},
            "price": {"kind": "hourly", "amount": "2.80"},
            "storage": {
                "kind": "metered",
                "price_per_gb_month": "0.023",
                "dataset_gb": 50000,
                "checkpoints": {"every_hours": 3, "keep": 3, "archived": 10},
            },
            "egress": {
                "kind": "metered",
                "dataset_gb": 50000,
                "passes": 1,
                "exported_gb": 1000,
                "route": "internet",
                "tiers": [
                    {"up_to_gb": 100, "price_per_gb": "0"},
                    {"up_to_gb": 10240, "price_per_gb": "0.09"},
                    {"up_to_gb": 51200, "price_per_gb": "0.085"},
                    {"up_to_gb": 153600, "price_per_gb": "0.07"},
                    {"price_per_gb": "0.05"},
                ],
            },
        },
    },
    "prices_of_a_table": {
        "summary": "GPU-hours, storage and egress at the list prices of a day, from the table of the release",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512},
            "work": {"kind": "transformer", "model": "llama-3.1-70b", "tokens": 400000000000, "mfu_percent": 40},
            "price": {"kind": "table", "table": "list-prices", "purchase": "on_demand", "as_of": "2026-11-30"},
            "storage": {
                "kind": "metered",
                "from_table": {"provider": "aws", "as_of": "2026-11-30"},
                "dataset_gb": 60000,
                "checkpoints": {"every_hours": 3, "keep": 3},
            },
            "egress": {
                "kind": "metered",
                "from_table": {"provider": "aws", "as_of": "2026-11-30"},
                "exported_gb": 10000,
            },
        },
    },
    "price_that_changes": {
        "summary": "A run over a rise of the price, each rate for its time, in euros at a rate of exchange of your own",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 64},
            "work": {"kind": "gpu_hours", "hours": 500},
            "price": {"kind": "table", "provider": "nebius"},
            "exchange": {"from_currency": "USD", "to_currency": "EUR", "rate": "0.92", "as_of": "2026-09-18"},
            "start_at": "2026-09-20T00:00:00Z",
        },
    },
    "budget_with_confidence": {
        "summary": "The budget that four of five such runs stay within, and the chance of missing the deadline",
        "value": {
            "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
            "work": {"kind": "transformer", "model": "llama-3.1-70b", "tokens": 2000000000000},
            "rework": {"kind": "failures", "preset": "hyperscale_automated"},
            "price": {"kind": "hourly", "amount": "2.50"},
            "start_at": "2027-01-04T09:00:00Z",
            "budget": {"amount": "3500000", "deadline": "2027-03-01T00:00:00Z", "confidence_percent": 80},
            "uncertainty": {
                "seed": 1,
                "spreads": {"price": {"kind": "triangular", "low_percent": 80, "high_percent": 140}},
            },
        },
    },
}
