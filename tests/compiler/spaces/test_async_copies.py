"""Copies that TVM compiles to wrong code: they are wrong when executed, and refused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.operators import Conv1d, Dense, to_task
from foretune.compiler.replay import RejectedError, apply_postprocessors, replay
from foretune.compiler.spaces.async_copies import WRONG_COPY, WrongCopyError, check_copies, has_wrong_copies
from foretune.compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.tvm_compat import argument_buffers, make_tune_context, parse_target
from foretune.dataset.sampling.programs import AnnealingConfig
from foretune.inference import OneShotConfig
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import SearchSession, SessionResources
from foretune.inference.spaces.stock import StockSpace
from support.cuda_kernels import pipelined
from support.cuda_programs import TARGET, random_candidates
from tvm.s_tir.schedule import Schedule


def sums(mod: tvm.IRModule, row: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Input of a pipelined kernel, and its output."""
    (size,), _ = argument_buffers(mod)[0]
    values = np.arange(size, dtype=np.float32)
    return values, sum(values[k * row :: step][:64] for k in range(6))


def test_sound_copies_are_kept_and_compute_the_right_result(gpu):
    mod = pipelined(64, 1)
    values, expected = sums(mod, 64, 1)
    check_copies(mod, TARGET)
    execution = gpu.run(mod, TARGET, [values], trace=True)
    np.testing.assert_array_equal(execution.output, expected)
    assert execution.failure is None and execution.races == ()


def test_strided_copies_are_wrong_and_refused(gpu):
    mod = pipelined(1, 6)
    values, expected = sums(mod, 1, 6)
    execution = gpu.run(mod, TARGET, [values], checked=False)
    # An address that is no multiple of 16 ends the kernel before the wrong elements show.
    assert execution.failure is not None or not np.array_equal(execution.output, expected)
    refused(gpu, mod, values)


def test_strided_copies_from_aligned_addresses_are_wrong(gpu):
    mod = pipelined(4, 24)
    values, expected = sums(mod, 4, 24)
    execution = gpu.run(mod, TARGET, [values], checked=False)
    assert execution.failure is None and not np.array_equal(execution.output, expected)
    refused(gpu, mod, values)


def test_misaligned_copies_end_the_kernel_and_are_refused(gpu):
    mod = pipelined(65, 1)
    values, _ = sums(mod, 65, 1)
    execution = gpu.run(mod, TARGET, [values], checked=False)
    assert "misaligned address of an asynchronous copy" in execution.failure
    refused(gpu, mod, values)


def refused(gpu, mod: tvm.IRModule, values: np.ndarray) -> None:
    assert has_wrong_copies(mod, TARGET)
    for compile_it in (lambda: compile_module(mod, TARGET), lambda: gpu.run(mod, TARGET, [values])):
        with pytest.raises(WrongCopyError, match=f"{WRONG_COPY}: TVM copies other elements"):
            compile_it()
    assert not has_wrong_copies(mod, parse_target("llvm"))


def test_the_space_of_a_search_has_no_wrong_copies():
    # Extents of 11 and 9 make rows of odd lengths.
    task = to_task(Conv1d.examples()[0])
    free = list(random_candidates(task, 16, checked=False))
    context = make_tune_context(task.mod, TARGET, seed=0, space=StockSpace(None).generator(TARGET))
    kept = 0
    for candidate in free:
        schedule = Schedule(task.mod, seed=1, debug_mask=0, error_render_level="none")
        candidate.sch.trace.simplified(remove_postproc=True).apply_to_schedule(schedule, remove_postproc=True)
        wrong = has_wrong_copies(candidate.sch.mod, TARGET)
        try:
            apply_postprocessors(context, schedule)
        except RejectedError as error:
            assert str(error) == PYTHON_POSTPROCESSOR and wrong
        else:
            assert not wrong
            kept += 1
    assert 0 < kept < len(free)


def test_a_search_proposes_no_wrong_copies_and_replays_hardly_any():
    scorer = tvm.s_tir.meta_schedule.cost_model.RandomModel()
    config = OneShotConfig(AnnealingConfig(chains=16), top_k=8, rounds=1)
    session = SearchSession(
        to_task(Conv1d.examples()[0]), TARGET, SessionResources(scorer, config, None, threads=1)
    )
    found = session.propose(RoundBudget(8))
    programs = [session.known.program(each.trace) for each in found]
    assert programs and not any(has_wrong_copies(program.sch.mod, TARGET) for program in programs)
    assert session.counts.rejected.get(WRONG_COPY, 0) <= 0.1 * session.counts.tried
    assert PYTHON_POSTPROCESSOR not in session.counts.rejected


def test_addresses_in_variables_are_read():
    """Common subexpressions hide whether an address is a multiple of the vector's length."""
    task = to_task(Dense(rows=64, in_features=96, out_features=80))
    context = make_tune_context(task.mod, TARGET, seed=0, space=StockSpace(None).generator(TARGET))
    spaces = read_spaces(context, read_structure(task.mod), task.name)
    (space, *_) = [space for space in spaces if space.sketch.pipeline_copies > 1]
    # Vectors of 2 from rows of 24, and of 3 from rows of 80: a copy of each kind in one program.
    values = np.array([[1, 1, 8, 1, 8, 1, 1, 5, 4, 4, 4, 6, 4, 1, 2, 5]])
    (trace,) = space.traces(space.choices(values))
    assert replay(context, trace) is not None
