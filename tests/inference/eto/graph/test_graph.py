"""The optimisation-choice graph and its minimum-cost arborescence."""

from __future__ import annotations

import math

import pytest
from foretune.inference.eto.graph.graph import COST, ReuseGraphError, choice_graph, minimum_arborescence
from foretune.inference.reuse.tree import ROOT
from hypothesis import assume, given
from hypothesis import strategies as st
from support.reuse_graphs import choice_costs, graph_of, least_cost

TOLERANCE = 1e-4  # costs count in millionths


def test_the_graph_has_a_search_of_each_operator_and_each_reuse_pair():
    # Operators are numbers; the smaller may reuse the larger for their difference, 9 may reuse none.
    graph = choice_graph(
        {"a": 1, "b": 4, "c": 9},
        can_reuse=lambda parent, child: parent > child and parent != 9,
        search_cost=lambda operator: 10.0 * operator,
        reuse_cost=lambda parent, child: parent - child,
    )
    assert {(u, v): cost for u, v, cost in graph.edges(data=COST)} == {
        (ROOT, "a"): 10,
        (ROOT, "b"): 40,
        (ROOT, "c"): 90,
        ("b", "a"): 3,
    }


def test_a_pair_of_infinite_cost_is_no_choice():
    graph = choice_graph(
        {"a": 1, "b": 2},
        can_reuse=lambda parent, child: True,
        search_cost=lambda operator: 1.0,
        reuse_cost=lambda parent, child: math.inf if parent == 1 else 0.5,
    )
    assert set(graph.edges) == {(ROOT, "a"), (ROOT, "b"), ("b", "a")}


@pytest.mark.parametrize("cost", [math.nan, -1.0, math.inf])
def test_a_search_whose_cost_is_no_number_is_refused(cost):
    with pytest.raises(ReuseGraphError, match=r"backend's search of a (is|costs)"):
        choice_graph(
            {"a": 1},
            can_reuse=lambda parent, child: False,
            search_cost=lambda operator: cost,
            reuse_cost=lambda parent, child: 1.0,
        )


def test_the_cheapest_arborescence_is_no_greedy_choice():
    # Each of a and b is cheapest from the other, which leaves both without a beginning.
    costs = {(ROOT, "a"): 10, (ROOT, "b"): 8, (ROOT, "c"): 6, ("a", "b"): 1, ("b", "a"): 2, ("b", "c"): 5}
    tree = minimum_arborescence(graph_of(costs))
    # From b: 8 + 2 + 5 = 15; from a: 10 + 1 + 5 = 16.
    assert tree.parents == {"a": "b", "b": ROOT, "c": "b"}
    assert tree.costs == {"a": 2, "b": 8, "c": 5}


def test_of_equal_costs_the_backend_comes_first_and_then_the_first_parent():
    costs = {(ROOT, "a"): 1, (ROOT, "b"): 1, (ROOT, "c"): 3, ("a", "b"): 1, ("b", "c"): 2, ("a", "c"): 2}
    assert minimum_arborescence(graph_of(costs)).parents == {"a": ROOT, "b": ROOT, "c": "a"}


def test_an_operator_that_no_edge_reaches_is_named():
    with pytest.raises(ReuseGraphError, match="no edges lead from the root to b, c;"):
        minimum_arborescence(graph_of({(ROOT, "a"): 1, ("b", "c"): 1, ("c", "b"): 1}))


def test_a_root_with_one_edge_begins_a_long_way():
    # Without the dear edge from the root, the others nearly span the operators from s.
    costs = {
        (ROOT, "t"): 1,
        ("t", "a"): 0,
        ("a", "b"): 0,
        ("a", "s"): 1,
        ("s", "a"): 0,
        ("s", "c"): 0,
        ("c", "t"): 0,
    }
    assert minimum_arborescence(graph_of(costs)).parents == {
        "t": ROOT,
        "a": "t",
        "b": "a",
        "s": "a",
        "c": "s",
    }


def test_a_graph_of_the_root_alone_has_an_empty_tree():
    assert minimum_arborescence(graph_of({})).parents == {}


@pytest.mark.parametrize("rooted", [True, False])
def test_no_tree_costs_less(rooted):
    @given(choice_costs("abcd", rooted=rooted))
    def check(costs):
        best = least_cost(costs, "abcd")
        assume(best < math.inf)
        tree = minimum_arborescence(graph_of(costs))
        assert set(tree.parents) == {"a", "b", "c", "d"}
        assert tree.cost == pytest.approx(best, abs=TOLERANCE)

    check()


@given(choice_costs(("a", "b", "c", "d")), st.randoms(use_true_random=False))
def test_the_order_of_the_edges_changes_nothing(costs, random):
    shuffled = list(costs.items())
    random.shuffle(shuffled)
    assert minimum_arborescence(graph_of(dict(shuffled))) == minimum_arborescence(graph_of(costs))
