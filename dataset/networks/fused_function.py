"""One TIR function of several that are called in a row, as TVM's own fusion makes it."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.tirx import PrimFunc

from ..tvm_compat import layout_free, with_layout_free


def fused_function(functions: Sequence[PrimFunc], reads: Sequence[int]) -> PrimFunc:
    """A function that calls these one after the other, without storing what is between them in a tensor.

    Args:
        functions: each with one output, its last parameter.
        reads: index of the parameter of each function but the first that is the output of the one before.

    Its parameters are those of all functions in order but for `reads`, and the last output.
    """
    builder = relax.BlockBuilder()
    callees = [
        builder.add_func(function.without_attr("global_symbol"), f"part{number}")
        for number, function in enumerate(functions)
    ]
    given = [
        [
            relax.Var(f"p{number}_{index}", _kind(param))
            for index, param in enumerate(function.params[:-1])
            if number == 0 or index != reads[number - 1]
        ]
        for number, function in enumerate(functions)
    ]
    every = [var for own in given for var in own]
    with builder.function("fused", every, attrs={"Primitive": True}):
        with builder.dataflow():
            result = None
            for number, (function, callee, own) in enumerate(zip(functions, callees, given, strict=True)):
                arguments = list(own)
                if result is not None:
                    arguments.insert(reads[number - 1], result)
                call = relax.call_tir(callee, arguments, _kind(function.params[-1]))
                last = number == len(functions) - 1
                result = builder.emit_output(call) if last else builder.emit(call)
        builder.emit_func_output(result)
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
    free, place = [], 0
    for number, source in enumerate(functions):
        chosen = layout_free(source)
        for index in range(len(source.params) - 1):
            if number == 0 or index != reads[number - 1]:
                free += [place] if index in chosen else []
                place += 1
    return with_layout_free(function, free)


def _kind(buffer: tvm.tirx.Buffer) -> relax.TensorType:
    return relax.TensorType([int(extent) for extent in buffer.shape], str(buffer.dtype))
