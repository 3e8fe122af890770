"""Selection of the tree of least cost, with bridges, and again once sketches are known."""

from __future__ import annotations

import pytest
from foretune.inference.eto.graph.least_cost import LeastCostSelection
from foretune.inference.reuse.selection import GivenSelection
from foretune.inference.reuse.tree import ROOT, ReuseTree

SEARCH = 1000.0


def dominated(first, second):
    pairs = list(zip(first, second, strict=True))
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)


def selection_of(operators, bridges=None, reuse_cost=lambda parent, child, sketch: 100.0, **options):
    return LeastCostSelection(
        operators,
        bridges or {},
        kind=len,
        can_reuse=lambda first, second: len(first) == len(second) and dominated(first, second),
        search_cost=lambda operator: SEARCH,
        reuse_cost=reuse_cost,
        **options,
    )


def test_a_given_tree_stays():
    tree = ReuseTree({"a": ROOT}, {"a": 1.0})
    assert GivenSelection(tree).tree({"b": "a"}, {"a": "tiled"}) is tree


def test_bridges_are_used_where_they_pay():
    operators, bridge = {"a": (4, 8), "b": (8, 4)}, {"x": (4, 4)}
    tree = selection_of(operators, bridge).tree({}, {})
    assert tree.cost == SEARCH + 200
    assert set(tree.parents) == {"a", "b", "x"}
    without = selection_of(operators).tree({}, {})
    assert without.parents == {"a": ROOT, "b": ROOT}
    dear = selection_of(operators, bridge, lambda parent, child, sketch: 600.0).tree({}, {})
    assert dear.parents == {"a": ROOT, "b": ROOT}


def test_what_has_begun_stays_and_costs_nothing_more():
    operators = {"a": (2, 2), "b": (4, 4), "c": (8, 8)}
    tree = selection_of(operators).tree({"c": ROOT, "a": ROOT}, {})
    assert tree.parents["c"] == tree.parents["a"] == ROOT
    assert tree.costs == {"a": 0.0, "b": 100.0, "c": 0.0}


def test_a_bridge_that_has_begun_stays_in_the_tree():
    selection = selection_of({"a": (4, 8)}, {"x": (4, 4)})
    assert "x" in selection.tree({"x": ROOT}, {}).parents


def test_an_observed_sketch_of_a_kind_selects_again():
    # With an unknown sketch, reuse may cost more than a search; with "flat" it costs little.
    asked = []

    def cost(parent, child, sketch):
        asked.append((parent, child, sketch))
        return 50.0 if sketch == "flat" else 2 * SEARCH

    operators = {"a": (2, 2), "b": (4, 4), "c": (4,), "d": (8,)}
    selection = selection_of(operators, reuse_cost=cost)
    first = selection.tree({}, {})
    assert set(first.parents.values()) == {ROOT}
    assert selection.tree({"a": ROOT}, {}) is first  # nothing new
    again = selection.tree({"a": ROOT}, {"a": "flat"})
    assert again.parents == {"a": ROOT, "b": "a", "c": ROOT, "d": ROOT}
    assert again.cost == pytest.approx(50 + 2 * SEARCH)
    # Only pairs of that kind are estimated with it.
    assert [pair for *pair, sketch in asked if sketch == "flat"] == [[(2, 2), (4, 4)], [(4, 4), (2, 2)]]
    # The first sketch of a kind counts.
    assert selection.tree({"a": ROOT, "b": "a"}, {"a": "flat", "b": "deep"}) is again


def test_sketches_of_tasks_outside_the_selection_are_passed_over():
    selection = selection_of({"a": (2, 2)})
    assert selection.tree({"z": ROOT}, {"z": "flat"}) is selection.tree({}, {})
