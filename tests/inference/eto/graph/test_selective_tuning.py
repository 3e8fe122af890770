"""Selective Tuning: similarity of search spaces, clusters of tasks."""

from __future__ import annotations

import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.space import SketchSpace
from foretune.inference.eto.graph.selective_tuning import selective_tuning, similarity, steps_of
from foretune.inference.reuse.tree import ROOT
from hypothesis import given
from hypothesis import strategies as st


def steps(*values):
    return frozenset((value,) for value in values)


def test_similarity_is_the_share_of_common_candidates():
    # 2 * 3 = 6 and 3 * 3 = 9 candidates, of which 1 * 2 = 2 are the same: 2 / 13.
    first = {"sketch": [steps(1, 2), steps(1, 2, 3)]}
    second = {"sketch": [steps(2, 3, 4), steps(2, 3, 5)]}
    assert similarity(first, second) == pytest.approx(2 / 13)


def test_only_common_sketches_count():
    first = {"tiled": [steps(1, 2)], "plain": [steps(1)]}
    second = {"tiled": [steps(1, 2)], "fused": [steps(1)]}
    assert similarity(first, second) == pytest.approx(2 / 4)
    assert similarity({"tiled": [steps(1)]}, {"tiled": [steps(1), steps(1)]}) == 0
    assert similarity({}, {}) == 0


values = st.frozensets(st.tuples(st.integers(0, 4)), min_size=1)
spaces = st.dictionaries(st.sampled_from("ab"), st.lists(values, min_size=2, max_size=2), min_size=1)


@given(spaces, spaces)
def test_similarity_is_symmetric_and_one_for_equal_spaces_alone(first, second):
    assert similarity(first, second) == similarity(second, first)
    assert 0 <= similarity(first, second) <= 1
    assert (similarity(first, second) == 1) == (first == second)


def test_tiles_of_two_extents_have_steps_in_common():
    # A tile of two factors: the inner one divides 4, or 6. Both have 1 and 2.
    trace = [
        [
            ["GetSBlock", [], ["matmul", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
            ["SamplePerfectTile", ["l1"], [2, 64], ["v4", "v5"]],
        ],
        [[2, [1, 4]]],
    ]

    def inner(rows):
        structure = read_structure(to_task(Dense(rows=rows, in_features=2, out_features=2)).mod)
        decided = [trace[0], [[2, [1, rows]]]]
        return steps_of(SketchSpace.from_traces([decided], structure))

    assert inner(4) == [steps(1, 2, 4)]
    assert inner(6) == [steps(1, 2, 3, 6)]
    assert similarity({"s": inner(4)}, {"s": inner(6)}) == pytest.approx(2 / 5)


def likeness_of(values):
    pairs = {frozenset(pair): value for pair, value in values.items()}
    return lambda first, second: pairs.get(frozenset((first, second)), 0.0)


def test_the_task_most_like_the_others_is_searched():
    likeness = likeness_of({"ab": 0.2, "bc": 0.3, "ac": 0.1})
    assert selective_tuning("cab", likeness) == {"a": "b", "b": ROOT, "c": "b"}


def test_a_task_joins_the_clique_that_it_is_most_like():
    # Cliques {a, b} and {b, c, d}: b has 0.5 to the first, 0.3 + 0.3 to the second.
    likeness = likeness_of({"ab": 0.5, "bc": 0.3, "bd": 0.3, "cd": 0.2})
    assert selective_tuning("abcd", likeness) == {"a": ROOT, "b": ROOT, "c": "b", "d": "b"}


def test_tasks_below_the_threshold_are_searched_apart():
    assert selective_tuning("ab", likeness_of({"ab": 0.01})) == {"a": ROOT, "b": "a"}
    assert selective_tuning("ab", likeness_of({"ab": 0.009})) == {"a": ROOT, "b": ROOT}
    assert selective_tuning("ab", likeness_of({"ab": 0.009}), threshold=0.005) == {"a": ROOT, "b": "a"}
    assert selective_tuning("", likeness_of({})) == {}
