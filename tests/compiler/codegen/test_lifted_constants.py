"""A module without its constants computes the same if it gets them as arguments."""

from __future__ import annotations

import numpy as np
import tvm
from foretune.compiler.codegen.lifted_constants import with_lifted_constants
from tvm import relax


def test_constants_are_arguments_each_once() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    ten, hundred = (relax.const(np.array([value] * 2, np.float32)) for value in (10, 100))
    with builder.function("main", [x]):
        with builder.dataflow():
            sums = [builder.emit(relax.op.add(x, one)) for one in (ten, hundred, ten)]
            output = builder.emit_output(relax.Tuple([*sums, hundred]))
        builder.emit_func_output(output)
    bare, constants = with_lifted_constants(builder.get())
    np.testing.assert_array_equal([one.numpy() for one in constants], [[10, 10], [100, 100]])
    assert len(bare["main"].params) == 3
    left: list[object] = []
    relax.analysis.post_order_visit(
        bare["main"], lambda expr: left.append(expr) if isinstance(expr, tvm.ir.GenericConst) else None
    )
    assert left == []
    machine = relax.VirtualMachine(tvm.compile(bare, target="llvm"), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(np.array([1, 2], np.float32)), *constants)
    np.testing.assert_array_equal(
        [one.numpy() for one in found], [[11, 12], [101, 102], [11, 12], [100, 100]]
    )
