"""NaN in maxima and minima."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.tvm_compat import as_task_module, parse_target
from tvm import te, tirx
from tvm.s_tir.schedule import Schedule

pytestmark = pytest.mark.cpu

SIZE, ZERO = 16, tirx.const(0, "float32")

FUNCTIONS = {
    "max(x, 0)": (lambda x, y: tirx.Max(x, ZERO), lambda x, y: np.maximum(x, 0)),
    "min(max(x, 0), 6)": (
        lambda x, y: tirx.Min(tirx.Max(x, ZERO), tirx.const(6, "float32")),
        lambda x, y: np.clip(x, 0, 6),
    ),
    "max(x, y)": (tirx.Max, np.maximum),
    "min(x, y)": (tirx.Min, np.minimum),
}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_maximum_is_nan_if_an_operand_is(name: str, lanes: int) -> None:
    function, expected = FUNCTIONS[name]
    x, y = (te.placeholder((SIZE,), "float32", name=one) for one in "xy")
    found = te.compute((SIZE,), lambda i: function(x[i], y[i]), name="found")
    schedule = Schedule(as_task_module(te.create_prim_func([x, y, found])))
    if lanes > 1:
        (loop,) = schedule.get_loops(schedule.get_sblock("found"))
        schedule.vectorize(schedule.split(loop, [None, lanes])[1])
    left, right = np.arange(SIZE, dtype=np.float32) - 8, np.linspace(9, -9, SIZE, dtype=np.float32)
    left[[2, 5]], right[[5, 11]] = np.nan, np.nan
    outputs = tvm.runtime.empty((SIZE,), "float32")
    run = compile_module(schedule.mod, parse_target("llvm")).jit()["main"]
    run(tvm.runtime.tensor(left), tvm.runtime.tensor(right), outputs)
    np.testing.assert_array_equal(outputs.numpy(), expected(left, right))


def test_a_running_maximum_stays_one_instruction() -> None:
    x, y = (te.placeholder((4, 32), "float32", name=one) for one in "xy")
    axis = te.reduce_axis((0, 32), "axis")
    running = te.compute((4,), lambda i: te.max(x[i, axis], axis=axis), name="largest")
    of_two = te.compute((4, 32), lambda i, j: tirx.Max(x[i, j], y[i, j]), name="largest")
    for tensors, compared in (([x, running], False), ([x, y, of_two], True)):
        module = compile_module(as_task_module(te.create_prim_func(tensors)), parse_target("llvm"))
        assert ("fcmp uno" in module.mod.inspect_source("ll")) == compared
