"""Reshapes of symbolic extents that become views, and other moves that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from foretune.compiler.networks.dynamic.views import with_views
from tvm import relax, te, topi

SYMBOLS = {"b": "int64", "n": "int64"}


def network(move: Any) -> tvm.IRModule:
    """A Relax function of float32 [b, n, 6] that calls one function."""
    b, n = (tvm.tirx.Var(name, dtype) for name, dtype in SYMBOLS.items())
    data = te.placeholder([b, n, tvm.tirx.const(6, "int64")], name="data")
    output = move(data, b, n)
    func = te.create_prim_func([data, output], index_dtype_override="int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(data.shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            var = builder.add_func(func.without_attr("global_symbol"), "move")
            call = relax.call_tir(var, [x], relax.TensorType(output.shape, "float32"))
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return builder.get()


def merged(data: Any, b: Any, n: Any) -> Any:
    """TVM recognises rows of b * n, but not of n * b."""
    return topi.reshape(data, [n * b, tvm.tirx.const(6, "int64")])


def test_merged_axes_are_a_view() -> None:
    before = network(merged)
    after = with_views(before, {"b": (1, 4), "n": (1, 7)})
    assert not relax.analysis.has_reshape_pattern(before["move"])
    assert relax.analysis.has_reshape_pattern(after["move"])
    machine = relax.VirtualMachine(tvm.compile(after, "llvm"), tvm.cpu())
    for sizes in ((1, 1), (3, 1), (1, 5), (4, 7)):
        x = np.random.default_rng(0).standard_normal((*sizes, 6)).astype(np.float32)
        found = machine["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_array_equal(found, x.reshape(found.shape))


def turned(data: Any, b: Any, n: Any) -> Any:
    return te.compute(
        [b * n, tvm.tirx.const(6, "int64")], lambda row, at: data[row % b, row // b, at], "turned"
    )


def test_a_transposition_is_no_view() -> None:
    """Its rows are those of a reshape in another order."""
    before = network(turned)
    tvm.ir.assert_structural_equal(with_views(before, {"b": (1, 4), "n": (1, 7)}), before)
