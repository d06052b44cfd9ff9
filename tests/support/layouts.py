"""Machines, models and layouts of published runs, and small ones, for the tests of the step-time model."""

from typing import Any

from service.estimator.parallelism import Layout, Workload
from service.estimator.step import Machine

# Bandwidths: NVLink 3 and 4 per direction, HDR 200 and NDR 400 InfiniBand for each GPU.
A100 = Machine(
    peak_flops_per_second=312e12,
    memory_bytes_per_second=2.039e12,
    link_bytes_per_second=300e9,
    network_bytes_per_second=25e9,
    gpus_per_node=8,
    gemm_efficiency=0.71,
    attention_efficiency=0.32,
)
H100 = Machine(
    peak_flops_per_second=989.4e12,
    memory_bytes_per_second=3.35e12,
    link_bytes_per_second=450e9,
    network_bytes_per_second=50e9,
    gpus_per_node=8,
    gemm_efficiency=0.62,
    attention_efficiency=0.18,
)


def a_workload(**changes: Any) -> Workload:
    """A small dense transformer with grouped key-value heads, some of its numbers changed."""
    small = {
        "layers": 8,
        "hidden": 1024,
        "heads": 8,
        "kv_heads": 4,
        "head_dim": 128,
        "ffn_hidden": 4096,
        "ffn_matrices": 3,
        "vocabulary": 32_000,
        "sequence_length": 2048,
        "global_batch_sequences": 64,
    }
    return Workload(**{**small, **changes})


GPT3_175B = Workload(
    layers=96,
    hidden=12288,
    heads=128,
    kv_heads=128,
    head_dim=96,
    ffn_hidden=49152,
    ffn_matrices=2,
    vocabulary=64_000,
    sequence_length=2048,
    global_batch_sequences=768,
)
MEGATRON_177B = Workload(
    layers=96,
    hidden=12288,
    heads=96,
    kv_heads=96,
    head_dim=128,
    ffn_hidden=49152,
    ffn_matrices=2,
    vocabulary=131_072,
    sequence_length=4096,
    global_batch_sequences=1152,
)
MPT_7B = Workload(
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=32,
    head_dim=128,
    ffn_hidden=16384,
    ffn_matrices=2,
    vocabulary=50_368,
    sequence_length=2048,
    global_batch_sequences=768,
)
LLAMA3_405B = Workload(
    layers=126,
    hidden=16384,
    heads=128,
    kv_heads=8,
    head_dim=128,
    ffn_hidden=53248,
    ffn_matrices=3,
    vocabulary=128_256,
    sequence_length=8192,
    global_batch_sequences=2048,
)
LLAMA3_70B = Workload(
    layers=80,
    hidden=8192,
    heads=64,
    kv_heads=8,
    head_dim=128,
    ffn_hidden=28672,
    ffn_matrices=3,
    vocabulary=128_256,
    sequence_length=8192,
    global_batch_sequences=1024,
)
GPT_7_5B = Workload(
    layers=36,
    hidden=4096,
    heads=32,
    kv_heads=32,
    head_dim=128,
    ffn_hidden=16384,
    ffn_matrices=2,
    vocabulary=51_200,
    sequence_length=2048,
    global_batch_sequences=512,
)
BLOOM_176B = Workload(
    layers=70,
    hidden=14336,
    heads=112,
    kv_heads=112,
    head_dim=128,
    ffn_hidden=57344,
    ffn_matrices=2,
    vocabulary=250_880,
    sequence_length=2048,
    global_batch_sequences=2048,
)

# Microbatch and interleave of the 177B and 7.5B rows are not published: assumed.
GPT3_175B_LAYOUT = Layout(
    tensor=8,
    pipeline=8,
    interleave=6,
    sharding="ddp",
    recompute="selective",
    sequence_parallel=True,
    flash_attention=False,
    data_overlap=False,
)
MEGATRON_177B_LAYOUT = Layout(tensor=8, pipeline=6, interleave=16, sequence_parallel=True, tensor_overlap=True)
MPT_7B_LAYOUT = Layout(microbatch=6, sharding="zero3", fused=False)
LLAMA3_405B_LAYOUT = Layout(tensor=8, pipeline=16, interleave=8, sharding="zero2", sequence_parallel=True)
GPT_7_5B_LAYOUT = Layout(
    tensor=4,
    microbatch=16,
    sharding="ddp",
    recompute="full",
    flash_attention=False,
    data_overlap=False,
    gradient_bytes=2,
)
BLOOM_176B_LAYOUT = Layout(tensor=4, pipeline=12, microbatch=2, recompute="full", flash_attention=False)
