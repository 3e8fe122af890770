"""Reuse relationships as a tree."""

from __future__ import annotations

import pytest
from foretune.errors import UserError
from foretune.inference.reuse.tree import ROOT, ReuseTree, ReuseTreeError, left_tree, without_cycles

# Figure 4 of ETO: the backend tunes 1 and 2; 3 reuses 1, 4 reuses 3, 5 reuses 2.
FIGURE_4 = ReuseTree(
    {"1": ROOT, "2": ROOT, "3": "1", "4": "3", "5": "2"},
    {"1": 1000.0, "2": 1000.0, "3": 100.0, "4": 50.0, "5": 25.0},
)


def test_a_tree_says_who_is_searched_and_who_reuses_whom():
    assert FIGURE_4.searched == ["1", "2"]
    assert FIGURE_4.children("1") == ["3"]
    assert FIGURE_4.descendants("1") == ["3", "4"]
    assert FIGURE_4.descendants("4") == []
    assert FIGURE_4.cost == 2175.0


def test_operators_follow_their_parents():
    assert list(FIGURE_4.in_order()) == [("1", 0), ("3", 1), ("4", 2), ("2", 0), ("5", 1)]


def test_operators_that_wait_for_each_other_are_named():
    with pytest.raises(ReuseTreeError, match="b reuses c reuses b: none of them can be first"):
        ReuseTree({"a": "b", "b": "c", "c": "b"}, {})


def test_a_parent_outside_the_tree_is_named():
    with pytest.raises(ReuseTreeError, match="a reuses b, which is no operator of the tree"):
        ReuseTree({"a": "b"}, {})


def test_the_root_has_no_parent():
    with pytest.raises(ReuseTreeError, match="the root has a parent"):
        ReuseTree({ROOT: "a", "a": ROOT}, {})


def test_a_tree_that_cannot_be_is_an_error_of_the_user():
    with pytest.raises(UserError):
        ReuseTree({"a": "a"}, {})


def test_of_a_circle_one_operator_is_searched():
    parents = {"a": "b", "b": "c", "c": "a", "d": "a", "e": "f", "f": "e", "g": "outside"}
    # a and b are of an earlier run, so that c gives way; of two that are, the first one does.
    found = without_cycles(parents, {"a", "b", "e", "f"})
    assert found == {**parents, "c": ROOT, "e": ROOT}
    assert without_cycles(FIGURE_4.parents, ()) == FIGURE_4.parents


def test_the_first_child_takes_the_place_of_an_operator_that_is_not_searched() -> None:
    parents = {"a": ROOT, "b": "a", "c": "b", "d": "a", "e": "d", "f": ROOT}
    assert left_tree(parents, ()) == parents
    assert left_tree(parents, {"b"}) == {**parents, "c": "a"}
    # Of the children of a, b is the first: it is searched, and d follows it.
    assert left_tree(parents, {"a"}) == {**parents, "b": ROOT, "d": "b"}
    assert left_tree(parents, {"a", "b"}) == {**parents, "b": "c", "c": ROOT, "d": "c"}
