"""Tests of memory traffic and roofline scores against figures worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import tvm
from foretune.compiler.counts.program_counts import FLOPS_PER_LANE
from foretune.compiler.counts.traffic import compulsory_bytes, traffic_bytes
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target
from foretune.dataset.features.assembly import FeatureAssembler
from foretune.dataset.features.roofline import (
    WORK_DIM,
    dataset_scores,
    latency_bound_s,
    memory_bound,
    roofline_latency_s,
    roofline_scores,
    work_features,
)
from foretune.dataset.features.table import FeatureTable, LabelledFeatures
from foretune.dataset.hardware import Hardware, named_hardware
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule

N = 64
MATRIX = N * N * 4  # bytes
DEVICE = Hardware("made up", "cpu", 2, 2.0, 256, 2**15, 10_000, 2**25, 100.0, 10.0)


def matmul(n: int = N) -> tvm.IRModule:
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    product = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    return as_task_module(te.create_prim_func([a, b, product]))


# -- traffic


def test_arguments_are_the_compulsory_traffic():
    assert compulsory_bytes(matmul()) == 3 * MATRIX


@pytest.mark.parametrize(
    ("cache_bytes", "refetched"),
    [
        # All three matrices fit.
        (3 * MATRIX, 0),
        # A row of a, a row of the product and all of b fit, so b stays in the cache.
        (MATRIX + 2 * N * 4, 0),
        # A row of a and a column of b fit, but not b, which is fetched for each of 64 rows.
        (MATRIX + 2 * N * 4 - 1, (N - 1) * MATRIX),
        (2 * N * 4 + 4, (N - 1) * MATRIX),
        # Not even these fit: the loop over k fetches 64 elements of a and of b for each of 64 x 64 results,
        # and each result once.
        (2 * N * 4 + 3, 2 * (N**3 * 4 - MATRIX)),
        (12, 2 * (N**3 * 4 - MATRIX)),
    ],
)
def test_traffic_of_a_matrix_product_by_cache(cache_bytes, refetched):
    assert traffic_bytes(matmul(), cache_bytes) == 3 * MATRIX + refetched


def test_tiling_saves_traffic():
    schedule = Schedule(matmul())
    i, j, k = schedule.get_loops(schedule.get_sblock("product"))
    outer_i, inner_i = schedule.split(i, [None, 16])
    outer_j, inner_j = schedule.split(j, [None, 16])
    schedule.reorder(outer_i, outer_j, inner_i, inner_j, k)
    # 16 rows of a, 16 columns of b and a tile fit (9 kB), but not all of b (16 kB), which is fetched for each
    # of the 4 bands of rows.
    assert traffic_bytes(schedule.mod, 10_000) == 3 * MATRIX + 3 * MATRIX


def test_fusing_loops_changes_no_traffic():
    schedule = Schedule(matmul())
    i, j, k = schedule.get_loops(schedule.get_sblock("product"))
    outer_i, inner_i = schedule.split(i, [None, 16])
    schedule.reorder(outer_i, j, inner_i, k)
    # 16 rows of a, a column of b and 16 results fit: b is fetched for each of the 4 bands of rows.
    assert traffic_bytes(schedule.mod, 8000) == 3 * MATRIX + 3 * MATRIX
    schedule.parallel(schedule.fuse(outer_i, j))
    assert traffic_bytes(schedule.mod, 8000) == 3 * MATRIX + 3 * MATRIX


def test_overlapping_windows_are_counted_once():
    signal = te.placeholder((66,), name="signal")
    r = te.reduce_axis((0, 3), name="r")
    blur = te.compute((64,), lambda i: te.sum(signal[i + r], axis=r), name="blur")
    mod = as_task_module(te.create_prim_func([signal, blur]))
    assert traffic_bytes(mod, 66 * 4 + 64 * 4) == 66 * 4 + 64 * 4
    # Three elements and a sum fit, so the window slides.
    assert traffic_bytes(mod, 16) == 66 * 4 + 64 * 4
    # They do not fit, so each window is fetched again.
    assert traffic_bytes(mod, 15) == 66 * 4 + 64 * 4 + (64 * 3 - 66) * 4


def test_one_buffer_read_at_two_places_is_one_box():
    signal = te.placeholder((8, 16), name="signal")
    total = te.compute((16,), lambda i: signal[0, i] + signal[7, i], name="total")
    mod = as_task_module(te.create_prim_func([signal, total]))
    assert traffic_bytes(mod, 10_000) == 8 * 16 * 4 + 16 * 4


def test_shared_memory_of_a_gpu_moves_nothing():
    schedule = Schedule(matmul())
    block = schedule.get_sblock("product")
    i, _, _ = schedule.get_loops(block)
    for operand, scope in ((0, "shared"), (1, "shared")):
        schedule.compute_at(schedule.cache_read(block, operand, scope), i)
    # Memory traffic consists of the copies of a (row by row) and b (whole, for each row).
    copies = traffic_bytes(schedule.mod, 300) - 3 * MATRIX
    assert copies == (N - 1) * MATRIX


@settings(deadline=None)
@given(st.integers(1, 2**16), st.integers(1, 2**16))
def test_more_cache_never_moves_more(one, other):
    small, large = sorted((one, other))
    mod = matmul(16)
    assert compulsory_bytes(mod) <= traffic_bytes(mod, large) <= traffic_bytes(mod, small)


# -- scores


VECTORS = DEVICE.features()
"""100 GFLOP/s in vectors of 8 lanes are 6.25 G instructions a second, in 3.125 G cycles of all cores; caches
then move 200, 100 and 50 GB/s, and the memory 10."""


def past_caches(moved):
    """Bytes by level that move past the last cache alone."""
    return [[0.0, 0.0, 0.0, moved]]


def instructions_of(flops):
    return [flops / (FLOPS_PER_LANE * 8)]


def test_scores_are_shares_of_the_latency():
    # 1 GB at 10 GB/s takes 0.1 s, and 4 GFLOP at 100 GFLOP/s take 0.04 s, out of 0.2 s.
    scores = roofline_scores([0.2], instructions_of(4e9), past_caches(1e9), VECTORS)
    assert scores.memory == pytest.approx([0.5], rel=1e-4)
    assert scores.core == pytest.approx([0.2], rel=1e-4)
    assert roofline_latency_s(4e9, 1e9, DEVICE) == pytest.approx(0.1)
    assert roofline_latency_s(40e9, 1e9, DEVICE) == pytest.approx(0.4)
    assert memory_bound(4e9, 1e9, DEVICE) and not memory_bound(40e9, 1e9, DEVICE)


@pytest.mark.parametrize(
    ("moved", "memory"),
    [
        ([2e9, 0, 0, 0], 2 / 200),
        ([2e9, 2e9, 0, 0], 2 / 100),
        ([2e9, 2e9, 2e9, 0], 2 / 50),
        ([2e9, 2e9, 2e9, 1e8], 2 / 50),  # 0.01 s of the memory is less than 0.04 s of the last cache
        ([2e9, 2e9, 2e9, 2e9], 2 / 10),
    ],
)
def test_the_slowest_level_of_the_memory_hierarchy_counts(moved, memory):
    assert roofline_scores([1.0], [0.0], [moved], VECTORS).memory == pytest.approx([memory], rel=1e-4)


def test_work_is_counts_and_seconds_over_the_least_latency():
    # 2e9 instructions of 8 lanes, two operations each, are 0.32 s at 100 GFLOP/s. Bytes take 1/200, 1/100,
    # 1/50 and 1/10 s a GB. A task of 1 GFLOP and 1 GB takes 0.1 s at least.
    # The first cache has 2 loads a cycle, of which there are 3.125e9 a second. A stretch takes
    # 10 ns, and so does a contested store. A chained addition takes 4 cycles.
    amounts = np.array([[2e9, 1e9, 4e9, 1e9, 2e9, 6.25e8, 1e6, 2e6, 4e6, 1.5625e8], np.zeros(10)])
    counts = np.log2(1 + amounts).astype(np.float32)
    task = np.zeros((2, 48), np.float32)
    task[:, 46:] = np.log2(1 + 1e9)
    work = work_features(counts, task, np.stack([VECTORS, VECTORS]))
    assert work.shape == (2, WORK_DIM) and work.dtype == np.float32
    np.testing.assert_array_equal(work[:, :5], counts[:, :5])
    seconds = np.array([0.32, 1 / 200, 4 / 100, 1 / 50, 2 / 10, 0.32, 2 / 10])
    np.testing.assert_allclose(work[0, 5:12], np.log2(seconds / 0.1), atol=1e-4)
    np.testing.assert_array_equal(work[:, 12:17], counts[:, 5:])
    seconds = np.array([0.1, 0.01, 0.02, 0.04, 0.2])
    np.testing.assert_allclose(work[0, 17:], np.log2(seconds / 0.1), atol=1e-4)
    for over in (work[1, 5:12], work[1, 17:]):
        assert (over == np.float32(np.log2(1e-12 / 0.1))).all()  # a program without work
    # What no program has stays within bounds.
    extreme = work_features(counts * 1e6, task, np.stack([VECTORS, -VECTORS]))
    assert max(np.abs(extreme[:, 5:12]).max(), np.abs(extreme[:, 17:]).max()) <= 64


def test_a_failure_scores_nothing_and_no_share_is_over_one():
    scores = roofline_scores([np.inf, 1e-9], instructions_of(4e9) * 2, past_caches(1e9) * 2, VECTORS)
    np.testing.assert_array_equal(scores.memory, [0, 1])
    np.testing.assert_array_equal(scores.core, [0, 1])
    assert scores.memory.dtype == scores.core.dtype == np.float64


@given(st.floats(1e-6, 10), st.floats(1, 1e12), st.floats(1, 1e12))
def test_the_larger_score_tells_the_side_of_the_ridge(latency, flops, moved):
    scores = roofline_scores([latency], instructions_of(flops), past_caches(moved), VECTORS)
    # Close to the ridge, rounding may select either side.
    off_the_ridge = not math.isclose(flops / moved, 100.0 / 10.0, rel_tol=1e-3)
    if scores.memory[0] < 1 and scores.core[0] < 1 and off_the_ridge:
        assert (scores.memory[0] > scores.core[0]) == (flops / moved < 100.0 / 10.0)


def test_scores_of_a_dataset_read_the_features_back():
    target = parse_target({"kind": "llvm", "num-cores": 1})
    context = make_tune_context(matmul(), target, seed=0)
    candidate = ms.MeasureCandidate(
        Schedule(context.mod), ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=True)
    )
    devices = [DEVICE, named_hardware("i9-9900k"), DEVICE]
    features = FeatureTable.from_candidates(
        [FeatureAssembler(device).rows(context, [candidate])[0] for device in devices]
    )
    names = np.array(["x"] * 3)
    flops, moved = np.full(3, 2.0 * N**3), np.full(3, 3.0 * MATRIX)
    latency_s = np.array([1e-4, 1e-4, np.inf])
    lanes = np.array([device.vector_bits / 32 for device in devices])
    instructions, levels = flops / 2 / lanes, np.stack([0 * moved, 0 * moved, 0 * moved, moved], axis=1)
    data = LabelledFeatures(
        features, latency_s, names, names, names, names, names, names, instructions, levels
    )
    scores = dataset_scores(data)
    expected_memory = [3 * MATRIX / 10e9 / 1e-4, 3 * MATRIX / 41.6e9 / 1e-4, 0]
    np.testing.assert_allclose(scores.memory, expected_memory, rtol=1e-4)
    np.testing.assert_allclose(scores.core, [*(flops[:2] / [100e9, 921.6e9] / 1e-4), 0], rtol=1e-4)
    twice = dataset_scores(replace(data, moved_bytes=2 * levels))
    np.testing.assert_allclose(twice.memory, 2 * np.array(expected_memory), rtol=1e-4)
    # Serving reads the same values from the raw features as the descriptions and the module give.
    least = [roofline_latency_s(flops[0], moved[0], device) for device in devices]
    np.testing.assert_allclose(latency_bound_s(features), least, rtol=1e-5)
    np.testing.assert_allclose(latency_bound_s(features.batch()), least, rtol=1e-5)
