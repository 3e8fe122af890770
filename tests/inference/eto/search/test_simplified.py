"""Simplified searches of sketches without multi-level tiling, on TVM's own sketches."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.operators import OPERATOR_SETTINGS, Softmax, to_task
from foretune.compiler.replay import replay
from foretune.inference.eto.search.simplified import CROSS_THREAD, TILE, TWO_LEVEL, sub_sketches
from support.reuse import context_of, spaces_of
from support.reuse_search import driven, random_parent, search_of, target_of

WIDE, WIDER = (to_task(Softmax(rows=512, columns=columns)) for columns in (256, 1024))


def kinds(task, name):
    return [[sub.kind for sub in sub_sketches(space.sketch)] for space in spaces_of(task, name)]


def value(space, row, sub):
    decision = space.sketch.decisions[sub.decision]
    return decision.values[row[decision.column]]


def test_sub_sketches_of_softmax_are_cross_thread_reductions_and_two_level_tiles():
    found = kinds(WIDE, "cuda")
    assert any(set(of) == {CROSS_THREAD} for of in found)
    assert {kind for of in found for kind in of} <= {CROSS_THREAD, TWO_LEVEL}


def test_split_reductions_of_a_cpu_are_tiles():
    assert {kind for of in kinds(WIDE, "llvm") for kind in of} == {TILE}


def test_threads_of_a_reduction_stay_within_the_range_of_t():
    """Columns are 4 times as many: T of the child is 1 to 4 times that of the parent's program."""
    number = next(n for n, of in enumerate(kinds(WIDE, "cuda")) if of == [CROSS_THREAD])
    parent = random_parent(WIDE, "cuda", sketch=number)
    found = search_of(WIDER, parent)
    steps, _ = driven(found.search, lambda row: float(sum(row)))
    (sub,) = sub_sketches(found.space.sketch)
    known = spaces_of(WIDE)[number].sketch
    (before,) = sub_sketches(known)
    theirs = known.values_in(parent.trace)
    threads = known.decisions[before.decision].values[theirs[known.decisions[before.decision].column]]
    # The first step is the adapted program, the second one the threads, the last one unrolling.
    tried = {value(found.space, row, sub) for row in steps[1]}
    possible = found.space.sketch.decisions[sub.decision].values
    assert tried == {n for n in possible if threads <= n <= 4 * threads}
    assert {value(found.space, row, sub) for row in steps[-1]} <= tried
    assert len(steps[-1]) == 8  # unrolling pragmas of CUDA


@pytest.mark.parametrize("name", ["cuda", "llvm"])
@pytest.mark.parametrize("operator", ["softmax", "frobenius_norm", "layer_norm", "conv2d_winograd"])
def test_composite_sketches_give_valid_programs(operator, name):
    task = to_task(OPERATOR_SETTINGS[operator].examples()[0])
    parent = random_parent(task, name)
    found = search_of(task, parent, name)
    steps, best = driven(found.search, lambda row: float(sum(row)))
    rows = list(dict.fromkeys(row for step in steps for row in step))
    traces = found.space.traces(found.space.choices(np.array(rows)))
    context = context_of(task, target_of(name))
    assert best in rows
    assert len(rows) > 1
    assert all(replay(context, trace) is not None for trace in traces)


def test_a_program_of_an_equal_task_is_adapted_to_itself_first():
    parent = random_parent(WIDE, "cuda")
    found = search_of(WIDE, parent)
    steps, _ = driven(found.search, lambda row: 1.0)
    (first,) = steps[0]
    assert found.space.traces(found.space.choices(np.array([first]))) == [parent.trace]
