"""Functions check the arrays of the caller, and those alone."""

from __future__ import annotations

import numpy as np
import tvm
from foretune.compiler.codegen.argument_checks import marked_internal
from foretune.compiler.codegen.passes import improve_code
from foretune.compiler.tvm_compat import parse_target
from tvm import relax, te

TYPE = relax.TensorType((4,), "float32")


def increment() -> tvm.tirx.PrimFunc:
    a = te.placeholder((4,), "float32", "a")
    return te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1)]).without_attr("global_symbol")


def chain() -> tvm.IRModule:
    """Relax module of functions that add 1; each has the name of its argument."""
    builder = relax.BlockBuilder()
    names = ("input", "result", "view", "both", "constant", "unused")
    add = {name: builder.add_func(increment().with_attr("name", name), name) for name in names}
    x = relax.Var("x", TYPE)

    def call(name: str, argument: relax.Expr) -> relax.Var:
        return builder.emit(relax.call_tir(add[name], [argument], TYPE))

    with builder.function("main", [x]):
        one = call("input", x)
        two = call("result", one)
        three = call("result", builder.emit(two))
        four = call("view", builder.emit(relax.op.reshape(x, (4,))))
        five = call("both", builder.emit(relax.op.add(call("both", three), x)))
        six = call("constant", relax.const(np.zeros(4, np.float32)))
        builder.emit_func_output(relax.Tuple([three, four, five, six]))
    return builder.get()


def test_only_functions_that_get_arrays_of_the_network_are_marked() -> None:
    marked = marked_internal(chain())
    names = {
        var.name_hint for var, func in marked.functions_items() if "foretune.unchecked" in (func.attrs or {})
    }
    assert names == {"result", "constant"}


def test_marked_functions_are_compiled_without_checks() -> None:
    improve_code()
    target = parse_target("llvm")
    mod = marked_internal(chain())
    parts = {
        name: tvm.IRModule({name: mod[name].with_attr("global_symbol", name)}) for name in ("input", "result")
    }
    sources = {name: tvm.tirx.build(part, target=target).inspect_source("ll") for name, part in parts.items()}
    assert "Mismatched" in sources["input"] and "Mismatched" not in sources["result"]


def test_the_results_are_the_same() -> None:
    improve_code()
    machine = relax.VirtualMachine(tvm.compile(marked_internal(chain()), parse_target("llvm")), tvm.cpu())
    three, four, five, six = machine["main"](tvm.runtime.tensor(np.arange(4, dtype=np.float32)))
    np.testing.assert_array_equal(three.numpy(), [3, 4, 5, 6])
    np.testing.assert_array_equal(four.numpy(), [1, 2, 3, 4])
    np.testing.assert_array_equal(five.numpy(), [5, 7, 9, 11])
    np.testing.assert_array_equal(six.numpy(), [1, 1, 1, 1])
