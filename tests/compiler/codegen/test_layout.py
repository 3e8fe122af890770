"""Tests of programs that choose their weight's layout: timed without the change, checked with it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.compilation import CHECKED, TIMED, compile_module, entries
from foretune.compiler.operators import BatchMatmul, Conv2d, Dense, to_task
from foretune.compiler.operators.settings import SettingsError
from foretune.compiler.replay import candidate_module_json, instantiate
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import chooses_layout, design_spaces, make_tune_context, parse_target
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.dataset.measure.worker.bench import Bench
from foretune.dataset.records.schema import FailureKind
from tvm.s_tir import meta_schedule as ms

TARGET = parse_target("llvm")
DENSE = Dense(rows=8, in_features=32, out_features=16, epilogue="bias", prepack=True)


def candidate_of(task: Task) -> ms.MeasureCandidate:
    context = make_tune_context(task.mod, TARGET, seed=0)
    return instantiate(context, design_spaces(context, task.name)[0].trace, seed=1)


@pytest.fixture(scope="module")
def task() -> Task:
    return to_task(DENSE)


@pytest.fixture(scope="module")
def candidate(task: Task) -> ms.MeasureCandidate:
    return candidate_of(task)


def test_the_timed_entry_takes_the_weight_in_the_layout_of_its_choice(candidate: ms.MeasureCandidate) -> None:
    assert chooses_layout(candidate.sch.mod)
    mod, buffers = entries(candidate.sch.mod, checked=True)
    data, packed, *_ = buffers[TIMED]
    given = buffers[CHECKED]
    assert data == given[0] == ((8, 32), "float32")
    assert given[1] == ((32, 16), "float32")
    assert np.prod(packed[0]) == 32 * 16 and len(packed[0]) > 2
    assert set(map(str, (var.name_hint for var in mod.get_global_vars()))) == {TIMED, CHECKED}
    assert entries(candidate.sch.mod, checked=False)[1].keys() == {TIMED}


def test_a_program_without_a_choice_has_one_entry() -> None:
    plain = candidate_of(to_task(Dense(rows=8, in_features=32, out_features=16))).sch.mod
    assert not chooses_layout(plain)
    mod, buffers = entries(plain, checked=True)
    assert mod is plain and buffers.keys() == {TIMED}


def test_both_entries_compute_the_task(candidate: ms.MeasureCandidate) -> None:
    mod, buffers = entries(candidate.sch.mod, checked=True)
    library = compile_module(mod, TARGET).jit()
    rng = np.random.default_rng(0)
    data, weight, bias = (rng.random(shape, np.float32) for shape in ((8, 32), (32, 16), (16,)))
    given = [tvm.runtime.tensor(values) for values in (data, weight, bias, np.zeros((8, 16), np.float32))]
    library[CHECKED](*given)
    np.testing.assert_allclose(given[3].numpy(), data @ weight + bias, rtol=1e-5)
    # Equal weights are the same in any layout.
    even = np.full(buffers[TIMED][1][0], 0.5, np.float32)
    given[1] = tvm.runtime.tensor(even)
    library[TIMED](*given)
    want = np.repeat(data.sum(1, keepdims=True) / 2, 16, 1) + bias
    np.testing.assert_allclose(given[3].numpy(), want, rtol=1e-5)


def test_measured_programs_are_compared_with_the_unscheduled_one(
    task: Task, candidate: ms.MeasureCandidate
) -> None:
    other = to_task(Dense(rows=8, in_features=32, out_features=16, epilogue="bias_relu", prepack=True))
    jobs = [
        MeasureJob(candidate_module_json(program), reference=tvm.ir.save_json(task.mod), keep_built=True)
        for program in (candidate, candidate_of(other))
    ]
    with WorkerPool(TARGET, MeasureConfig(build_timeout_s=60.0), workers=1) as pool:
        right, wrong = pool.measure(jobs)
        # The object file would have the entry for the comparison, too.
        assert pool.object_file(jobs[0]) is None
    assert right.failure is None and right.latency_s > 0
    assert wrong.failure is FailureKind.WRONG_OUTPUT


def test_arguments_are_made_anew_only_where_the_layout_is_another() -> None:
    bench = Bench(tvm.cpu(), MeasureConfig())
    first = bench._arguments_for([((4, 6), "float32"), ((6, 2), "float32")])
    second = bench._arguments_for([((4, 6), "float32"), ((3, 2, 2), "float32")])
    assert second[0] is first[0]
    np.testing.assert_array_equal(second[1].numpy().ravel(), first[1].numpy().ravel())
    assert tuple(first[1].shape) == (6, 2)


def test_a_packed_weight_lies_in_the_order_of_its_use(task: Task) -> None:
    plain = read_structure(to_task(Dense(rows=8, in_features=32, out_features=16, epilogue="bias")).mod)
    packed = read_structure(task.mod)
    assert [read.packed for read in packed.block("matmul").reads] == [False, True]
    assert [read.packed for read in plain.block("matmul").reads] == [False, False]
    # A step along k skips a row of 16, or nothing in the packed layout.
    assert [block.reads[1].stride(2) for block in (plain.block("matmul"), packed.block("matmul"))] == [16, 1]
    assert packed.block("matmul").reads[1].stride(0) == 0


def test_only_constant_weights_are_packed() -> None:
    with pytest.raises(SettingsError, match="batch_matmul: prepack=True: use one of False"):
        BatchMatmul(batch=1, rows=2, inner=2, columns=2, prepack=True)
    conv = Conv2d(
        batch=1, in_channels=4, height=6, width=6, out_channels=4, kernel=3, epilogue="bias_add", prepack=True
    )
    assert list(conv.prim_func().attrs["layout_free_buffers"]) == [1]
    assert Conv2d.from_dict(conv.to_dict()) == conv
