"""Programs of other tasks as starts, on TVM's design spaces for a CPU and for CUDA without a GPU."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import replay
from foretune.compiler.spaces.measurable_space import CODE_SIZE
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.reuse.parent import ReuseParent
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.starts.adapted import (
    LIMITS,
    NO_SKETCH,
    UNREADABLE,
    AdaptedStarts,
    ProgramAdapter,
)
from support.reuse import (
    CHILD,
    CPU,
    PARENT,
    PARENT_TILES,
    SM_80,
    context_of,
    parent_trace,
    spaces_of,
)

SMALL, LARGE = (to_task(Dense(rows=16, in_features=32, out_features=n)) for n in (32, 48))


def first_trace(task, row=0):
    """A program of the first CPU sketch of a task."""
    space = spaces_of(task, "llvm")[0]
    choices = space.sample(40, np.random.default_rng(0))
    context = context_of(task, CPU)
    valid = [trace for trace in space.traces(choices) if replay(context, trace) is not None]
    return valid[row]


@pytest.fixture(scope="module")
def on_cuda():
    return ProgramAdapter(SM_80, StockSpace(None))


def tiles(trace):
    return [value for _, value in json.loads(trace)[1] if isinstance(value, list)]


def test_example_3_takes_over_all_tiles_but_the_one_of_the_channels(on_cuda):
    found = on_cuda(PARENT, parent_trace(), CHILD)
    expected = list(PARENT_TILES.values())
    expected[4] = [2, 64, 2]  # 256 channels in place of 512: half of the fetches
    assert tiles(found) == expected
    assert not on_cuda.skipped


def test_variants_are_valid_programs_of_the_child_each_once(on_cuda):
    context = context_of(CHILD, SM_80)
    found = list(islice(on_cuda.variants(PARENT, parent_trace(), CHILD), 4))
    assert len(set(found)) == 4
    assert all(replay(context, trace) is not None for trace in found)


def test_a_program_that_breaks_the_limits_of_a_gpu_is_passed_over_with_its_cause():
    small = {**json.loads(str(SM_80)), "max_shared_memory_per_block": 1024}
    adapter = ProgramAdapter(parse_target(small), StockSpace(None))
    assert adapter(PARENT, parent_trace(), CHILD) is None
    assert adapter.skipped == {LIMITS: 1}


def test_a_program_that_a_postprocessor_rejects_is_passed_over_with_its_cause():
    adapter = ProgramAdapter(CPU, StockSpace(1))
    assert adapter(SMALL, first_trace(SMALL), LARGE) is None
    assert adapter.skipped == {CODE_SIZE: 1}


def test_programs_of_other_sketches_and_unreadable_ones_are_passed_over(on_cuda):
    adapter = ProgramAdapter(CPU, StockSpace(6000))
    assert adapter(PARENT, parent_trace(), LARGE) is None
    assert adapter(SMALL, "[[],[", LARGE) is None
    assert adapter.skipped == {NO_SKETCH: 1, UNREADABLE: 1}


def test_starts_are_one_of_each_program_and_then_variants():
    adapter = ProgramAdapter(CPU, StockSpace(6000))
    programs = [ReuseParent(SMALL, first_trace(SMALL, row)) for row in (0, 1)]
    first = [adapter(SMALL, program.trace, LARGE) for program in programs]
    starts = AdaptedStarts(lambda task: programs, adapter, count=4).starts(LARGE)
    assert [start.trace for start in starts[:2]] == first
    assert len({start.trace for start in starts}) == 4
    assert {start.latency_s for start in starts} == {None}
    assert AdaptedStarts(lambda task: (), adapter).starts(LARGE) == []
