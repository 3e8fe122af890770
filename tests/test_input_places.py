"""Where the inputs of a nest are computed: loops by hand, whose reduction runs 8 and then 4 times."""

from __future__ import annotations

import numpy as np
import pytest
from drafts_under_test import CPU, matmul, with_locations
from foretune.dataset.drafting.features import DRAFT_DIM, DraftFeaturizer
from foretune.dataset.drafting.input_places import InputPlace, input_places
from foretune.dataset.drafting.nest import Nest
from foretune.dataset.drafting.sketch import AT_ROOT, INLINED
from foretune.inference.likeness import APART, PLACE_DIM, places_of

# The loops are i0 j0 i1 j1 k0 i2 j2 k1 i3 j3.
K0, K1 = 4, 7


def place(*locations: int, **decided) -> InputPlace:
    sketch, values = with_locations(*locations, **decided)
    (found,) = input_places(Nest.of(sketch, values))
    return InputPlace(found)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (AT_ROOT, InputPlace.BEFORE),
        (0, InputPlace.AROUND),
        (K0 - 1, InputPlace.AROUND),
        (K0, InputPlace.WITHIN),
        (K1, InputPlace.WITHIN),
        (9, InputPlace.WITHIN),
        (INLINED, InputPlace.WITHIN),
    ],
)
def test_an_input_is_computed_before_around_or_within_the_reduction(location, expected):
    assert place(location) == expected


def test_a_reduction_loop_that_runs_once_is_none():
    assert place(K0, k=[1, 32]) == InputPlace.AROUND
    assert place(K1 - 1, k=[1, 32]) == InputPlace.AROUND
    assert place(K1, k=[1, 32]) == InputPlace.WITHIN


def test_of_several_inputs_the_outermost_counts():
    assert place(K1, AT_ROOT) == InputPlace.BEFORE
    assert place(2, INLINED) == InputPlace.AROUND
    assert place(K0, K1) == InputPlace.WITHIN


def test_a_nest_without_such_inputs_reads_them_where_it_needs_them():
    assert place() == InputPlace.WITHIN


def test_candidates_of_one_sketch_are_told_apart():
    sketch, before = with_locations(AT_ROOT)
    values = np.concatenate([with_locations(location)[1] for location in (K1, AT_ROOT, 1)])
    assert input_places(Nest.of(sketch, values)).tolist() == [2, 0, 1]
    assert input_places(Nest.of(sketch, before)).tolist() == [0]


def test_programs_are_apart_for_computing_inputs_elsewhere():
    sketch, _ = with_locations(AT_ROOT)
    # The first two differ in where the input is computed, the last two only within the reduction.
    values = np.concatenate([with_locations(location)[1] for location in (AT_ROOT, K0, K1)])
    vectors = DraftFeaturizer(sketch, matmul(), CPU)(values)
    places = places_of(vectors, Nest.of(sketch, values))
    assert places.shape == (3, PLACE_DIM)
    np.testing.assert_array_equal(places[:, :DRAFT_DIM], vectors)
    before, within, deeper = places[:, DRAFT_DIM:-1]
    assert not places[:, -1].any()  # nothing is guarded
    assert np.linalg.norm(before - within) == pytest.approx(APART * 2**0.5)
    np.testing.assert_array_equal(within, deeper)
