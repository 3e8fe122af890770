"""Constants get the layouts of schedules, and the functions that gave them are left out."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.packed_weights import with_packed_weights
from foretune.compiler.types import numpy_type
from tvm import relax
from tvm.script import tirx as T

ROWS, COLUMNS = 2, 4


def product(dtype: str) -> tvm.tirx.PrimFunc:
    """x @ w, which reads w in two halves of two columns each."""

    @T.prim_func(private=True, s_tir=True)
    def func(x: T.Buffer((2,), dtype), w: T.Buffer((2, 4), dtype), y: T.Buffer((4,), dtype)):
        T.func_attr({"layout_free_buffers": [1]})
        with T.sblock("root"):
            halves = T.sblock_alloc_buffer((2, 2, 2), dtype)
            for i, j in T.grid(2, 4):
                with T.sblock("layout"):
                    row, column = T.axis.remap("SS", [i, j])
                    T.reads(w[row, column])
                    T.writes(halves[column // 2, row, column % 2])
                    T.sblock_attr({"meta_schedule.layout_rewrite_preproc": True})
                    halves[column // 2, row, column % 2] = w[row, column]
            for i, j in T.grid(4, 2):
                with T.sblock("product"):
                    column, row = T.axis.remap("SR", [i, j])
                    T.reads(x[row], halves[column // 2, row, column % 2])
                    T.writes(y[column])
                    with T.init():
                        y[column] = T.Cast(dtype, T.float32(0))
                    y[column] = y[column] + x[row] * halves[column // 2, row, column % 2]

    return func


def two_products(weights: list[object], dtype: str = "float32") -> tvm.IRModule:
    """Relax module of two products of one input with two weights; None stands for a second input."""
    builder = relax.BlockBuilder()
    name = builder.add_func(product(dtype), "product")
    x = relax.Var("x", relax.TensorType((ROWS,), dtype))
    other = relax.Var("other", relax.TensorType((ROWS, COLUMNS), dtype))
    with builder.function("main", [x, other]):
        with builder.dataflow():
            results = [
                builder.emit(
                    relax.call_tir(
                        name,
                        [x, other if values is None else relax.const(values, dtype)],
                        relax.TensorType((COLUMNS,), dtype),
                    )
                )
                for values in weights
            ]
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    return builder.get()


def constants(mod: tvm.IRModule) -> list[np.ndarray]:
    found = []

    def visit(expr: object) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            found.append(expr.value.numpy())

    relax.analysis.post_order_visit(mod["main"], visit)
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_each_constant_gets_the_layout_and_nothing_else_is_left(dtype: str) -> None:
    first = np.arange(8).reshape(ROWS, COLUMNS).astype(numpy_type(dtype))
    packed = with_packed_weights(two_products([first, first + first], dtype))
    # Columns 0 and 1 of both rows, then columns 2 and 3.
    halves = np.array([[[0, 1], [4, 5]], [[2, 3], [6, 7]]])
    found = constants(packed)
    assert len(found) == 2
    np.testing.assert_array_equal(found[0].astype(int), halves)
    np.testing.assert_array_equal(found[1].astype(int), 2 * halves)
    assert {str(one.dtype) for one in found} == {dtype}
    assert {var.name_hint for var in packed.get_global_vars()} == {"main", "product_prepacked"}


@pytest.mark.parametrize("weights", [[None], [None, np.ones((2, 4), np.float32)]])
def test_the_layout_of_an_input_changes_in_each_run(weights: list[object]) -> None:
    packed = with_packed_weights(two_products(weights))
    assert "product_weight_prepack" in {var.name_hint for var in packed.get_global_vars()}
    machine = relax.VirtualMachine(tvm.compile(packed, "llvm"), tvm.cpu())
    x, other = np.array([1, 10], np.float32), np.arange(8, dtype=np.float32).reshape(2, 4)
    results = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(other))
    for values, result in zip(weights, results, strict=True):
        np.testing.assert_array_equal(result.numpy(), x @ (other if values is None else values))
