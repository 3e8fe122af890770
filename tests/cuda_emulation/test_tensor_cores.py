"""Programs for tensor cores, by WMMA and by MMA: right results, without races, and faults that are noticed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from foretune.dataset.operators import BatchMatmul, Conv2d, Dense, OperatorSettings
from foretune.dataset.replay import RejectedError, candidate_trace_json, instantiate
from foretune.dataset.tvm_compat import MMA, WMMA, design_spaces, make_tune_context, tensor_core_way
from foretune.inference.spaces.stock import StockSpace
from support.cuda_emulation import Removal
from support.cuda_programs import TARGET, Prepared
from tvm.s_tir.schedule import Trace

PROGRAMS = 24
"""Random programs of each kind."""

BARRIER = r"^\s*__syncthreads\(\);"
LOADS = r"^\s*\"ldmatrix.*\n"

PRODUCTS = {
    "float16": Dense(rows=64, in_features=64, out_features=32, dtype="float16", epilogue="bias_relu"),
    "bfloat16": Dense(rows=64, in_features=64, out_features=32, dtype="bfloat16", epilogue="bias_gelu"),
    "int8": Dense(rows=32, in_features=64, out_features=32, dtype="int8", epilogue="bias"),
}
KINDS = [("float16", WMMA), ("bfloat16", WMMA), ("int8", WMMA), ("float16", MMA), ("bfloat16", MMA)]

OTHERS = [
    Dense(rows=50, in_features=72, out_features=90, dtype="bfloat16", epilogue="bias"),
    BatchMatmul(batch=2, rows=32, inner=32, columns=48, dtype="bfloat16", transpose_right=True),
    Conv2d(
        batch=1,
        in_channels=16,
        height=8,
        width=8,
        out_channels=32,
        kernel=(3, 3),
        padding=(1, 1),
        dtype="float16",
        layout="NHWC",
        epilogue="bias_relu",
    ),
]
"""Tasks that need padding, have batches, or are convolutions."""


def programs(op: OperatorSettings, way: str, count: int) -> Iterator[tvm.IRModule]:
    """Random programs of a task for one way to use tensor cores; fewer only if few of many draws are valid."""
    task = Prepared.of(op).task
    context = make_tune_context(task.mod, TARGET, seed=0, space=StockSpace(None).generator(TARGET))
    sketches = [
        space for space in design_spaces(context, task.name) if tensor_core_way(str(space.trace)) == way
    ]
    found = 0
    for draw in range(30 * count if sketches else 0):
        if found == count:
            return
        trace = Trace(sketches[draw % len(sketches)].trace.insts, {})
        try:
            candidate = instantiate(context, trace, draw + 1)
        except RejectedError:
            continue
        assert tensor_core_way(candidate_trace_json(candidate)) == way
        found += 1
        yield candidate.sch.mod


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "way"), KINDS)
def test_random_programs_compute_the_right_result(gpu, dtype, way):
    prepared = Prepared.of(PRODUCTS[dtype])
    executed = 0
    for mod in programs(PRODUCTS[dtype], way, PROGRAMS):
        execution = gpu.run(mod, TARGET, prepared.inputs, order=7, trace=True)
        assert execution.failure is None and execution.races == ()
        assert prepared.is_right(execution.output), prepared.error(execution.output)
        executed += 1
    assert executed == PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("op", OTHERS, ids=lambda op: f"{op.operator}-{op.label}")
@pytest.mark.parametrize("way", [WMMA, MMA])
def test_padded_batched_and_convolved_products_are_right(gpu, op, way):
    prepared = Prepared.of(op)
    for mod in programs(op, way, 3):
        execution = gpu.run(mod, TARGET, prepared.inputs, order=7, trace=True)
        assert execution.failure is None and execution.races == ()
        assert prepared.is_right(execution.output), prepared.error(execution.output)


def test_mma_in_any_order_and_faults_of_its_programs(gpu):
    op = PRODUCTS["bfloat16"]
    prepared = Prepared.of(op)
    (mod,) = programs(op, MMA, 1)
    for run in gpu.run_in_orders(mod, TARGET, prepared.inputs, ["ascending", "descending", 7], trace=True):
        assert run.races == () and prepared.is_right(run.output)
    removed = gpu.run(mod, TARGET, prepared.inputs, trace=True, removed=Removal(BARRIER))
    assert removed.races != ()
    # A matrix instruction is not compiled as something else.
    with pytest.raises(RuntimeError, match="inline assembly is not emulated"):
        gpu.run(mod, TARGET, prepared.inputs, removed=Removal(LOADS))


def test_bfloat16_sums_are_those_of_float32(gpu):
    """By NumPy: products of bfloat16 are exact in float32, and the sums are rounded once."""
    op = Dense(rows=32, in_features=32, out_features=32, dtype="bfloat16")
    prepared = Prepared.of(op)
    data, weight = (values.astype(np.float64) for values in prepared.inputs)
    expected = data @ weight
    for way in (WMMA, MMA):
        for mod in programs(op, way, 1):
            output = gpu.run(mod, TARGET, prepared.inputs).output.astype(np.float64)
            assert np.abs(output - expected).max() <= 2.0**-8 * np.abs(expected).max()
