"""Tests of input locations on a hand-written nest whose reduction loops run 8 and 4 times."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.structure.input_locations import InputLocation, input_locations
from foretune.compiler.structure.nest import Nest
from foretune.compiler.structure.sketch import AT_ROOT, INLINED
from foretune.dataset.features.draft_vector import DRAFT_DIM, DraftFeaturizer
from foretune.inference.surrogate.embedding import EMBEDDING_DIM, LOCATION_OFFSET, embeddings_of
from support.drafts import CPU, matmul, with_locations

# The loops are i0 j0 i1 j1 k0 i2 j2 k1 i3 j3.
K0, K1 = 4, 7


def location_of(*locations: int, **decided) -> InputLocation:
    sketch, values = with_locations(*locations, **decided)
    (found,) = input_locations(Nest.of(sketch, values))
    return InputLocation(found)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (AT_ROOT, InputLocation.ROOT),
        (0, InputLocation.OUTSIDE_REDUCTION),
        (K0 - 1, InputLocation.OUTSIDE_REDUCTION),
        (K0, InputLocation.INSIDE_REDUCTION),
        (K1, InputLocation.INSIDE_REDUCTION),
        (9, InputLocation.INSIDE_REDUCTION),
        (INLINED, InputLocation.INSIDE_REDUCTION),
    ],
)
def test_an_input_is_computed_before_around_or_within_the_reduction(location, expected):
    assert location_of(location) == expected


def test_a_reduction_loop_that_runs_once_is_none():
    assert location_of(K0, k=[1, 32]) == InputLocation.OUTSIDE_REDUCTION
    assert location_of(K1 - 1, k=[1, 32]) == InputLocation.OUTSIDE_REDUCTION
    assert location_of(K1, k=[1, 32]) == InputLocation.INSIDE_REDUCTION


def test_of_several_inputs_the_outermost_counts():
    assert location_of(K1, AT_ROOT) == InputLocation.ROOT
    assert location_of(2, INLINED) == InputLocation.OUTSIDE_REDUCTION
    assert location_of(K0, K1) == InputLocation.INSIDE_REDUCTION


def test_a_nest_without_such_inputs_reads_them_where_it_needs_them():
    assert location_of() == InputLocation.INSIDE_REDUCTION


def test_candidates_of_one_sketch_are_told_apart():
    sketch, before = with_locations(AT_ROOT)
    values = np.concatenate([with_locations(location)[1] for location in (K1, AT_ROOT, 1)])
    assert input_locations(Nest.of(sketch, values)).tolist() == [2, 0, 1]
    assert input_locations(Nest.of(sketch, before)).tolist() == [0]


def test_programs_are_apart_for_computing_inputs_elsewhere():
    sketch, _ = with_locations(AT_ROOT)
    # The first two differ in their input location, the last two only in depth inside the reduction.
    values = np.concatenate([with_locations(location)[1] for location in (AT_ROOT, K0, K1)])
    vectors = DraftFeaturizer(sketch, matmul(), CPU)(values)
    embeddings = embeddings_of(vectors, Nest.of(sketch, values))
    assert embeddings.shape == (3, EMBEDDING_DIM)
    np.testing.assert_array_equal(embeddings[:, :DRAFT_DIM], vectors)
    before, within, deeper = embeddings[:, DRAFT_DIM:-1]
    assert not embeddings[:, -1].any()  # nothing is guarded
    assert np.linalg.norm(before - within) == pytest.approx(LOCATION_OFFSET * 2**0.5)
    np.testing.assert_array_equal(within, deeper)
