"""Tests of adjacent moves: by hand, as properties of all actions, and against TVM."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from foretune.compiler.replay import candidate_trace_json, replay
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.space import SketchSpace
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target
from foretune.dataset.features.moves import ACTIONS, Action, AdjacentMoves, inverse
from hypothesis import given
from hypothesis import strategies as st
from support.drafts import matmul, matmul_trace, with_locations
from support.operators import EXAMPLES

NUMBER = {action: number for number, action in enumerate(ACTIONS)}


def space_of(i: int = 8, j: int = 16, k: int = 32) -> SketchSpace:
    return SketchSpace.from_traces([matmul_trace([i, 1, 1, 1], [j, 1, 1, 1], [k, 1])], matmul(i, j, k))


def after(action: Action, **decided: object) -> list[int]:
    """Values of the 8x16x32 product after an action."""
    space = space_of()
    values = [2, 1, 2, 2, 1, 2, 1, 8, 8, 4, 2]
    moved = AdjacentMoves(space).apply(space.choices(np.array([values])), np.array([NUMBER[action]]))
    return space.values(moved)[0].tolist()


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        # Axis 0 is the innermost, j; level 0 its innermost factor, 8: 8 * 1 has no larger divisor to give it.
        (Action("spatial", 0, grows=0, shrinks=2), [2, 1, 2, 2, 1, 1, 1, 16, 8, 4, 2]),
        (Action("spatial", 0, grows=3, shrinks=0), [2, 1, 2, 2, 2, 2, 1, 4, 8, 4, 2]),
        (Action("spatial", 1, grows=2, shrinks=1), [2, 2, 1, 2, 1, 2, 1, 8, 8, 4, 2]),
        (Action("reduction", 0, grows=0, shrinks=1), [2, 1, 2, 2, 1, 2, 1, 8, 4, 8, 2]),
        (Action("unroll", step=1), [2, 1, 2, 2, 1, 2, 1, 8, 8, 4, 3]),
        (Action("unroll", step=-1), [2, 1, 2, 2, 1, 2, 1, 8, 8, 4, 1]),
    ],
)
def test_moves_by_hand(action, expected):
    assert after(action) == expected


def test_a_factor_takes_its_next_divisor_not_twice_its_value():
    space = space_of(i=15, j=1, k=1)
    start = space.choices(np.array([[5, 1, 1, 3, 1, 1, 1, 1, 1, 1, 0]]))
    moved = AdjacentMoves(space).apply(start, np.array([NUMBER[Action("spatial", 1, grows=0, shrinks=3)]]))
    assert space.values(moved)[0, :4].tolist() == [3, 1, 1, 5]


def within(space: SketchSpace, number: int, keep) -> SketchSpace:
    """The space with only those values of a decision that `keep` accepts."""
    table = np.array([row for row in space.domains[number].tolist() if keep(row)])
    domains = [table if place == number else domain for place, domain in enumerate(space.domains)]
    return replace(space, domains=tuple(domains))


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        # The vector is 8 or 16 within: 2 x 8 may become 1 x 16, and 4 x 4 is passed on the way to nothing.
        (Action("spatial", 0, grows=0, shrinks=2), [1, 1, 1, 16]),
        (Action("spatial", 0, grows=2, shrinks=0), None),
        (Action("spatial", 0, grows=2, shrinks=3), None),
        # The outermost factor is free.
        (Action("spatial", 0, grows=3, shrinks=2), [2, 1, 1, 8]),
    ],
)
def test_a_move_leads_into_a_smaller_space(action, expected):
    space = space_of()
    smaller = within(space, 1, lambda row: row[1] == row[2] == 1 and row[3] >= 8)
    moves = AdjacentMoves(space, smaller)
    here = space.choices(np.array([[2, 1, 2, 2, 1, 2, 1, 8, 8, 4, 2]]))
    number = NUMBER[action]
    assert moves.legal(here)[0, number] == (expected is not None)
    if expected is not None:
        assert space.values(moves.apply(here, np.array([number])))[0, 4:8].tolist() == expected


def test_values_that_a_smaller_space_lacks_are_passed():
    space = space_of(i=49, j=1, k=1)
    smaller = within(space, 0, lambda row: 7 not in row[1:])
    start = space.choices(np.array([[49, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]]))
    number = np.array([NUMBER[Action("spatial", 1, grows=0, shrinks=3)]])
    assert space.values(AdjacentMoves(space).apply(start, number))[0, :4].tolist() == [7, 1, 1, 7]
    assert space.values(AdjacentMoves(space, smaller).apply(start, number))[0, :4].tolist() == [1, 1, 1, 49]
    unrolls = within(space, 3, lambda row: row[0] == 2)
    moves = AdjacentMoves(space, unrolls)
    up, down = (NUMBER[Action("unroll", step=step)] for step in (1, -1))
    assert moves.legal(start)[0, [up, down]].tolist() == [True, False]
    assert space.values(moves.apply(start, np.array([up])))[0, -1] == 2


def test_what_a_candidate_cannot_do_is_not_legal():
    space = space_of()
    moves = AdjacentMoves(space)
    start = space.choices(np.array([[2, 1, 2, 2, 16, 1, 1, 1, 8, 4, 3]]))
    legal = moves.legal(start)[0]
    assert not legal[NUMBER[Action("unroll", step=1)]]  # the last of its values
    assert not legal[NUMBER[Action("spatial", 0, grows=0, shrinks=1)]]  # both factors are 1
    assert legal[NUMBER[Action("spatial", 0, grows=0, shrinks=3)]]
    assert not legal[NUMBER[Action("spatial", 2, grows=0, shrinks=3)]]  # there is no third spatial axis
    with pytest.raises(ValueError, match=r"candidate 0 cannot take the action unroll 0: \+1"):
        moves.apply(start, np.array([NUMBER[Action("unroll", step=1)]]))


def test_the_innermost_factor_stays_within_its_bound():
    space = space_of(i=128, j=1, k=1)
    start = space.choices(np.array([[2, 1, 1, 64, 1, 1, 1, 1, 1, 1, 0]]))
    assert not AdjacentMoves(space).legal(start)[0, NUMBER[Action("spatial", 1, grows=0, shrinks=3)]]


def test_an_input_moves_to_the_next_location_that_tvm_accepts():
    # S0 i, S0 j, S1 i, S1 j, R0 k, ...: extents 2, 1, 1, 2, 8: locations 0 and 3 are loops of several
    # iterations outside of the reduction, 4 is the reduction; 1 and 2 are passed over.
    sketch, values = with_locations(0)
    domain = np.arange(-2, len(sketch.loop_starts) - 1)[:, None]
    plain = space_of()
    space = replace(plain, sketch=sketch, domains=(*plain.domains, domain))
    moves, here = AdjacentMoves(space), space.choices(values)
    inwards, outwards = (np.array([NUMBER[Action("location", step=step)]]) for step in (1, -1))
    seen = []
    for _ in range(2):
        here = moves.apply(here, inwards)
        seen.append(int(space.values(here)[0, -1]))
    assert seen == [3, 4]
    back = moves.apply(moves.apply(here, outwards), outwards)
    assert int(space.values(back)[0, -1]) == 0
    assert int(space.values(moves.apply(back, outwards))[0, -1]) == -1  # before all loops


@given(st.integers(1, 96), st.integers(1, 60), st.integers(1, 48), st.integers(0, 2**31))
def test_every_action_changes_one_decision_and_its_inverse_returns(i, j, k, seed):
    space = space_of(i, j, k)
    moves = AdjacentMoves(space)
    (start,) = space.sample(1, np.random.default_rng(seed))[None]
    actions = np.flatnonzero(moves.legal(start)[0])
    rows = np.repeat(start, len(actions), axis=0)
    moved = moves.apply(rows, actions)
    assert ((moved != rows).sum(axis=1) == 1).all()
    values = space.values(moved)
    assert (values[:, :4].prod(axis=1) == i).all() and (values[:, 4:8].prod(axis=1) == j).all()
    assert len({tuple(row) for row in moved.tolist()}) == len(actions)
    back = moves.apply(moved, np.array([inverse(int(action)) for action in actions], dtype=np.int64))
    np.testing.assert_array_equal(back, rows)


def test_every_candidate_can_be_reached():
    space = space_of(4, 6, 2)
    moves = AdjacentMoves(space)
    waiting = space.sample(1, np.random.default_rng(0)).tolist()
    found = {tuple(row) for row in waiting}
    while waiting:
        here = np.array([waiting.pop()], dtype=np.int32)
        actions = np.flatnonzero(moves.legal(here)[0])
        reached = moves.apply(np.repeat(here, len(actions), axis=0), actions).tolist()
        waiting += [row for row in reached if tuple(row) not in found]
        found |= {tuple(row) for row in reached}
    assert len(found) == space.size


@pytest.mark.parametrize("operator", ["conv2d", "depthwise_conv2d", "dense", "conv2d_transpose", "softmax"])
def test_every_action_makes_a_program_of_the_same_instructions(operator):
    module = as_task_module(EXAMPLES[operator].prim_func())
    context = make_tune_context(module, parse_target({"kind": "llvm", "num-cores": 2}), seed=0)
    rng = np.random.default_rng(0)
    taken = set()
    for space in read_spaces(context, read_structure(module), operator)[:3]:
        moves = AdjacentMoves(space)
        start = space.canonical(space.sample(1, rng))
        actions = rng.permutation(np.flatnonzero(moves.legal(start)[0]))[:12]
        moved = space.canonical(moves.apply(np.repeat(start, len(actions), axis=0), actions))
        for trace in space.traces(moved):
            candidate = replay(context, trace)
            assert candidate is not None
            made = json.loads(candidate_trace_json(candidate))
            assert made[0] == json.loads(space.sketch.instructions)
        taken |= {ACTIONS[int(action)].primitive for action in actions}
    assert {"unroll"} < taken or operator == "softmax"


def test_a_gpu_has_actions_for_its_deeper_tiles_and_copies():
    module = as_task_module(EXAMPLES["dense"].prim_func())
    context = make_tune_context(module, parse_target("nvidia/nvidia-a100"), seed=0)
    (space,) = [s for s in read_spaces(context, read_structure(module), "dense") if s.sketch.structure][:1]
    named = {ACTIONS[number].name for number in AdjacentMoves(space).actions}
    assert {"spatial 0: 4 to 0", "reduction 0: 2 to 0", "categorical 1: +1", "unroll 0: -1"} <= named
