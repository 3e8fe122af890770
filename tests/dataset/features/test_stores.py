"""Order of the buffers of a store, which must depend on the program alone."""

from __future__ import annotations

import itertools

import numpy as np
from foretune.compiler.operators import BatchNorm, Dense, to_task
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.features.stores import (
    BUFFER_DIM,
    BUFFERS,
    FIRST_BUFFER,
    StoreExtractor,
    first_buffers,
    has_namesakes,
)
from foretune.dataset.features.table import STORE_DIM
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target({"kind": "llvm", "num-cores": 2})


def buffer(lines, size, stride):
    """Features of a buffer: bytes, lines and its last column, the stride."""
    columns = np.zeros(BUFFER_DIM)
    columns[[3, 5, -1]] = size, lines, stride
    return columns


def store(buffers):
    """A store with these buffers, before others by its first columns and after by its last ones."""
    tail = np.arange(STORE_DIM - FIRST_BUFFER - BUFFERS * BUFFER_DIM)
    return np.concatenate([-np.ones(FIRST_BUFFER), *buffers, 100.0 + tail])[None]


def test_namesakes_are_ordered_by_their_features_and_cut_after_that():
    few, many = buffer(1, 8, 3), buffer(2, 4, 0)
    ties = [buffer(1, 4, stride) for stride in (0, 1, 2, 5)]
    expected = store([many, few, ties[3], ties[2], ties[1]])
    for order in itertools.permutations(ties):
        np.testing.assert_array_equal(first_buffers(store([many, few, *order])), expected)


def test_equal_programs_have_equal_features():
    """TVM orders the reshaped means and deviations of a normalisation by their addresses."""
    task = to_task(BatchNorm.examples()[0])
    context = make_tune_context(task.mod, TARGET, seed=1, strategy="replay-trace")
    context.pre_tuning(12, 12, context.generate_design_space(), ms.database.MemoryDatabase(), None)
    programs = list(context.generate_measure_candidates())
    assert any(has_namesakes(program.sch.mod) for program in programs)
    once, again = StoreExtractor()(context, programs), StoreExtractor()(context, programs[::-1])[::-1]
    for left, right in zip(once, again, strict=True):
        np.testing.assert_array_equal(left, right)
        assert left.shape[1] == STORE_DIM and left.dtype == np.float32


def test_programs_without_namesakes_have_the_features_of_tvm():
    task = to_task(Dense(rows=8, in_features=16, out_features=32))
    context = make_tune_context(task.mod, TARGET, seed=1, strategy="replay-trace")
    context.pre_tuning(3, 3, context.generate_design_space(), ms.database.MemoryDatabase(), None)
    programs = list(context.generate_measure_candidates())
    assert not any(has_namesakes(program.sch.mod) for program in programs)
    plain = ms.feature_extractor.PerStoreFeature().extract_from(context, programs)
    for found, expected in zip(StoreExtractor()(context, programs), plain, strict=True):
        np.testing.assert_array_equal(found, expected.numpy().astype(np.float32))
