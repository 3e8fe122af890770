"""Tests of sketch spaces: domains, sampling, mutation and reading back, by hand and against TVM."""

import json
from math import prod

import numpy as np
import pytest
from foretune.compiler.replay import candidate_trace_json, replay
from foretune.compiler.structure.domains import DomainError, perfect_tiles
from foretune.compiler.structure.read_sketch import read_sketch
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.space import SketchSpace
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target
from hypothesis import given
from hypothesis import strategies as st
from support.drafts import matmul, matmul_trace
from support.operators import EXAMPLES


def space(**extents) -> SketchSpace:
    structure = matmul(**extents)
    (block,) = structure.blocks
    i, j, k = block.extents
    return SketchSpace.from_traces([matmul_trace([i, 1, 1, 1], [j, 1, 1, 1], [k, 1])], structure)


def test_tiles_by_hand():
    assert perfect_tiles(4, 2, 64).tolist() == [[1, 4], [2, 2], [4, 1]]
    assert perfect_tiles(4, 2, 2).tolist() == [[2, 2], [4, 1]]
    assert perfect_tiles(7, 1, 64).tolist() == [[7]]
    # 2^3 over four factors: the ways to distribute three twos, C(6, 3)
    assert len(perfect_tiles(8, 4, 64)) == 20


@given(st.integers(1, 240), st.integers(1, 5), st.integers(1, 64))
def test_tiles_are_all_and_only_the_products(extent, factors, bound):
    rows = perfect_tiles(extent, factors, bound).tolist()
    assert all(prod(row) == extent and row[-1] <= bound for row in rows)
    assert len({tuple(row) for row in rows}) == len(rows)


def test_a_tile_needs_an_extent():
    with pytest.raises(DomainError, match="at least 1"):
        perfect_tiles(0, 2, 64)


def test_samples_and_neighbours_stay_in_the_space():
    here, rng = space(), np.random.default_rng(0)
    drawn = here.sample(500, rng)
    values = here.values(drawn)
    assert values.shape == (500, 4 + 4 + 2 + 1)
    assert (values[:, :4].prod(axis=1) == 8).all()
    assert (values[:, 4:8].prod(axis=1) == 16).all()
    assert (values[:, 8:10].prod(axis=1) == 32).all()
    np.testing.assert_array_equal(here.choices(values), drawn)
    assert ((here.mutate(drawn, rng) != drawn).sum(axis=1) == 1).all()
    children = here.crossover(drawn[:250], drawn[250:], rng)
    assert ((children == drawn[:250]) | (children == drawn[250:])).all()


def test_keys_tell_rows_apart():
    here, rng = space(), np.random.default_rng(1)
    drawn = here.sample(3000, rng)
    assert len(np.unique(here.keys(drawn))) == len({tuple(row) for row in drawn.tolist()})
    different = here.unique(np.concatenate([drawn[:5], drawn[:3]]))
    assert {tuple(row) for row in different.tolist()} == {tuple(row) for row in drawn[:5].tolist()}


def test_keys_of_spaces_that_no_integer_counts():
    vast = SketchSpace(space().sketch, (np.zeros((2**16, 4), np.int64),) * 4)
    rows = np.array([[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4]], dtype=np.int32)
    assert vast.size > 2**62
    assert len(vast.unique(rows)) == 2
    assert np.isin(vast.keys(rows), vast.keys(rows[:1])).tolist() == [True, False, True]


def test_a_value_outside_of_the_space_is_refused():
    with pytest.raises(DomainError, match="cannot be"):
        space().choices(np.array([[3, 1, 1, 1, 16, 1, 1, 1, 32, 1, 0]]))


def test_traces_of_other_sketches_make_no_space():
    other = matmul_trace(parallel=16)
    with pytest.raises(ValueError, match="one sketch"):
        SketchSpace.from_traces([matmul_trace(), other], matmul())
    with pytest.raises(ValueError, match="0 traces"):
        SketchSpace.from_traces([], matmul())


def test_traces_are_read_back():
    here = space()
    drawn = here.sample(20, np.random.default_rng(2))
    for trace, row in zip(here.traces(drawn), drawn, strict=True):
        sketch, values = read_sketch(json.loads(trace), matmul())
        assert sketch.instructions == here.sketch.instructions
        np.testing.assert_array_equal(here.choices(np.array([values]))[0], row)


@pytest.mark.parametrize("operator", ["conv2d", "depthwise_conv2d", "dense", "group_conv2d", "softmax"])
def test_drawn_candidates_are_programs(operator):
    module = as_task_module(EXAMPLES[operator].prim_func())
    structure = read_structure(module)
    context = make_tune_context(module, parse_target({"kind": "llvm", "num-cores": 2}), seed=0)
    rng = np.random.default_rng(0)
    spaces = read_spaces(context, structure, operator)
    assert spaces
    for here in spaces[:3]:
        drawn = here.canonical(here.sample(8, rng))
        np.testing.assert_array_equal(here.canonical(drawn), drawn)
        for trace in here.traces(drawn):
            candidate = replay(context, trace)
            assert candidate is not None
            # TVM keeps the locations of canonical candidates, except in softmax, which has other blocks.
            if operator != "softmax":
                assert candidate_trace_json(candidate) == trace
