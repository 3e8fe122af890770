"""Algorithm 1 on Example 3 of ETO, its invariants, and programs that TVM compiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from foretune.compiler.operators import Dense, settings_from_dict, to_task
from foretune.compiler.replay import replay
from foretune.inference.eto.search.hierarchical import best_of, better, side_by_side
from foretune.inference.eto.search.program_features import FeatureRanges, program_features
from foretune.inference.eto.search.programs import nest_of, registers
from foretune.inference.eto.search.search import NoReuseError
from foretune.inference.reuse.conditions import operator_of
from foretune.inference.reuse.parent import ReuseParent
from support.reuse import CHILD, PARENT, SM_80, context_of, conv, parent_trace, parent_values, plain_space
from support.reuse_search import driven, random_parent, search_of, target_of

PRODUCT = to_task(Dense(rows=64, in_features=64, out_features=64))

BEST = (1, 1, 1, 1, 1, *(4, 1, 8, 2, 2), *(14, 1, 1, 1, 2), *(1, 1, 28, 1, 1))
"""Space tiles of the paper's S̃_α after the first round: B = 56, T = 56 x 224."""


def tiles_of(row):
    return row[:20]


def loads_of(row):
    return row[20]


def paper(row):
    """Cost by which the candidates of the paper win, with the unrolling and loads that they began with."""
    return 1.0 if tiles_of(row) == BEST else 2.0


@pytest.fixture(scope="module")
def example():
    found = search_of(CHILD, ReuseParent(PARENT, parent_trace()))
    steps, best = driven(found.search, paper)
    return found, steps, best


def of_56_blocks(rows):
    return [row for row in rows if math.prod(row[column] for column in (0, 5, 10, 15)) == 56]


def test_first_round_of_example_3_has_three_numbers_of_threads(example):
    _, steps, _ = example
    first = of_56_blocks(steps[0])
    threads = [math.prod(row[column] for column in (2, 7, 12, 17)) for row in first]
    assert threads == [112, 128, 224]
    assert tiles_of(first[2]) == BEST
    assert {loads_of(row) for row in first} == {2}
    assert {row[29:31] for row in first} == {(0, 0)}  # no vectors


def test_unrolling_is_that_of_the_parents_registers(example):
    _, steps, _ = example
    (row,) = [row for row in steps[0] if tiles_of(row) == BEST]
    assert row[31] == 7  # 1024, as S*_β
    # 8 outputs; all 64 x 2 channels of 2 pixels and of 4 filters are loaded in the unrolled code.
    nest = nest_of(plain_space(PARENT).sketch, [tuple(parent_values()[0].tolist())])
    assert registers(nest).tolist() == [8 + 128 * 2 + 4 * 128]


def test_second_round_of_example_3_changes_the_loads_within_the_range_of_m(example):
    _, steps, _ = example
    rows = [row for row in of_56_blocks(steps[1]) if tiles_of(row) == BEST]
    assert {loads_of(row) for row in rows} == {2, 4}


def test_third_round_of_example_3_tries_what_unrolls_otherwise(example):
    found, steps, _ = example
    rows = [row for row in of_56_blocks(steps[2]) if tiles_of(row) == BEST]
    decision = found.space.sketch.decisions[found.space.sketch.unroll]
    assert sorted(decision.values[row[31]] for row in rows if row[31] != 7)[:2] == [0, 16]
    assert len({row[31] for row in rows}) == 3


def test_last_rounds_of_example_3_vectorise_the_data_and_not_the_kernel(example):
    found, steps, best = example
    vectors = {row[29:31] for step in steps[3:] for row in of_56_blocks(step) if tiles_of(row) == BEST}
    lengths = {
        tuple(
            found.space.sketch.decisions[fetch.vector].values[index]
            for fetch, index in zip(found.space.sketch.fetches, row, strict=True)
        )
        for row in vectors
    }
    # The input is read first; 18.3 points of the kernel for each thread are no multiple of 2.
    assert lengths == {(1, 1), (2, 1), (4, 1)}
    assert tiles_of(best) == BEST


def test_every_candidate_is_within_the_ranges(example):
    found, steps, _ = example
    ranges = FeatureRanges.of(operator_of(PARENT), operator_of(CHILD))
    parent = program_features(nest_of(plain_space(PARENT).sketch, [tuple(parent_values()[0].tolist())]))
    rows = [row for step in steps for row in step]
    features = program_features(nest_of(found.space.sketch, rows))
    assert ranges.blocks.scaled(56).contains(features.blocks).all()
    assert ranges.threads.scaled(float(parent.threads[0])).contains(features.threads).all()
    # Those with other loads than the default ones: M, too.
    fresh = [row for row in steps[1] if row not in steps[0]]
    shared = program_features(nest_of(found.space.sketch, fresh)).shared
    assert fresh and ranges.shared.scaled(float(parent.shared[0])).contains(shared).all()


OTHERS = [
    ("cuda", PRODUCT, {"out_features": 128}),
    ("cuda", conv(in_channels=16, height=14, width=14), {"out_channels": 64}),
    ("llvm", PRODUCT, {"in_features": 128}),
    ("llvm", conv(in_channels=16, height=14, width=14), {"height": 28}),
]


@pytest.mark.parametrize(("name", "parent", "changes"), OTHERS)
def test_candidates_of_other_pairs_are_programs_within_the_ranges(name, parent, changes):
    child = to_task(settings_from_dict(parent.operator, {**parent.settings, **changes}))
    program = random_parent(parent, name)
    found = search_of(child, program, name)
    steps, best = driven(found.search, lambda row: float(sum(row)))
    rows = list(dict.fromkeys(row for step in steps for row in step))
    assert best in rows
    # Choices exist for every row: all tiles multiply to the extents.
    traces = found.space.traces(found.space.choices(np.array(rows)))
    context = context_of(child, target_of(name))
    assert sum(replay(context, trace) is not None for trace in traces) >= 0.9 * len(rows)


def test_a_program_of_the_search_becomes_cuda_code():
    parent = random_parent(PRODUCT, "cuda")
    child = to_task(Dense(rows=64, in_features=64, out_features=128))
    found = search_of(child, parent, "cuda")
    _, best = driven(found.search, lambda row: float(sum(row)))
    candidate = replay(context_of(child, SM_80), found.space.traces(found.space.choices(np.array([best])))[0])
    config = {"tirx.use_async_copy": True, "tirx.disable_storage_rewrite": True}
    with SM_80, tvm.transform.PassContext(config=config):
        built = tvm.tirx.build(candidate.sch.mod, target=SM_80)
    assert "__global__" in built.imports[0].inspect_source()


def test_a_child_without_the_sketch_cannot_reuse_the_program():
    with pytest.raises(NoReuseError, match="no sketch"):
        search_of(PRODUCT, ReuseParent(PARENT, parent_trace()))
    with pytest.raises(NoReuseError, match="cannot be read"):
        search_of(CHILD, ReuseParent(PARENT, "[[]"))


def test_candidates_that_all_fail_leave_the_best_so_far():
    steps, found = driven(better((1,), [(2,), (3,)]), lambda row: math.inf)
    assert (steps, found) == ([[(2,), (3,), (1,)]], (1,))
    assert driven(best_of([(2,)]), lambda row: math.inf)[1] is None
    assert driven(better((1,), [(1,)]), lambda row: 0.0) == ([], (1,))


def test_searches_side_by_side_share_their_steps():
    def search(numbers):
        best = yield from best_of([(n,) for n in numbers])
        if best is None:
            return None
        found = yield from better(best, [(best[0] + 10,)])
        return found

    steps, found = driven(side_by_side([search([3, 1]), search([2]), search([])]), lambda row: float(row[0]))
    assert steps[:2] == [[(3,), (1,), (2,)], [(11,), (1,), (12,), (2,)]]
    assert found == (1,)
