"""Tests of features: tokens and vectors by hand, ragged tables, and the shared assembly."""

import numpy as np
import pytest
from foretune.compiler.counts.program_counts import count_program
from foretune.compiler.replay import trace_to_json
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.read_traces import SketchReader
from foretune.compiler.task import count_flops
from foretune.compiler.tvm_compat import as_task_module, make_tune_context, parse_target
from foretune.dataset.features.assembly import FeatureAssembler
from foretune.dataset.features.decisions import DECISION_DIM, decision_features
from foretune.dataset.features.draft_vector import DRAFT_DIM, draft_vectors
from foretune.dataset.features.table import COUNT_DIM, STORE_DIM, CandidateFeatures, FeatureTable
from foretune.dataset.features.task import task_features
from foretune.dataset.features.vectors import TASK_DIM
from foretune.dataset.hardware import HARDWARE_DIM, named_hardware
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic import table
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule


def matmul_module(rows=8, inner=32, columns=16):
    a = te.placeholder((rows, inner), name="a")
    b = te.placeholder((inner, columns), name="b")
    return as_task_module(te.create_prim_func([a, b, topi.nn.matmul(a, b)]))


def test_decision_tokens_by_hand():
    schedule = Schedule(matmul_module(), seed=1)
    block = schedule.get_sblock(schedule.mod["main"].body.block.body.body.body.body.block.name_hint)
    i, _, k = schedule.get_loops(block)
    schedule.sample_perfect_tile(i, n=4, decision=[1, 2, 1, 4])
    schedule.sample_perfect_tile(k, n=2, decision=[8, 4])
    schedule.sample_categorical([0, 16, 64, 512], [0.25] * 4, decision=2)
    schedule.sample_compute_location(block, decision=-1)
    tokens = decision_features(schedule.trace)
    assert tokens.shape == (4, DECISION_DIM)
    assert tokens.dtype == np.float32
    # kind, number of factors, log2 extent, log2 factors (last = innermost), log2 extents inside, value, index
    assert tokens[0].tolist() == [1, 0, 0, 4, 3, 0, 0, 1, 0, 2, 0, 3, 3, 2, 2, 0, 0]
    assert tokens[1].tolist() == [1, 0, 0, 2, 5, 0, 0, 0, 3, 2, 0, 0, 0, 5, 2, 0, 0]
    np.testing.assert_allclose(tokens[2], [0, 1, 0, *[0] * 12, np.log2(65), 2], rtol=1e-6)
    assert tokens[3].tolist() == [0, 0, 1, *[0] * 12, -1, -1]


def test_tokens_are_in_the_order_of_the_trace():
    """A simplified trace has its decisions in the order of a hash table, which differs from run to run."""
    for _ in range(8):
        schedule = Schedule(matmul_module(), seed=1)
        block = schedule.get_sblock(schedule.mod["main"].body.block.body.body.body.body.block.name_hint)
        for index in range(8):
            value = schedule.sample_categorical([*range(8)], [1 / 8] * 8, decision=index)
            schedule.annotate(block, f"note {index}", value)
        tokens = decision_features(schedule.trace.simplified(remove_postproc=True))
        assert tokens[:, -1].tolist() == [*range(8)]


def test_a_trace_without_decisions_has_no_tokens():
    assert decision_features(Schedule(matmul_module()).trace).shape == (0, DECISION_DIM)


def test_task_vector_by_hand():
    vector = task_features(matmul_module(8, 32, 16))
    assert vector.shape == (TASK_DIM,)

    def log(*values):
        return [np.log2(1 + value) for value in values]

    shapes = vector[:36].reshape(6, 6)
    np.testing.assert_allclose(shapes[0], [*log(8, 32), 0, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(shapes[1], [*log(32, 16), 0, 0, 0, 0], rtol=1e-6)
    assert not shapes[2:5].any()
    np.testing.assert_allclose(shapes[5], [*log(8, 16), 0, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(vector[36:42], [*log(8, 16), 0, 0, 0, 0], rtol=1e-6)  # spatial loops
    np.testing.assert_allclose(vector[42:46], [*log(32), 0, 0, 0], rtol=1e-6)  # reduction loops
    flops, traffic = 2 * 8 * 16 * 32, 4 * (8 * 32 + 32 * 16 + 8 * 16)
    np.testing.assert_allclose(vector[46:], log(flops, traffic, flops / traffic, 2, 1, 1), rtol=1e-6)


def test_tasks_of_different_shapes_differ():
    assert not np.array_equal(task_features(matmul_module(8)), task_features(matmul_module(16)))


def candidate(n_stores, n_decisions, fill):
    return CandidateFeatures(
        stores=np.full((n_stores, STORE_DIM), fill, np.float32),
        decisions=np.full((n_decisions, DECISION_DIM), fill, np.float32),
        task=np.full(TASK_DIM, fill, np.float32),
        hardware=np.full(HARDWARE_DIM, fill, np.float32),
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=6), st.data())
def test_batches_hold_what_candidates_held(lengths, data):
    candidates = [candidate(s, d, number + 1.0) for number, (s, d) in enumerate(lengths)]
    table = FeatureTable.from_candidates(candidates)
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8))
    batch = table.batch(np.array(rows))
    assert len(batch) == len(rows)
    assert table.lengths.tolist() == [sum(tokens) for tokens in lengths]
    for at, row in enumerate(rows):
        assert batch.store_mask[at].sum() == lengths[row][0]
        assert batch.decision_mask[at].sum() == lengths[row][1]
        np.testing.assert_array_equal(batch.stores[at][batch.store_mask[at]], candidates[row].stores)
        np.testing.assert_array_equal(batch.decisions[at][batch.decision_mask[at]], candidates[row].decisions)
        assert not batch.stores[at][~batch.store_mask[at]].any()
        assert batch.task[at, 0] == row + 1.0


def test_concatenated_tables_hold_the_tokens_of_each():
    whole = table(8)
    both = FeatureTable.concatenate([whole.take(np.array([5, 3])), whole.take(np.array([7]))]).batch()
    three = whole.batch(np.array([5, 3, 7]))
    np.testing.assert_array_equal(both.stores, three.stores)
    np.testing.assert_array_equal(both.decision_mask, three.decision_mask)


def test_a_table_needs_a_candidate():
    with pytest.raises(ValueError, match="at least one"):
        FeatureTable.from_candidates([])


def test_the_draft_vector_stands_behind_the_task_vector():
    hardware = named_hardware("i9-9900k")
    context = make_tune_context(matmul_module(), parse_target("llvm"), seed=0)
    space = context.generate_design_space()[0]
    candidate = ms.MeasureCandidate(
        space, ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=True)
    )
    (features,) = FeatureAssembler(hardware).rows(context, [candidate])
    assert features.task.shape == (TASK_DIM + DRAFT_DIM,)
    np.testing.assert_array_equal(features.task[:TASK_DIM], task_features(context.mod))
    reader = SketchReader(read_structure(context.mod))
    draft, known = draft_vectors([trace_to_json(space.trace)], reader, hardware)
    assert known.all() and draft.any()
    np.testing.assert_array_equal(features.task[TASK_DIM:], draft[0])
    assert features.counts.shape == (0,)


def test_counts_are_those_of_the_program():
    hardware = named_hardware("i9-9900k")
    context = make_tune_context(matmul_module(), parse_target("llvm"), seed=0)
    args = ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=True)
    candidates = [ms.MeasureCandidate(space, args) for space in context.generate_design_space()]
    table = FeatureAssembler(hardware, counted=True).assemble(context, candidates)
    flops = count_flops(context.mod)
    counts = [count_program(candidate.sch.mod, hardware, flops) for candidate in candidates]
    expected = [
        [each.instructions, *each.moved_bytes, each.scattered, *each.runs, each.contested, each.chained]
        for each in counts
    ]
    assert table.counts.shape == (len(candidates), COUNT_DIM) and table.counts.dtype == np.float32
    np.testing.assert_allclose(np.exp2(table.counts) - 1, expected, rtol=1e-4)
    some = table.take(np.array([1]))
    np.testing.assert_array_equal(some.counts, table.counts[1:2])
    np.testing.assert_array_equal(FeatureTable.concatenate([table, some]).batch().counts[-1], table.counts[1])
