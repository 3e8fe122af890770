"""One TIR function of several that are called in a row, as TVM's own fusion makes it."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.tirx import PrimFunc

from ...tvm_compat import layout_free, with_layout_free


def fused_function(functions: Sequence[PrimFunc], reads: Sequence[int], store: bool = False) -> PrimFunc:
    """A function that calls these in order.

    Args:
        functions: each with one output, its last parameter.
        reads: index of the parameter of each function but the first that is the output of the one before.
        store: whether the values between them are stored in tensors, which are outputs, too.

    Its parameters are those of all functions in order but for `reads`, and the last output, or all outputs.
    """
    free: list[int] = []
    arguments: list[list[int]] = []
    count = 0
    for number, function in enumerate(functions):
        chosen, own = layout_free(function), []
        for index in range(len(function.params) - 1):
            if number and index == reads[number - 1]:
                own.append(~(number - 1))
                continue
            free += [count] if index in chosen else []
            own.append(count)
            count += 1
        arguments.append(own)
    return with_layout_free(joined_function(functions, arguments, store), free)


def joined_function(
    functions: Sequence[PrimFunc], arguments: Sequence[Sequence[int]], store: bool = False
) -> PrimFunc:
    """A function that calls these in order.

    Args:
        functions: each with one output, its last parameter.
        arguments: number of each argument of each function among the inputs, or `~number` for the output of
            the function of that number, which is one before it.
        store: whether all outputs are outputs of the function, and not the last one alone.

    Its parameters are the inputs and the output, or all outputs.
    """
    builder = relax.BlockBuilder()
    callees = [
        builder.add_func(function.without_attr("global_symbol"), f"part{number}")
        for number, function in enumerate(functions)
    ]
    kinds = {
        number: kind_of(function.params[index])
        for function, own in zip(functions, arguments, strict=True)
        for index, number in enumerate(own)
        if number >= 0
    }
    every = [relax.Var(f"p{number}", kinds[number]) for number in range(len(kinds))]
    with builder.function("fused", every, attrs={"Primitive": True}):
        with builder.dataflow():
            results: list[relax.Expr] = []
            for function, callee, own in zip(functions, callees, arguments, strict=True):
                given = [every[number] if number >= 0 else results[~number] for number in own]
                results.append(builder.emit(relax.call_tir(callee, given, kind_of(function.params[-1]))))
            output = builder.emit_output(relax.Tuple(results) if store else results[-1])
        builder.emit_func_output(output)
    fused = builder.get().get_global_var("fused")
    outside = [relax.Var(var.name, var.ty) for var in every]
    with builder.function("main", outside):
        with builder.dataflow():
            output = builder.emit_output(relax.Call(fused, outside))
        builder.emit_func_output(output)
    mod = relax.transform.FuseTIR()(builder.get())
    (function,) = (
        f for var, f in mod.functions_items() if isinstance(f, PrimFunc) and var.name_hint == "fused"
    )
    return function


def kind_of(buffer: tvm.tirx.Buffer) -> relax.TensorType:
    """Shape and data type of a tensor that a function takes."""
    return relax.TensorType([int(extent) for extent in buffer.shape], str(buffer.dtype))
