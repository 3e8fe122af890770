"""The tree of nearest neighbours: who is searched, and whom the others reuse."""

from __future__ import annotations

import itertools
import math

import networkx as nx
from foretune.inference.reuse.auto import nearest_neighbours
from foretune.inference.reuse.similarity import Loops
from foretune.inference.reuse.tree import ROOT
from hypothesis import given
from hypothesis import strategies as st


def conv(*extents, kind="conv", steps=(1,)):
    return Loops(kind, extents, steps)


def test_a_chain_of_halves_is_reused_step_by_step():
    loops = {"a": conv(64, 8), "b": conv(8, 64), "c": conv(32, 16), "d": conv(16, 32)}
    tree = nearest_neighbours("abcd", loops)
    assert tree.parents == {"a": ROOT, "c": "a", "d": "c", "b": "d"}


def test_each_kind_has_a_source_and_tasks_without_loops_are_alone():
    loops = {"a": conv(8), "b": conv(8, kind="dense"), "c": conv(16), "d": None}
    assert nearest_neighbours("abcd", loops).parents == {"a": ROOT, "b": ROOT, "c": "a", "d": ROOT}


def test_of_equal_distances_the_first_task_joins_the_first():
    loops = {"a": conv(8), "b": conv(8), "c": conv(8), "d": conv(8, steps=(2,))}
    assert nearest_neighbours("abcd", loops).parents == {"a": ROOT, "b": "a", "c": "a", "d": "a"}


def test_a_tuned_task_of_the_kind_leaves_none_to_search():
    loops = {"a": conv(8), "b": conv(64), "c": conv(1, kind="dense"), "t": conv(32), "u": conv(4)}
    tree = nearest_neighbours("abc", loops, "tu")
    # 8 is nearer to 4 than to 32, and 64 to 32; the other kind is searched.
    assert tree.parents == {"t": ROOT, "u": ROOT, "a": "u", "b": "t", "c": ROOT}


def test_a_task_that_is_tuned_at_another_size_takes_that_one():
    loops = {"a": conv(4, 8, 64), "b": conv(4, 8, 64), "t": conv(1, 8, 64)}
    # a and b are the same loops, and nearer to each other than to t.
    assert nearest_neighbours("ab", loops, "t").parents == {"t": ROOT, "a": "t", "b": "t"}
    loops |= {"u": conv(4, 16, 32), "v": conv(2, 8, 64)}
    assert nearest_neighbours("a", loops, "ut").parents["a"] == "t"  # u is as near, but another layer
    assert nearest_neighbours("a", loops, "utv").parents["a"] == "v"
    assert nearest_neighbours("ab", {**loops, "b": conv(5, 8, 63)}, "t").parents["b"] == "a"


def test_no_task_has_no_tree():
    assert nearest_neighbours("", {}).parents == {}


@given(st.lists(st.tuples(st.integers(1, 512), st.integers(1, 512)), min_size=1, max_size=8))
def test_the_distances_of_a_kind_add_up_to_those_of_a_minimum_spanning_tree(extents):
    loops = {str(number): conv(*each) for number, each in enumerate(extents)}
    graph = nx.Graph()
    graph.add_nodes_from(loops)
    for one, other in itertools.combinations(loops, 2):
        graph.add_edge(one, other, weight=loops[one].distance(loops[other]))
    least = nx.minimum_spanning_tree(graph).size("weight")
    parents = nearest_neighbours(list(loops), loops).parents
    assert [name for name, parent in parents.items() if parent == ROOT] == ["0"]
    taken = sum(loops[a].distance(loops[b]) for a, b in parents.items() if b != ROOT)
    assert math.isclose(taken, least, abs_tol=1e-9)
