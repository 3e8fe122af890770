"""Directed Steiner trees by Greedy_FLAC, against trees worked by hand and against the best by trying all."""

from __future__ import annotations

import pytest
from foretune.inference.eto.graph.graph import COST, ReuseGraphError, minimum_arborescence
from foretune.inference.eto.graph.least_cost import greedy_flac, steiner_tree
from foretune.inference.reuse.tree import ROOT
from hypothesis import assume, given, settings
from support.reuse_graphs import choice_costs, graph_of, least_cost

TOLERANCE = 1e-4  # costs count in millionths


def star(bridge):
    """Terminals a, b, c at a cost of 3 from the root, or of 1 from the bridge s, which costs `bridge`."""
    return graph_of(
        {(ROOT, "s"): bridge} | {(ROOT, name): 3 for name in "abc"} | {("s", name): 1 for name in "abc"}
    )


def test_a_bridge_that_pays_is_taken():
    # Arcs from s are full at 1. Then three waters fill the arc into s: full at 1 + 4/3, before those of 3.
    assert greedy_flac(star(4), "abc") == {(ROOT, "s"), ("s", "a"), ("s", "b"), ("s", "c")}
    assert steiner_tree(star(4), "abc").parents == {"s": ROOT, "a": "s", "b": "s", "c": "s"}
    assert steiner_tree(star(4), "abc").cost == 7


def test_a_bridge_that_does_not_pay_is_left_out():
    # The arc into s would be full at 1 + 7/3, after those of 3 from the root.
    assert greedy_flac(star(7), "abc") == {(ROOT, "a"), (ROOT, "b"), (ROOT, "c")}
    assert steiner_tree(star(7), "abc").parents == {"a": ROOT, "b": ROOT, "c": ROOT}


def test_later_trees_use_earlier_ones_for_free():
    # Water of b fills (s, b) at 1 and (root, s) at 5; that of c reaches s at 6 only. With b's tree free, c
    # takes the path of 6 from s and not that of 8 from the root.
    graph = graph_of({(ROOT, "s"): 4, ("s", "b"): 1, ("s", "c"): 6, (ROOT, "c"): 8, (ROOT, "b"): 9})
    assert greedy_flac(graph, "bc") == {(ROOT, "s"), ("s", "b"), ("s", "c")}


def test_a_terminal_is_reached_once():
    # Both ways from u to t would be full; the second one is left out.
    costs = {(ROOT, "u"): 1, ("u", "a"): 1, ("u", "b"): 1, ("a", "t"): 1, ("b", "t"): 1}
    assert greedy_flac(graph_of(costs), "t") == {(ROOT, "u"), ("u", "a"), ("a", "t")}


def test_terminals_may_be_on_the_way_to_others():
    costs = {(ROOT, "a"): 5, ("a", "b"): 1, ("b", "c"): 1, (ROOT, "b"): 9, (ROOT, "c"): 9}
    assert steiner_tree(graph_of(costs), "abc").parents == {"a": ROOT, "b": "a", "c": "b"}


def test_the_bridges_of_figure_6_lower_the_cost():
    """Two operators that cannot reuse each other, and a small one that both can reuse (ETO, Figure 6)."""
    costs = {(ROOT, "5"): 1000, (ROOT, "6"): 1000}
    alone = minimum_arborescence(graph_of(costs)).cost
    bridged = {(ROOT, "b"): 1000, ("b", "5"): 100, ("b", "6"): 150, ("5", "b"): 40, ("6", "b"): 30}
    tree = steiner_tree(graph_of(costs | bridged), "56")
    # 6 by the backend, the bridge from 6, 5 from the bridge: 1000 + 30 + 100.
    assert tree.parents == {"6": ROOT, "b": "6", "5": "b"}
    assert (alone, tree.cost) == (2000, 1130)


def test_a_terminal_that_no_edge_reaches_is_named():
    with pytest.raises(ReuseGraphError, match="no edges lead from the root to b"):
        steiner_tree(graph_of({(ROOT, "a"): 1, ("b", "a"): 1}), "ab")


def test_no_terminals_need_no_tree():
    assert steiner_tree(star(4), "").parents == {}


@pytest.mark.parametrize("rooted", [True, False])
@pytest.mark.parametrize("terminals", ["a", "ab", "abc"])
def test_trees_are_valid_and_within_the_bound(terminals, rooted):
    @settings(max_examples=40)
    @given(choice_costs(terminals, ("s", "t"), rooted=rooted))
    def check(costs):
        best = least_cost(costs, terminals, ("s", "t"))
        assume(best < float("inf"))
        graph = graph_of(costs)
        arcs = greedy_flac(graph, terminals)
        greedy = sum(graph.edges[arc][COST] for arc in arcs)
        tree = steiner_tree(graph, terminals)
        assert set(terminals) <= set(tree.parents)
        assert all((parent, child) in costs for child, parent in tree.parents.items())
        # A vertex that is no terminal has a child.
        assert set(tree.parents) - set(terminals) <= set(tree.parents.values())
        assert best - TOLERANCE <= tree.cost <= greedy + TOLERANCE
        assert greedy <= len(terminals) * best + TOLERANCE

    check()


@given(choice_costs(("a", "b", "c", "d")))
def test_without_bridges_the_tree_is_the_arborescence(costs):
    graph = graph_of(costs)
    assert steiner_tree(graph, "abcd") == minimum_arborescence(graph)
