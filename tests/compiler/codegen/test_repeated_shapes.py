"""Shapes of symbolic extents that a network makes once."""

from __future__ import annotations

import re

import numpy as np
import tvm
from foretune.compiler.codegen.repeated_shapes import without_repeated_shapes
from tvm import relax, tirx

COUNT = 5


def network() -> tvm.IRModule:
    """COUNT functions in a row of float32 [n, 4], of which each needs the shape of its result."""
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([n, tirx.IntImm("int64", 4)], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result: relax.Expr = x
            for _ in range(COUNT):
                result = builder.emit(relax.op.add(result, relax.op.exp(result)))
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.get()


def shapes_of(mod: tvm.IRModule) -> list[str]:
    """Arguments of the calls that make a shape."""
    return re.findall(r"make_shape\", shape_heap, ([^a-z]*), ty_args", mod["main"].script())


def test_each_shape_is_made_once_and_the_network_computes_the_same() -> None:
    with tvm.target.Target("llvm"):
        lowered = relax.get_pipeline("default")(network())
    changed = without_repeated_shapes()(lowered)
    made, left = shapes_of(lowered), shapes_of(changed)
    assert len(made) >= COUNT and len(set(made)) < len(made)
    assert sorted(left) == sorted(set(made))
    pipeline = tvm.transform.Sequential([relax.get_pipeline("default"), without_repeated_shapes()])
    machine = relax.VirtualMachine(tvm.compile(network(), "llvm", relax_pipeline=pipeline), tvm.cpu())
    for rows in (1, 3, 64):
        x = expected = np.linspace(-6, -4, rows * 4, dtype=np.float32).reshape(rows, 4)
        for _ in range(COUNT):
            expected = expected + np.exp(expected)
        found = machine["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5)
