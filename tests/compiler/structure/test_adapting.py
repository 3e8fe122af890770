"""Decisions adapted from one task to another, worked by hand on matrix products."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.structure.adapting import adapted_choices, corresponds
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.space import SketchSpace
from hypothesis import given
from hypothesis import strategies as st
from support.drafts import matmul, matmul_trace

PARENT, VALUES = read_sketch(matmul_trace(), matmul())
"""Tiles i [2, 1, 2, 2] of 8, j [1, 2, 1, 8] of 16 and k [8, 4] of 32."""


def space_of(rows, columns, inner):
    """Space of a product with these extents."""
    tiles = {"i": [rows, 1, 1, 1], "j": [columns, 1, 1, 1], "k": [inner, 1]}
    return SketchSpace.from_traces([matmul_trace(**tiles)], matmul(rows, columns, inner))


def adapted(space, count=1):
    return space.values(adapted_choices(PARENT, VALUES, space, count)).tolist()


def test_equal_extents_give_the_program_itself_first():
    assert adapted(space_of(8, 16, 32)) == [VALUES]


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        # The outermost factor takes what the loops are longer by.
        ((16, 48, 128), [4, 1, 2, 2, 3, 2, 1, 8, 32, 4, 2]),
        # Of 14, no factor of 4 can lie inside: [7, 1, 1, 2] misses one 2 inside and 3.5 outside,
        # 1 + 0.25 log2(3.5) = 1.45; [1, 1, 7, 2] misses 2 and 3.5, 0.25 + 1.81 = 2.06.
        ((14, 16, 32), [7, 1, 1, 2, 1, 2, 1, 8, 8, 4, 2]),
        # Of 20 columns, [1, 2, 1, 10] keeps all factors but the innermost, and misses
        # that by 0.32 * 1.5 = 0.48 alone.
        ((8, 20, 32), [2, 1, 2, 2, 1, 2, 1, 10, 8, 4, 2]),
        # A prime has no other factor.
        ((13, 16, 32), [13, 1, 1, 1, 1, 2, 1, 8, 8, 4, 2]),
        ((1, 1, 1), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]),
    ],
)
def test_tiles_take_the_nearest_divisors(extents, expected):
    assert adapted(space_of(*extents)) == [expected]


def test_variants_follow_by_their_distance():
    found = adapted(space_of(8, 16, 32), 5)
    # Moving one 2 between the outermost factor and one in the middle costs 0.25 + 1, within k 0.25 + 1.5.
    assert found[0] == VALUES
    assert {tuple(row) for row in found[1:]} == {
        (1, 2, 2, 2, 1, 2, 1, 8, 8, 4, 2),
        (1, 1, 4, 2, 1, 2, 1, 8, 8, 4, 2),
        (4, 1, 1, 2, 1, 2, 1, 8, 8, 4, 2),
        (2, 1, 2, 2, 2, 1, 1, 8, 8, 4, 2),
    }


extent = st.integers(1, 96)


@given(st.tuples(extent, extent, extent), st.integers(1, 40))
def test_tiles_of_every_variant_multiply_to_the_extents(extents, count):
    space = space_of(*extents)
    choices = adapted_choices(PARENT, VALUES, space, count)
    values = space.values(choices)
    assert 1 <= len(values) <= count
    assert len(np.unique(choices, axis=0)) == len(choices)
    for columns, size in zip((slice(0, 4), slice(4, 8), slice(8, 10)), extents, strict=True):
        assert (values[:, columns].prod(axis=1) == size).all()
        assert (values[:, columns.stop - 1] <= 64).all()
    assert (values[:, 10] == 2).all()


def test_a_categorical_takes_the_nearest_choice_of_another_table():
    trace = matmul_trace()
    trace[0][13] = ["SampleCategorical", [], [[0, 100, 4096], [0.3, 0.3, 0.4]], ["v25"]]
    space = SketchSpace.from_traces([trace], matmul())
    assert adapted(space)[0][-1] == 1  # 100 is nearest to the parent's 64


def test_sketches_of_other_decisions_do_not_correspond():
    assert corresponds(PARENT, space_of(4, 4, 4).sketch)
    trace = matmul_trace()
    del trace[0][13], trace[1][3]
    assert not corresponds(PARENT, read_sketch(trace, matmul())[0])
