"""Requests of every kind beyond the classic fields, each with a name that says what is special about it."""

from typing import Any

_H100 = {"gpu": "h100-sxm-80gb", "gpu_count": 512}
_8B = {"model": "llama-3.1-8b", "tokens": 1e12}
_70B = {"model": "llama-3.1-70b", "tokens": 1e12}

REQUESTS: dict[str, dict[str, Any]] = {
    "total hours, priced by the node, with a budget": {
        "cluster": {"gpu_count": 100, "gpus_per_node": 8},
        "work": {"kind": "gpu_hours", "hours": 70000, "basis": "total"},
        "scaling": {"kind": "communication", "share_percent": 8, "gpu_count": 32},
        "price": {
            "kind": "hourly",
            "amount": "19.99",
            "per": "node",
            "discount_percent": 12.5,
            "credits": "777.77",
            "tax_percent": 19,
        },
        "start_at": "2027-01-04T09:00:00Z",
        "budget": {"amount": "400000", "deadline": "2027-06-01T00:00:00Z"},
    },
    "a given MFU with failures, idle hours, storage, egress and energy": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_70B, "epochs": 1.5, "mfu_percent": 40},
        "rework": {
            "kind": "failures",
            "hardware": {"failures_per_node_day": 0.006, "new_cluster": True, "restart_minutes": 12},
            "checkpoint": {"bandwidth_gb_s": 25},
        },
        "idle": {"setup_hours": 6, "spare_nodes": 2},
        "storage": {
            "kind": "metered",
            "price_per_gb_month": "0.023",
            "dataset_gb": 40000,
            "checkpoints": {"archived": 5},
            "filesystem_gb": 100000,
            "filesystem_price_per_gb_month": "0.145",
        },
        "egress": {
            "kind": "metered",
            "dataset_gb": 9000,
            "exported_gb": 4000,
            "used_gb": 50,
            "tiers": [
                {"up_to_gb": 100, "price_per_gb": "0"},
                {"up_to_gb": 10240, "price_per_gb": "0.09"},
                {"price_per_gb": "0.085"},
            ],
        },
        "energy": {"grams_per_kwh": 380},
        "price": {"kind": "hourly", "amount": "2.35"},
    },
    "a given HFU and a scaling band": {
        "cluster": {"gpu": "a100-sxm-80gb", "gpu_count": 256},
        "work": {"kind": "transformer", **_8B, "hfu_percent": 52, "recompute": "full", "attention": "causal"},
        "scaling": {"kind": "interconnect", "preset": "ib-ndr-400"},
    },
    "a billed MFU by parameters alone": {
        "cluster": _H100,
        "work": {"kind": "transformer", "parameters": 70e9, "tokens": 2e12, "mfu_percent": 35, "mfu_kind": "billed"},
    },
    "a layout with a pipeline": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 1024},
        "work": {
            "kind": "transformer",
            **_70B,
            "global_batch_sequences": 1024,
            "sequence_length": 4096,
            "recompute": "selective",
            "layout": {"tensor": 8, "pipeline": 4, "interleave": 5, "microbatch": 2, "tensor_overlap": True},
        },
        "rework": {"kind": "failures", "hardware": {"node_mtbf_hours": 6000}, "checkpoint": {"interval_minutes": 45}},
    },
    "a layout without flash attention, fully recomputed": {
        "cluster": {"gpu": "a100-sxm-80gb", "gpu_count": 128},
        "work": {
            "kind": "transformer",
            **_8B,
            "global_batch_sequences": 512,
            "sequence_length": 2048,
            "recompute": "full",
            "layout": {"tensor": 2, "pipeline": 2, "flash_attention": False, "sharding": "ddp", "fused": False},
        },
    },
    "a layout with everything sharded": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 64},
        "work": {
            "kind": "transformer",
            **_8B,
            "global_batch_sequences": 256,
            "layout": {"sharding": "zero3", "context": 2, "data_overlap": False, "gradient_bytes": 2},
        },
    },
    "a searched layout, in FP8": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_8B, "precision": "fp8"},
        "rework": {"kind": "failures", "preset": "no_spares"},
        "uncertainty": {"samples": 1000},
        "start_at": "2027-01-04T09:00:00Z",
        "budget": {"amount": "3000000", "deadline": "2027-06-01T00:00:00Z", "confidence_percent": 80},
        "price": {"kind": "hourly", "amount": "2.10"},
    },
    "a searched layout against one measurement": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_8B, "global_batch_sequences": 512},
        "scaling": {"kind": "measured", "points": [{"gpu_count": 64, "tokens_per_second": 700000}]},
    },
    "one measurement at the count of the run": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_8B, "global_batch_sequences": 512},
        "scaling": {"kind": "measured", "points": [{"gpu_count": 512, "step_seconds": 1.0}]},
    },
    "times of a step, and a batch that grows": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_8B},
        "scaling": {
            "kind": "measured",
            "law": "log2",
            "points": [
                {"gpu_count": 64, "tokens_per_second": 640000},
                {"gpu_count": 128, "tokens_per_second": 1260000},
                {"gpu_count": 256, "tokens_per_second": 2470000},
            ],
        },
    },
    "times of a step at one batch": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_8B, "global_batch_sequences": 512},
        "scaling": {
            "kind": "measured",
            "points": [{"gpu_count": 64, "step_seconds": 6.0}, {"gpu_count": 256, "step_seconds": 1.6}],
        },
    },
    "an MFU of a smaller cluster, scaled by the model": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_8B, "mfu_percent": 42, "global_batch_sequences": 512},
        "scaling": {"kind": "model", "base_gpu_count": 64},
    },
    "adapters by a shape": {
        "cluster": {"gpu": "a100-sxm-80gb", "gpu_count": 16},
        "work": {"kind": "transformer", **_8B, "tokens": 1e9, "training": "lora", "lora": {"rank": 32}},
    },
    "quantized adapters by parameters": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 16},
        "work": {"kind": "transformer", "parameters": 70e9, "tokens": 1e9, "training": "qlora"},
    },
    "quantized adapters by a shape": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 16},
        "work": {"kind": "transformer", **_70B, "tokens": 1e9, "training": "qlora", "mfu_percent": 30},
    },
    "a mixture of experts": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 2048},
        "work": {"kind": "transformer", "model": "deepseek-v3", "tokens": 14.8e12, "precision": "fp8"},
    },
    "a mixture of experts with heads": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512},
        "work": {"kind": "transformer", "model": "mixtral-8x7b", "tokens": 1e12, "mfu_percent": 25},
    },
    "parameters alone on a slow network": {
        "cluster": {**_H100, "interconnect": "eth-10-tcp"},
        "work": {"kind": "transformer", "parameters": 70e9, "tokens": 1e12},
    },
    "a small mixture of experts on a slow network": {
        "cluster": {**_H100, "interconnect": "eth-25-roce"},
        "work": {"kind": "transformer", "parameters": 30e9, "active_parameters": 3e9, "tokens": 1e12},
    },
    "an accelerator of your own, with its kernels": {
        "cluster": {
            "gpu_count": 64,
            "custom_gpu": {
                "name": "X1",
                "memory_gb": 128,
                "peak_tflops": 1200,
                "memory_bandwidth_gb_s": 4800,
                "link_gb_s": 450,
                "network_gbps": 400,
                "gemm_efficiency_percent": 75,
            },
        },
        "work": {"kind": "transformer", **_8B},
    },
    "an MFU of a smaller profiling run": {
        "cluster": _H100,
        "work": {"kind": "transformer", **_8B, "mfu_percent": 40},
        "scaling": {"kind": "communication", "share_percent": 8, "gpu_count": 64},
    },
    "an HFU of a larger profiling run": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 64},
        "work": {"kind": "transformer", **_8B, "hfu_percent": 45, "recompute": "full"},
        "scaling": {"kind": "communication", "share_percent": 8, "gpu_count": 512},
    },
    "throughput at another count, with a law": {
        "cluster": {"gpu_count": 512},
        "work": {
            "kind": "throughput",
            "tokens": 1e12,
            "epochs": 2,
            "tokens_per_second": 11000,
            "per": "gpu",
            "measured_gpu_count": 64,
        },
        "scaling": {"kind": "communication", "share_percent": 5, "gpu_count": 32},
    },
    "throughput of the cluster on owned machines": {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 64},
        "work": {"kind": "throughput", "tokens": 1e12, "tokens_per_second": 640000, "per": "cluster"},
        "price": {
            "kind": "owned",
            "capex": "3000000",
            "gpu_count": 96,
            "capital_percent_per_year": 8,
            "energy_amount_per_kwh": "0.0826",
            "colocation_per_year": "120000",
            "staff_per_year": "300000",
            "utilisation_percent": 70,
        },
        "energy": {"grams_per_kwh": 57},
    },
    "a commitment that is too short": {
        "cluster": {"gpu_count": 128},
        "work": {"kind": "gpu_hours", "hours": 800},
        "idle": {"spare_nodes": 1},
        "price": {
            "kind": "commitment",
            "amount": "2.05",
            "gpu_count": 120,
            "term_hours": 720,
            "upfront": "10000",
            "overflow_amount": "3.5",
        },
    },
    "a commitment that is too long": {
        "cluster": {"gpu_count": 64},
        "price": {"kind": "commitment", "amount": "2.05", "gpu_count": 128, "term_hours": 2160, "attribution": "term"},
    },
    "spot that waits and falls back": {
        "cluster": {"gpu_count": 128},
        "work": {"kind": "gpu_hours", "hours": 500},
        "rework": {
            "kind": "failures",
            "spot": {
                "interruptions_per_node_hour": 0.01,
                "wait_hours": 1.5,
                "fallback_percent": 40,
                "on_demand_amount": "3.29",
                "restart_minutes": 9,
            },
        },
        "price": {
            "kind": "hourly",
            "amount": "1.15",
            "purchase": "spot",
            "alternatives": {"on_demand": "3.29", "reserved": "2.10"},
        },
    },
    "on demand, compared with spot": {
        "cluster": {"gpu_count": 64},
        "work": {"kind": "gpu_hours", "hours": 300},
        "rework": {"kind": "failures"},
        "price": {"kind": "hourly", "amount": "3.29", "purchase": "on_demand", "alternatives": {"spot": "1.15"}},
    },
    "nothing fails": {
        "rework": {
            "kind": "failures",
            "hardware": {"failures_per_node_day": 0},
            "checkpoint": {"seconds": 30},
            "people_percent": 0,
        },
    },
}
