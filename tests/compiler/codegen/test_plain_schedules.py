"""Plain schedules keep what a function computes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.plain_schedules import compiled_plainly, plainly_scheduled
from foretune.compiler.tvm_compat import parse_target
from tvm import relax, te, tirx

HERE = parse_target("llvm")


def product(columns: int) -> tvm.IRModule:
    """Relax module of max(x @ w, 0) for x of 3 x 5."""
    x, w = te.placeholder((3, 5), "float32", "x"), te.placeholder((5, columns), "float32", "w")
    k = te.reduce_axis((0, 5))
    y = te.compute((3, columns), lambda i, j: te.sum(x[i, k] * w[k, j], k))
    z = te.compute((3, columns), lambda i, j: tirx.max(y[i, j], tirx.const(0, "float32")))
    func = te.create_prim_func([x, w, z]).with_attr("global_symbol", "product")
    builder = relax.BlockBuilder()
    a, b = (relax.Var(one.name, relax.TensorType(one.shape, "float32")) for one in (x, w))
    name = builder.add_func(func, "product")
    with builder.function("main", [a, b]):
        called = relax.call_tir(name, [a, b], relax.TensorType((3, columns), "float32"))
        builder.emit_func_output(builder.emit(called))
    return builder.get()


@pytest.mark.parametrize(("columns", "vectors"), [(64, True), (8, True), (7, False)])
def test_a_product_is_the_same_with_a_plain_schedule(columns: int, vectors: bool) -> None:
    mod = product(columns)
    text = plainly_scheduled(mod)["product"].script()
    assert "T.parallel" in text and ("T.vectorized" in text) == vectors
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 5), np.float32), rng.standard_normal((5, columns), np.float32)
    machine = relax.VirtualMachine(compiled_plainly(mod, HERE).jit(), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w)).numpy()
    np.testing.assert_allclose(found, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)
