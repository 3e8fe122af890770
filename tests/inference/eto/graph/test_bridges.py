"""Bridge operators of pairs that cannot reuse each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from foretune.compiler.operators import Dense, Softmax, to_task
from foretune.compiler.structure.read_structure import read_structure
from foretune.inference.eto.graph.bridges import all_bridges, bridge_task, one_hop_bridges


def dominated(first, second):
    pairs = list(zip(first, second, strict=True))
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)


def smaller(first, second):
    extents = tuple(map(min, first, second))
    return str(extents), extents


def bridges(operators, bridge=smaller):
    return one_hop_bridges(operators, kind=len, can_reuse=dominated, bridge=bridge)


def test_pairs_without_reuse_get_the_smaller_extents():
    # (4, 8) and (8, 4) have no reuse, nor have (8, 4) and (6, 6); (4, 8) and (6, 6) have none either.
    operators = {"a": (4, 8), "b": (8, 4), "c": (6, 6), "d": (8, 8)}
    assert bridges(operators) == {"(4, 4)": (4, 4), "(4, 6)": (4, 6), "(6, 4)": (6, 4)}


def test_a_bridge_that_is_there_or_is_shared_is_no_further_one():
    assert bridges({"a": (4, 8), "b": (8, 4), "(4, 4)": (4, 4)}) == {}
    # (1, 3, 3) serves (1, 5, 3) with (1, 3, 5), and with (1, 3, 4).
    shared = bridges({"a": (1, 5, 3), "b": (1, 3, 5), "c": (1, 3, 4)})
    assert shared == {"(1, 3, 3)": (1, 3, 3)}


def test_bridges_of_bridges_are_added_until_none_is_new():
    # (1, 4, 2) of a and b, (4, 1, 2) of a and c, (1, 2, 3) of b and c; then (1, 1, 2) of the first two, ...
    operators = {"a": (4, 4, 2), "b": (1, 8, 3), "c": (8, 2, 4)}
    one_hop = bridges(operators)
    assert set(one_hop) == {"(1, 4, 2)", "(4, 2, 2)", "(1, 2, 3)"}
    every = all_bridges(operators, kind=len, can_reuse=dominated, bridge=smaller)
    assert set(every) == {*one_hop, "(1, 2, 2)"}
    # Nothing is left: the closure has no bridge of its own.
    assert bridges({**operators, **every}) == {}


def test_operators_of_two_kinds_and_pairs_without_a_bridge_have_none():
    assert bridges({"a": (4, 8), "b": (8, 4, 1)}) == {}
    assert bridges({"a": (4, 8), "b": (8, 4)}, bridge=lambda first, second: None) == {}


FIRST = to_task(Dense(rows=4, in_features=16, out_features=8))
SECOND = to_task(Dense(rows=8, in_features=4, out_features=8))


def test_a_bridge_is_a_task_outside_the_network():
    bridge = bridge_task(FIRST, SECOND, lambda task: True)
    assert bridge.weight == 0
    assert bridge.name == "bridge_dense_4x4x8"
    assert read_structure(bridge.mod).anchor.extents == (4, 8, 4)


def test_the_epilogue_is_the_one_with_the_same_sketches():
    # A network's task does not tell its epilogue.
    settings = {name: value for name, value in FIRST.settings.items() if name != "epilogue"}
    network = replace(FIRST, settings=settings)
    tried = []

    def is_alike(task):
        tried.append(task.settings["epilogue"])
        return task.settings["epilogue"] == "bias_relu"

    assert bridge_task(network, SECOND, is_alike).settings["epilogue"] == "bias_relu"
    assert tried == ["none", "bias", "bias_relu"]


@pytest.mark.parametrize(
    "other",
    [
        to_task(Softmax(rows=4, columns=4)),
        replace(SECOND, settings={"arguments": []}),
        replace(SECOND, operator="other", settings={}),
    ],
    ids=["another type", "arguments alone", "no operator"],
)
def test_tasks_that_settings_cannot_mix_have_no_bridge(other):
    assert bridge_task(FIRST, other, lambda task: True) is None
    assert bridge_task(other, FIRST, lambda task: True) is None


def test_a_bridge_with_other_sketches_is_none():
    assert bridge_task(FIRST, SECOND, lambda task: False) is None
