"""Tests of the emulation itself: counts worked out by hand, and errors that it must notice."""

from __future__ import annotations

import os
import signal
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.operators import Dense
from foretune.compiler.tvm_compat import argument_buffers
from support.cuda_emulation import Execution, NotBuiltError, Removal, Traffic
from support.cuda_emulation.source import NotEmulatedError, translated
from support.cuda_kernels import (
    Broadcast,
    Coalesced,
    FiveLanes,
    Overrun,
    Reversed,
    Shared,
    Strided,
    Vectors,
    transposed,
)
from support.cuda_programs import TARGET, Prepared, random_programs
from support.emulated_devices import cuda_exists

BARRIER = r"^\s*__syncthreads\(\);"
WAIT = r"^\s*tvm_builtin_ptx_cp_async_wait_group\w*\(\);"
ORDERS = ["ascending", "descending", 2, 7]


def traced(gpu, mod: tvm.IRModule, **settings) -> tuple[Execution, np.ndarray]:
    """Traced run of a kernel, and its input, which counts from 0."""
    shape, dtype = argument_buffers(mod)[0]
    values = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    return gpu.run(mod, TARGET, [values], trace=True, **settings), values


@pytest.mark.parametrize(
    ("kernel", "loads", "stores"),
    [
        # Two warps, each of 128 bytes in a row.
        (Coalesced, Traffic(2, 256, sectors=8, lines=2), Traffic(2, 256, sectors=8, lines=2)),
        # One warp of 16 bytes a lane.
        (Vectors, Traffic(1, 512, sectors=16, lines=4), Traffic(1, 512, sectors=16, lines=4)),
        # Each lane has a sector of its own, every two a line.
        (Strided, Traffic(1, 128, sectors=32, lines=16), Traffic(1, 128, sectors=4, lines=1)),
        (Broadcast, Traffic(1, 128, sectors=1, lines=1), Traffic(1, 128, sectors=4, lines=1)),
    ],
)
def test_sectors_of_global_memory_by_hand(gpu, kernel, loads, stores):
    execution, _ = traced(gpu, kernel)
    (report,) = execution.kernels
    assert report.failure is None and report.races == ()
    assert (report.global_loads, report.global_stores) == (loads, stores)
    assert report.shared_loads == report.shared_stores == Traffic()


@pytest.mark.parametrize(
    ("row", "wavefronts"),
    [
        (33, 32),  # 32 steps without conflicts
        (32, 32 * 32),  # all lanes ask the same bank
        (36, 32 * 4),  # rows begin at every fourth bank: 8 banks for 32 lanes
        (34, 32 * 2),
    ],
)
def test_bank_conflicts_by_hand(gpu, row, wavefronts):
    execution, values = traced(gpu, transposed(row))
    np.testing.assert_array_equal(execution.output, values.T)
    (report,) = execution.kernels
    assert report.shared_loads == Traffic(32, 4096, wavefronts=wavefronts)
    assert report.shared_loads_once == report.shared_loads
    assert report.shared_stores == Traffic(32, 4096, wavefronts=32)
    assert (report.blocks, report.threads) == (1, 32) and report.races == ()


def test_a_removed_barrier_is_a_race_and_shows_in_some_order(gpu):
    execution, values = traced(gpu, Reversed)
    np.testing.assert_array_equal(execution.output, values[::-1])
    assert execution.races == () and execution.kernels[0].barriers == 1
    execution, _ = traced(gpu, Reversed, removed=Removal(BARRIER))
    assert execution.races == ("race between threads on static shared memory",)
    runs = gpu.run_in_orders(Reversed, TARGET, [values], ORDERS, removed=Removal(BARRIER))
    assert not any(np.array_equal(run.output, values[::-1]) for run in runs)
    with pytest.raises(IndexError, match="matches 1 times: there is no number 1"):
        gpu.run(Reversed, TARGET, [values], removed=Removal(BARRIER, 1))


def test_an_access_out_of_bounds_ends_the_launch(gpu):
    execution, _ = traced(gpu, Overrun)
    expected = "out of bounds: read of 4 bytes at offset 256 of buffer 0, which has 256 bytes"
    assert execution.kernels[0].failure == expected
    assert expected in execution.failure


def test_blocks_that_write_the_same_are_a_race(gpu):
    execution, values = traced(gpu, Shared)
    np.testing.assert_array_equal(execution.output, values)
    assert [race.partition(" on ")[0] for race in execution.races] == ["race between blocks"]


def test_an_unfinished_copy_is_noticed(gpu):
    prepared = Prepared.of(Dense(rows=64, in_features=64, out_features=64))
    removed = noticed = 0
    for mod in random_programs(prepared.task, 6, seed=2):
        try:
            execution = gpu.run(mod, TARGET, prepared.inputs, trace=True, removed=Removal(WAIT))
        except IndexError:  # a program without asynchronous copies
            continue
        removed += 1
        waits = [race for race in execution.races if race.startswith("access before an asynchronous copy")]
        noticed += bool(waits) and not prepared.is_right(execution.output)
    assert removed >= 1 and noticed == removed


@pytest.mark.parametrize(("dtype", "fragment"), [("float16", "half"), ("int8", "signed char")])
def test_tensor_cores_compute_the_right_result_in_any_order(gpu, dtype, fragment):
    prepared = Prepared.of(Dense(rows=32, in_features=64, out_features=32, dtype=dtype))
    uses = Removal(rf"nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, {fragment}")
    on_tensor_cores = 0
    for mod in random_programs(prepared.task, 3):
        runs = gpu.run_in_orders(mod, TARGET, prepared.inputs, ["ascending", 7], trace=True)
        assert all(run.failure is None and run.races == () for run in runs)
        assert all(prepared.is_right(run.output) for run in runs)
        try:
            with pytest.raises(RuntimeError, match=r"g\+\+ fails"):
                gpu.run(mod, TARGET, prepared.inputs, removed=uses)
            on_tensor_cores += 1
        except IndexError:
            continue
    assert on_tensor_cores >= 1


def test_assembly_that_is_not_known_does_not_compile(gpu):
    text = translated('void f() {\n  asm volatile("mma.sync;" :: );\n}\n', {})
    assert 'static_assert(false, "inline assembly is not emulated' in text and "mma.sync" in text
    with pytest.raises(NotEmulatedError, match=r"launch parameters .'cluster'. are not emulated"):
        translated("", {"main_kernel": ["threadIdx.x", "cluster"]})


def test_a_program_that_tvm_does_not_build_is_told_apart(gpu):
    with pytest.raises(NotBuiltError):
        gpu.run(FiveLanes, TARGET, [np.zeros(160, np.float32)])


def test_a_crash_costs_the_process_and_no_other_test(gpu):
    with pytest.raises(BrokenProcessPool):
        gpu.call(os.kill, gpu.call(os.getpid), signal.SIGKILL)
    execution, values = traced(gpu, Coalesced)
    np.testing.assert_array_equal(execution.output, values)


def test_tests_without_a_gpu_see_none(gpu):
    assert gpu.call(cuda_exists, 0) and not gpu.call(cuda_exists, 1)
    assert cuda_exists(0) == Path("/dev/nvidia0").exists()
