"""Features B, T and M (ETO, section 3) and their ranges, against the numbers of Example 3 and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.inference.eto.search.program_features import (
    COUNTERPARTS,
    CpuFeatures,
    FeatureRanges,
    Interval,
    program_features,
)
from foretune.inference.reuse.conditions import Operator, operator_of
from hypothesis import given
from hypothesis import strategies as st
from support.drafts import matmul, matmul_trace
from support.reuse import CHILD, PARENT, parent_values, plain_space


def test_features_of_example_3() -> None:
    found = program_features(Nest.of(plain_space(PARENT).sketch, parent_values()))
    assert found.blocks.tolist() == [56]
    assert found.threads.tolist() == [56 * 224]
    # 11264 elements of float32: 128 channels of 2 x 28 pixels and of 32 filters.
    assert found.shared.tolist() == [56 * 11264 * 4]


def test_ranges_of_example_3() -> None:
    ranges = FeatureRanges.of(operator_of(PARENT), operator_of(CHILD))
    assert ranges.blocks.scaled(56) == Interval(28, 112)
    assert ranges.threads == ranges.shared == Interval(0.5, 1)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4)), min_size=3, max_size=3), st.booleans())
def test_ranges_hold_the_parents_own_values_for_any_reuse_pair(pairs, child_is_larger) -> None:
    reduction = (False, False, True)
    small = Operator("matmul", tuple(extent for extent, _ in pairs), reduction)
    large = Operator("matmul", tuple(extent * factor for extent, factor in pairs), reduction)
    ranges = FeatureRanges.of(*((small, large) if child_is_larger else (large, small)))
    for interval in (ranges.blocks, ranges.threads, ranges.shared):
        assert interval.contains(np.array([1.0])).all()
    ratio = large.iterations / small.iterations
    assert ranges.threads.high / ranges.threads.low == pytest.approx(ratio)
    # B's range is wider by what the reduction differs.
    wider = large.reduction_iterations / small.reduction_iterations
    assert ranges.blocks.high / ranges.blocks.low == pytest.approx(ratio * wider)


def test_candidates_within_all_three_ranges() -> None:
    sketch = plain_space(CHILD).sketch
    parent = program_features(Nest.of(plain_space(PARENT).sketch, parent_values()))
    ranges = FeatureRanges.of(operator_of(PARENT), operator_of(CHILD))
    # B = 56, T = 56 x 224 as the parent; M by the number of fetches of the 256 channels: 4, 2 or 1.
    values = np.repeat(parent_values(), 3, axis=0)
    values[:, 20:23] = [[4, 32, 2], [2, 64, 2], [1, 128, 2]]
    found = program_features(Nest.of(sketch, values))
    assert (found.shared / 4 / 56).tolist() == [5632, 11264, 22528]
    assert found.within(parent, ranges).tolist() == [True, True, False]


def test_counterparts_on_a_cpu_by_hand() -> None:
    """c[8, 16] += a[8, 32] b[32, 16] with tiles i [2, 1, 2, 2], j [1, 2, 1, 8], k [8, 4]."""
    sketch, values = read_sketch(matmul_trace(), matmul())
    nest = Nest.of(sketch, np.array([values]))
    found = {kind: {name: f(nest).tolist() for name, f in fs.items()} for kind, fs in COUNTERPARTS.items()}
    # S0 is 2 x 1; MetaSchedule fuses S1 too, 1 x 2, as the limit is 32.
    assert found["blocks"] == {"chunks": [4], "outer_tiles": [2]}
    # A register tile is 2 x 8 of 128 outputs; both innermost loops fit a vector of 64.
    assert found["threads"] == {"register_tiles": [8], "vectors": [8]}
    # Inside S1 a tile is 4 x 8: a step of 4 reads 4 x 4 and 4 x 8 floats, the whole 4 x 32 and 32 x 8.
    assert found["shared"] == {"step_bytes": [4 * 4 * (16 + 32)], "tile_bytes": [4 * 4 * (128 + 256)]}


def test_a_choice_of_counterparts_is_taken() -> None:
    sketch, values = read_sketch(matmul_trace(), matmul())
    nest = Nest.of(sketch, np.array([values]))
    chosen = program_features(nest, CpuFeatures("outer_tiles", "vectors", "tile_bytes"))
    assert (chosen.blocks[0], chosen.threads[0], chosen.shared[0]) == (2, 8, 6144)
