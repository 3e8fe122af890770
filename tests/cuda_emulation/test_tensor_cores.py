"""Programs for tensor cores, by WMMA and by MMA: right results without races, and faults that are noticed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from foretune.compiler.operators import Dense
from foretune.compiler.tvm_compat import MMA, WMMA
from support.cuda_emulation import EmulatedGpu, Removal
from support.cuda_kernels import one_mma
from support.cuda_programs import KINDS, OTHER_KINDS, TARGET, TENSOR_CORES, Prepared, tensor_core_programs

PROGRAMS = 3
"""Random programs of each kind in a long run, which begins with those of a short one."""

BARRIER = r"^\s*__syncthreads\(\);"
LOAD = r"^\s*\"ldmatrix.*\n"


def executed(gpu: EmulatedGpu, name: str, way: str, count: int) -> int:
    """Number of programs that were executed; each is right and has no race."""
    prepared = Prepared.of(TENSOR_CORES[name])
    number = 0
    for mod in tensor_core_programs(prepared.task, way, count):
        execution = gpu.run(mod, TARGET, prepared.inputs, order=7, trace=True)
        assert execution.failure is None and execution.races == ()
        assert prepared.is_right(execution.output), prepared.error(execution.output)
        number += 1
    return number


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), (*KINDS, *OTHER_KINDS))
def test_a_random_program_computes_the_right_result(gpu, name, way):
    assert executed(gpu, name, way, 1) == 1


@pytest.mark.long
@pytest.mark.parametrize(("name", "way"), (*KINDS, *OTHER_KINDS))
def test_random_programs_compute_the_right_result(gpu, name, way):
    assert executed(gpu, name, way, PROGRAMS) == PROGRAMS


def test_mma_in_any_order_and_faults_of_its_programs(gpu):
    prepared = Prepared.of(TENSOR_CORES["dense bfloat16"])
    (mod,) = tensor_core_programs(prepared.task, MMA, 1)
    for run in gpu.run_in_orders(mod, TARGET, prepared.inputs, ["ascending", "descending", 7], trace=True):
        assert run.races == () and prepared.is_right(run.output)
    removed = gpu.run(mod, TARGET, prepared.inputs, trace=True, removed=Removal(BARRIER))
    assert removed.races != ()
    with pytest.raises(RuntimeError, match="inline assembly is not emulated"):
        gpu.run(mod, TARGET, prepared.inputs, removed=Removal(LOAD))


@pytest.mark.parametrize("way", [WMMA, MMA])
def test_bfloat16_sums_are_those_of_float32(gpu, way):
    """By NumPy: products of bfloat16 are exact in float32, and the output is rounded once."""
    prepared = Prepared.of(Dense(rows=32, in_features=32, out_features=32, dtype="bfloat16"))
    data, weight = (values.astype(np.float64) for values in prepared.inputs)
    (mod,) = tensor_core_programs(prepared.task, way, 1)
    output = gpu.run(mod, TARGET, prepared.inputs).output.astype(np.float64)
    error = np.abs(output - data @ weight)
    # bfloat16 has 8 bits with the leading one, so that rounding is off by 2^-8 of the value at most.
    assert (error <= 2.0**-8 * np.abs(data @ weight) + 1e-4).all()


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_instruction_by_the_layout_of_its_fragments(gpu, depth, dtype):
    left = np.arange(16 * depth).reshape(16, depth) % 13
    right = np.arange(depth * 8).reshape(depth, 8) % 11
    inputs = [matrix.astype(np.dtype(getattr(ml_dtypes, dtype, dtype))) for matrix in (left, right)]
    execution = gpu.run(one_mma(depth, dtype), TARGET, inputs, order=7, trace=True)
    assert execution.failure is None and execution.races == ()
    np.testing.assert_array_equal(execution.output, left @ right)
