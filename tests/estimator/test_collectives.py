"""Exchange between GPUs: the ring against a ring that is walked, bandwidths of groups, what overlap leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.collectives import (
    Sharding,
    data_group_bytes_per_second,
    data_parallel_seconds,
    exposed_seconds,
    overlap_window_seconds,
    ring_all_reduce_seconds,
    ring_phase_seconds,
    tensor_all_reduces_per_layer,
    tensor_group_bytes_per_second,
)

LINK, NETWORK = 300e9, 25e9
seconds = st.floats(1e-6, 1e3)
shares = st.floats(0, 1)


def walked_all_reduce_seconds(values: list[list[float]], bytes_per_second: float) -> float:
    """A ring all-reduce, walked: every rank sends one chunk a turn, 8 bytes a value. Leaves the sum with all."""
    ranks, size = len(values), len(values[0])
    chunk = size // ranks
    turns = 0
    for phase in ("add", "copy"):
        for turn in range(ranks - 1):
            sent = []
            for rank in range(ranks):
                index = (rank - turn + (0 if phase == "add" else 1)) % ranks
                sent.append((rank, index, values[rank][index * chunk : (index + 1) * chunk]))
            for rank, index, data in sent:
                target = values[(rank + 1) % ranks]
                for offset, value in enumerate(data):
                    place = index * chunk + offset
                    target[place] = value + (target[place] if phase == "add" else 0)
            turns += 1
    return turns * chunk * 8 / bytes_per_second


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_ring_takes_as_long_as_one_that_is_walked(ranks: int) -> None:
    size = ranks * 6
    values = [[float(rank * size + place) for place in range(size)] for rank in range(ranks)]
    sums = [sum(column) for column in zip(*values, strict=True)]
    walked = walked_all_reduce_seconds(values, bytes_per_second=1e3)
    assert values == [sums] * ranks
    assert ring_all_reduce_seconds(size * 8, ranks, 1e3) == pytest.approx(walked, rel=1e-12)


def test_a_ring_phase_moves_all_but_ones_own_part() -> None:
    assert ring_phase_seconds(1e9, 8, 100e9) == pytest.approx(0.00875, rel=1e-12)


def test_one_rank_has_nothing_to_exchange() -> None:
    assert ring_all_reduce_seconds(1e9, 1, 100e9) == 0


@given(st.integers(2, 10_000), st.floats(1, 1e12), st.floats(1, 1e12))
def test_an_all_reduce_tends_to_twice_the_bytes(ranks: int, size_bytes: float, bytes_per_second: float) -> None:
    once = size_bytes / bytes_per_second
    assert once * (1 - 1e-9) <= ring_all_reduce_seconds(size_bytes, ranks, bytes_per_second) < 2 * once


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [(8, LINK), (16, 8 * NETWORK)],  # 2 nodes: 8 ports of 25 GB/s are 200, less than the link's 300
)
def test_a_tensor_group_beyond_a_node_has_the_nodes_ports(tensor: int, expected: float) -> None:
    assert tensor_group_bytes_per_second(LINK, NETWORK, tensor, 8) == expected


def test_a_tensor_group_is_never_faster_than_its_link() -> None:
    assert tensor_group_bytes_per_second(LINK, 50e9, 16, 8) == LINK


@pytest.mark.parametrize(
    ("tensor", "data_parallel", "expected"),
    [
        (1, 8, LINK),  # a whole node
        (4, 2, LINK),
        (1, 16, 8 * NETWORK),  # eight members in each node
        (2, 64, 4 * NETWORK),
        (8, 64, NETWORK),  # one member in each node
        (16, 64, NETWORK),
        (4, 4, 2 * NETWORK),
    ],
)
def test_a_data_parallel_group_has_the_ports_of_its_members(tensor: int, data_parallel: int, expected: float) -> None:
    assert data_group_bytes_per_second(LINK, NETWORK, tensor, data_parallel, 8) == expected


def test_a_data_parallel_group_is_never_faster_than_its_link() -> None:
    assert data_group_bytes_per_second(LINK, 50e9, 1, 16, 8) == LINK


def test_a_group_smaller_than_a_nodes_share_has_only_its_own_ports() -> None:
    # Two replicas of four GPUs on nodes of six: not one node, and two members, though a node would hold one.
    assert data_group_bytes_per_second(LINK, NETWORK, 2, 2, 3) == NETWORK


def test_full_recompute_repeats_the_two_forward_all_reduces() -> None:
    assert tensor_all_reduces_per_layer(full_recompute=False) == 4
    assert tensor_all_reduces_per_layer(full_recompute=True) == 6


# 1e9 parameters, 4-byte gradients, 2 ranks (each phase moves one half), 10e9 bytes a second, 3 microbatches.
@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        ("ddp", 0.4),  # 2 x 4 bytes x 1/2
        ("zero1", 0.3),  # (4 + 2) x 1/2
        ("zero2", 0.3),
        ("zero3", 1.2),  # 3 x (2 x 2 + 4) x 1/2
    ],
)
def test_bytes_exchanged_by_each_sharding(sharding: Sharding, expected: float) -> None:
    assert data_parallel_seconds(sharding, 1e9, 4, 2, 10e9, 3) == pytest.approx(expected, rel=1e-12)


def test_half_the_gradient_bytes_leave_the_weights_as_they_are() -> None:
    assert data_parallel_seconds("zero1", 1e9, 2, 2, 10e9, 1) == pytest.approx(0.2, rel=1e-12)
    assert data_parallel_seconds("ddp", 1e9, 2, 2, 10e9, 1) == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize(
    ("sharding", "pipeline", "expected"),
    [
        ("ddp", 1, 2.0),
        ("ddp", 4, 2.0),
        ("zero1", 1, 2.0),
        ("zero2", 1, 8.0),  # 0.8 x 10
        ("zero2", 4, 2.0),
        ("zero3", 1, 10.0),
        ("zero3", 4, 10.0),
    ],
)
def test_the_window_of_each_sharding(sharding: Sharding, pipeline: int, expected: float) -> None:
    assert overlap_window_seconds(sharding, pipeline, 2.0, 10.0) == expected


@pytest.mark.parametrize(
    ("overlap", "window", "expected"),
    [(0.0, 100.0, 10.0), (0.65, 100.0, 3.5), (0.65, 4.0, 6.0), (1.0, 4.0, 6.0), (1.0, 10.0, 0.0)],
)
def test_what_overlap_leaves_of_ten_seconds(overlap: float, window: float, expected: float) -> None:
    assert exposed_seconds(10.0, overlap, window) == pytest.approx(expected, rel=1e-12)


@given(seconds, shares, shares, seconds)
def test_more_overlap_never_exposes_more(exchange: float, less: float, more: float, window: float) -> None:
    less, more = sorted((less, more))
    exposed = exposed_seconds(exchange, more, window)
    assert exposed <= exposed_seconds(exchange, less, window) * (1 + 1e-12)
    assert exposed >= max(0.0, exchange - window) * (1 - 1e-9) - 1e-12
