"""The JSON of gpurentalprices.com: `offers`, each with a price per GPU and the fewest GPUs it is sold for."""

from service.prices.importers.schemas import Mapping

MEMBER = "offers"
REQUIRED = ("provider", "gpu", "usd_hr", "kind")  # without which nothing can be read of it
MAPPING = Mapping(
    columns={
        "provider": "provider",
        "accelerator": "gpu",
        "memory_gb": "vram_gb",
        "price_per_gpu_hour": "usd_hr",
        "purchase": "kind",
        "gpu_count": "min_gpus",
        "source": "source_url",
        "seen_on": "fetched_at",
    }
)
SOURCE = "gpurentalprices.com (CC BY 4.0)"
