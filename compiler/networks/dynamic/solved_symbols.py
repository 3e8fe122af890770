"""Symbols that no input has as an extent of its own, such as `n` for inputs of `8*n` rows.

TVM reads the value of a symbol from an extent that is the symbol alone. So a new entry solves the extents of
the inputs for the others, and calls the function with their values as a further argument.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from ...dynamic.symbols import Extent
from .dynamic_inputs import DynamicInputs, Shape
from .expressions import INDEX


def with_solved_symbols(mod: tvm.IRModule, dynamic: DynamicInputs, entries: Collection[str]) -> tvm.IRModule:
    """The module whose functions solve the shapes of their inputs for all symbols.

    `entries` are names of functions that it may have.
    """
    extents = {extent for shape in dynamic.shapes for extent in shape or ()}
    missing = [name for name in dynamic.symbols if Extent(name) not in extents]
    if not missing:
        return mod
    functions = {var.name_hint for var, _ in mod.functions_items()}
    for entry in functions.intersection(entries):
        mod = _with_entry(mod, dynamic, entry, missing)
    return mod


def _with_entry(
    mod: tvm.IRModule, dynamic: DynamicInputs, entry: str, missing: Collection[str]
) -> tvm.IRModule:
    func = mod[entry]
    variables = {
        var.name: var
        for param in func.params
        for extent in getattr(param.ty, "shape", None) or ()
        for var in tirx.analysis.undefined_vars(extent)
    }
    sizes = relax.Var("sizes", relax.ShapeType([variables[name] for name in missing]))
    attributes = {key: value for key, value in (func.attrs or {}).items() if key != "global_symbol"}
    inner = relax.Function([*func.params, sizes], func.body, func.ret_ty, func.is_pure)
    for key, value in attributes.items():
        inner = inner.with_attr(key, value)
    others = {var: one for var, one in mod.functions_items() if var.name_hint != entry}
    builder = relax.BlockBuilder(tvm.IRModule(others, attrs=mod.attrs))
    called = builder.add_func(inner, f"{entry}_with_sizes")
    given, values = _given(func.params, dynamic.shapes)
    with builder.function(entry, given):
        arguments = [
            outer
            if shape is None
            else builder.match_cast(outer, relax.TensorType(_extents(shape, values), outer.ty.dtype))
            for outer, shape in zip(given, dynamic.shapes, strict=True)
        ]
        solved = relax.ShapeExpr([values[name] for name in missing])
        builder.emit_func_output(builder.emit(relax.Call(called, [*arguments, solved])))
    return builder.finalize()


def _given(
    params: Collection[relax.Var], shapes: Collection[Shape | None]
) -> tuple[list[relax.Var], Mapping[str, Any]]:
    """Inputs whose extents are variables of their own, and the value of each symbol in terms of them."""
    found: list[relax.Var] = []
    values: dict[str, Any] = {}
    solved: dict[str, Any] = {}
    for param, shape in zip(params, shapes, strict=True):
        if shape is None:
            found.append(relax.Var(param.name, param.ty))
            continue
        extents: list[Any] = []
        for axis, extent in enumerate(shape):
            if not isinstance(extent, Extent):
                extents.append(tirx.IntImm(INDEX, extent))
            elif extent == Extent(extent.symbol):
                extents.append(values.setdefault(extent.symbol, tirx.Var(extent.symbol, INDEX)))
            else:
                variable = tirx.Var(f"{param.name}_{axis}", INDEX)
                extents.append(variable)
                solved.setdefault(extent.symbol, tirx.floordiv(variable - extent.offset, extent.factor))
        found.append(relax.Var(param.name, relax.TensorType(extents, param.ty.dtype)))
    return found, {**solved, **values}


def _extents(shape: Shape, values: Mapping[str, Any]) -> list[Any]:
    return [
        values[one.symbol] * one.factor + one.offset if isinstance(one, Extent) else tirx.IntImm(INDEX, one)
        for one in shape
    ]
