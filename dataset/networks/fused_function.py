"""One TIR function of several that are called in a row, as TVM's own fusion makes it."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.tirx import PrimFunc

from ..tvm_compat import layout_free, with_layout_free


def fused_function(functions: Sequence[PrimFunc], reads: Sequence[int], store: bool = False) -> PrimFunc:
    """A function that calls these one after the other.

    Args:
        functions: each with one output, its last parameter.
        reads: index of the parameter of each function but the first that is the output of the one before.
        store: whether what is between them is stored in tensors, which are outputs, too.

    Its parameters are those of all functions in order but for `reads`, and the last output, or all outputs.
    """
    builder = relax.BlockBuilder()
    callees = [
        builder.add_func(function.without_attr("global_symbol"), f"part{number}")
        for number, function in enumerate(functions)
    ]
    given = [
        [
            relax.Var(f"p{number}_{index}", kind_of(param))
            for index, param in enumerate(function.params[:-1])
            if number == 0 or index != reads[number - 1]
        ]
        for number, function in enumerate(functions)
    ]
    every = [var for own in given for var in own]
    with builder.function("fused", every, attrs={"Primitive": True}):
        with builder.dataflow():
            results: list[relax.Expr] = []
            for number, (function, callee, own) in enumerate(zip(functions, callees, given, strict=True)):
                arguments = list(own)
                if results:
                    arguments.insert(reads[number - 1], results[-1])
                call = relax.call_tir(callee, arguments, kind_of(function.params[-1]))
                results.append(builder.emit(call))
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
    free, place = [], 0
    for number, source in enumerate(functions):
        chosen = layout_free(source)
        for index in range(len(source.params) - 1):
            if number == 0 or index != reads[number - 1]:
                free += [place] if index in chosen else []
                place += 1
    return with_layout_free(function, free)


def kind_of(buffer: tvm.tirx.Buffer) -> relax.TensorType:
    """Shape and data type of a tensor that a function takes."""
    return relax.TensorType([int(extent) for extent in buffer.shape], str(buffer.dtype))
