"""What splitting the layers into stages costs: activations handed on, and stages that wait."""

from service.estimator.collectives import BYTES_PER_VALUE


def bubble_fraction(pipeline: int, interleave: int, microbatches: float) -> float:
    """Idle time of a stage over its busy time (arXiv 2104.04473, section 2.2.2)."""
    return (pipeline - 1) / (interleave * microbatches)


def bubble_seconds(pipeline: int, interleave: int, microbatch_seconds: float) -> float:
    """Idle time of a stage in one step, however many microbatches it has (arXiv 2104.04473, section 2.2.2)."""
    return microbatch_seconds * (pipeline - 1) / interleave


def pipeline_seconds(pipeline: int, interleave: int, microbatches: float, microbatch_seconds: float) -> float:
    """Time from the first microbatch's start to the last one's end (arXiv 2104.04473, section 2.2.2)."""
    return microbatch_seconds * microbatches + bubble_seconds(pipeline, interleave, microbatch_seconds)


def stage_transfer_seconds(
    tokens: float, hidden: int, interleave: int, tensor: int, sequence_parallel: bool, bytes_per_second: float
) -> float:
    """Time of handing one microbatch's activations on and its gradients back, once for every chunk of a stage.

    arXiv 2104.04473, section 2.2.2: interleaving multiplies the exchange by the number of chunks. With sequence
    parallelism each tensor rank hands on its own part (arXiv 2205.05198, section 4.2.2).
    """
    activation_bytes = BYTES_PER_VALUE * tokens * hidden / (tensor if sequence_parallel else 1)
    return 2 * interleave * activation_bytes / bytes_per_second
