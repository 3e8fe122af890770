"""Constants get the layouts of schedules, and the functions that gave them are left out."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.packed_weights import with_packed_weights
from tvm import relax
from tvm.script import tirx as T

ROWS, COLUMNS = 2, 4


@T.prim_func(private=True, s_tir=True)
def product(x: T.Buffer((2,), "float32"), w: T.Buffer((2, 4), "float32"), y: T.Buffer((4,), "float32")):
    """x @ w, which reads w in two halves of two columns each."""
    T.func_attr({"layout_free_buffers": [1]})
    with T.sblock("root"):
        halves = T.sblock_alloc_buffer((2, 2, 2))
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
                    y[column] = T.float32(0)
                y[column] = y[column] + x[row] * halves[column // 2, row, column % 2]


def two_products(weights: list[object]) -> tvm.IRModule:
    """Relax module of two products of one input with two weights; None stands for a second input."""
    builder = relax.BlockBuilder()
    name = builder.add_func(product, "product")
    x = relax.Var("x", relax.TensorType((ROWS,), "float32"))
    other = relax.Var("other", relax.TensorType((ROWS, COLUMNS), "float32"))
    with builder.function("main", [x, other]):
        with builder.dataflow():
            results = [
                builder.emit(
                    relax.call_tir(
                        name,
                        [x, other if values is None else relax.const(values)],
                        relax.TensorType((COLUMNS,), "float32"),
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


def test_each_constant_gets_the_layout_and_nothing_else_is_left() -> None:
    first = np.arange(8, dtype=np.float32).reshape(ROWS, COLUMNS)
    packed = with_packed_weights(two_products([first, first + 10]))
    # Columns 0 and 1 of both rows, then columns 2 and 3.
    halves = np.array([[[0, 1], [4, 5]], [[2, 3], [6, 7]]], np.float32)
    found = constants(packed)
    assert len(found) == 2
    np.testing.assert_array_equal(found[0], halves)
    np.testing.assert_array_equal(found[1], halves + 10)
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
