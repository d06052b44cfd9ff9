"""What detailed estimates are asked for: seeded, each other ones, none without an answer."""

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from service.errors import BrokenRule
from service.estimates.operations import estimate
from service.estimates.schemas import EstimateRequest
from service.http.diagnosis import read_custom

decoder = msgspec.json.Decoder(EstimateRequest, dec_hook=read_custom)

_NAMED = "llama-3.1-70b"
_70B = {"layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn_hidden": 28672, "vocabulary": 128256}
_GPUS = ("h100-sxm-80gb", "a100-sxm-80gb", "h200-sxm-141gb")
_CURRENCIES = ("USD", "EUR", "JPY")


def full_bodies(seed: int, count: int) -> list[dict[str, Any]]:
    """A transformer of 70B, named or by its shape, with its layout, batch and recompute; failures, price, idle hours,
    storage and egress in numbers of their own. Every number is drawn anew. What cannot be is drawn again."""
    pick = random.Random(seed)
    bodies: list[dict[str, Any]] = []
    while len(bodies) < count:
        body = _full_body(pick)
        try:
            estimate(decoder.decode(json.dumps(body)))
        except BrokenRule:  # a layout that leaves too little memory
            continue
        bodies.append(body)
    return bodies


def searches() -> Iterator[tuple[str, dict[str, Any]]]:
    """Models on counts as they are trained, their layout to be searched."""
    for model in ("llama-3.1-8b", _NAMED, "llama-3.1-405b", "gpt-3-175b", "bloom-176b", "llama-2-13b"):
        for gpu_count in (8, 16, 64, 96, 256, 512, 1024, 2048, 4096, 8192, 16384):
            for batch in (None, 2048, 2 * gpu_count):
                yield f"{model} on {gpu_count}", _searched({"model": model}, gpu_count, batch)


def hard_searches() -> Iterator[tuple[str, dict[str, Any]]]:
    """Many layers, and counts and batches of many divisors: as many layouts as there can be."""
    for layers in (126, 718, 840, 958, 1000):
        shape = {"layers": layers, "hidden": 16384, "heads": 128, "kv_heads": 8, "ffn_hidden": 53248}
        for gpu_count in (5040, 16384, 40320, 55440, 65536):
            for batch in (None, gpu_count, 16 * gpu_count):
                name = f"{layers} layers on {gpu_count}"
                yield name, _searched({"shape": shape | {"vocabulary": 128256}}, gpu_count, batch)


def uncertain_body(seed: int) -> dict[str, Any]:
    """Every input uncertain, on spot capacity that falls back, with a budget at a confidence: 20,000 draws."""
    spread = {"kind": "lognormal", "sigma": 0.2}
    inputs = ("throughput", "scaling", "overhead", "price", "failure_rate", "restart", "checkpoint", "spot_rate")
    return {
        "cluster": {"gpu": "h100-sxm-80gb", "gpu_count": 512},
        "work": {
            "kind": "transformer",
            "model": _NAMED,
            "tokens": 2e12,
            "layout": {"tensor": 8, "pipeline": 4},
            "global_batch_sequences": 1024,
        },
        "scaling": {"kind": "fixed", "efficiency_percent": 90},
        "rework": {"kind": "failures", "spot": {"fallback_percent": 40, "on_demand_amount": "3.90"}},
        "price": {"kind": "hourly", "amount": "2.00", "tax_percent": 19},
        "storage": {
            "kind": "metered",
            "price_per_gb_month": "0.023",
            "dataset_gb": 50000,
            "checkpoints": {"keep": 5},
        },
        "idle": {"setup_hours": 4, "spare_nodes": 1},
        "start_at": "2027-01-04T09:00:00Z",
        "budget": {"amount": "5000000", "deadline": "2027-09-01T00:00:00Z", "confidence_percent": 80},
        "uncertainty": {"samples": 20000, "seed": seed, "spreads": dict.fromkeys(inputs, spread)},
    }


def _searched(what: dict[str, Any], gpu_count: int, batch: int | None) -> dict[str, Any]:
    work: dict[str, Any] = {"kind": "transformer", "tokens": 1e12, "sequence_length": 8192, **what}
    if batch is not None:
        work["global_batch_sequences"] = batch
    return {"cluster": {"gpu": "h100-sxm-80gb", "gpu_count": gpu_count}, "work": work}


def _full_body(pick: random.Random) -> dict[str, Any]:
    tensor, pipeline, data = pick.choice((2, 4, 8)), pick.choice((1, 2, 4, 5, 8, 10, 16)), pick.randint(2, 96)
    microbatch = pick.choice((1, 2, 4))
    return {
        "cluster": {"gpu": pick.choice(_GPUS), "gpu_count": tensor * pipeline * data},
        "work": {
            "kind": "transformer",
            **({"model": _NAMED} if pick.random() < 0.5 else {"shape": _70B, "sequence_length": 4096}),
            "tokens": pick.randint(10**11, 15 * 10**12),
            "global_batch_sequences": data * microbatch * pick.randint(1, 40),
            "recompute": pick.choice(("none", "selective", "full")),
            "layout": {
                "tensor": tensor,
                "pipeline": pipeline,
                "microbatch": microbatch,
                "sharding": pick.choice(("zero1", "zero2", "zero3")) if pipeline == 1 else "zero1",
            },
            "overhead_percent": round(pick.uniform(2, 20), 1),
        },
        "rework": {
            "kind": "failures",
            "hardware": {
                "failures_per_node_day": round(pick.uniform(0.001, 0.03), 4),
                "restart_minutes": round(pick.uniform(5, 90), 1),
            },
            "checkpoint": {
                "seconds": round(pick.uniform(5, 120), 1),
                "interval_minutes": round(pick.uniform(15, 240), 1),
            },
            "instability_percent": round(pick.uniform(0, 4), 2),
            "people_percent": round(pick.uniform(0, 4), 2),
        },
        "price": {"kind": "hourly", "amount": f"{pick.uniform(1.5, 5):.2f}", "currency": pick.choice(_CURRENCIES)},
        "storage": {
            "kind": "metered",
            "price_per_gb_month": f"{pick.uniform(0.01, 0.05):.4f}",
            "dataset_gb": pick.randint(1000, 100_000),
            "checkpoints": {"keep": pick.randint(1, 10)},
        },
        "egress": {
            "kind": "metered",
            "dataset_gb": pick.randint(0, 20_000),
            "exported_gb": pick.randint(100, 5000),
            "tiers": [
                {"up_to_gb": 10240, "price_per_gb": f"{pick.uniform(0.05, 0.12):.3f}"},
                {"price_per_gb": f"{pick.uniform(0.03, 0.05):.3f}"},
            ],
        },
        "idle": {"setup_hours": round(pick.uniform(0, 24), 1), "spare_nodes": pick.randint(0, 4)},
    }
