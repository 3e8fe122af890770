"""Families by static analysis: the paper's three groupings, one of ours, and the two ends."""

from __future__ import annotations

import pytest
from foretune.compiler.operators import Dense, Pool2d, Softmax, to_task
from foretune.inference.families.registry import GROUPINGS, check_grouping, families, family_of
from foretune.inference.search.config import OneShotConfigError

DENSE = to_task(Dense(rows=8, in_features=8, out_features=8))
LARGER = to_task(Dense(rows=16, in_features=64, out_features=32))
BIASED = to_task(Dense(rows=8, in_features=8, out_features=8, epilogue="bias_relu"))
OTHERS = [to_task(Softmax.examples()[0]), to_task(Pool2d.examples()[0])]


@pytest.mark.parametrize(
    ("grouping", "sizes"),
    [
        ("operator_count", {"1 operator": 2, "3 operators": 1}),
        ("core_operator", {"dense": 3}),
        ("operator_sequence", {"dense": 2, "dense > add > max": 1}),
        ("one", {"all tasks": 3}),
    ],
)
def test_the_groupings_of_the_paper(grouping, sizes):
    found = families([DENSE, LARGER, BIASED], grouping)
    assert {name: len(tasks) for name, tasks in found.items()} == sizes


def test_loop_nests_are_of_one_family_whatever_their_extents_and_epilogues():
    assert len(families([DENSE, LARGER, BIASED], "loop_nest")) == 1
    one_row = to_task(Dense(rows=1, in_features=8, out_features=8))
    assert family_of(DENSE, "loop_nest") != family_of(one_row, "loop_nest")


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_grouping_takes_every_operator(grouping):
    for task in (DENSE, BIASED, *OTHERS):
        assert family_of(task, grouping)


def test_each_task_may_be_a_family_of_its_own():
    assert all(len(tasks) == 1 for tasks in families([DENSE, LARGER, BIASED], "each").values())


def test_an_unknown_grouping_is_named():
    with pytest.raises(OneShotConfigError, match=r"families=colour: unknown; use one of operator_count"):
        check_grouping("colour")
