"""Expressions of PyTorch's symbols as expressions of TVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import sympy
from torch.export import ExportedProgram
from torch.utils._sympy import functions
from tvm import tirx

from ...dynamic.symbols import Extent
from ..importing.decomposing.errors import ConversionError
from .dynamic_inputs import DynamicInputs

INDEX = "int64"
"""Data type of extents."""


def as_tir(expression: Any, variables: Mapping[str, tirx.Var]) -> Any:
    """The expression in terms of `variables`, by the names of PyTorch's symbols.

    Whole numbers are int64, others are float64. Raises ConversionError for a function without counterpart,
    and for another symbol.
    """
    if isinstance(expression, sympy.Symbol):
        if str(expression) not in variables:
            raise ConversionError(f"an extent is {expression}, which follows from no input's extents")
        return variables[str(expression)]
    if isinstance(expression, sympy.Integer | int):
        return tirx.IntImm(INDEX, int(expression))
    if isinstance(expression, sympy.Float | sympy.Rational | float):
        return tirx.FloatImm("float64", float(expression))
    if isinstance(expression, tuple(_named("TruncToInt", "FloorToInt"))):
        return _whole_part(expression, variables)
    parts = [as_tir(part, variables) for part in getattr(expression, "args", ())]
    if isinstance(expression, sympy.Pow):
        exponent = expression.args[1]
        if isinstance(exponent, sympy.Integer) and int(exponent) > 0:
            return reduce(lambda left, right: left * right, [parts[0]] * int(exponent))
    for kind, make in _FUNCTIONS.items():
        if isinstance(expression, kind):
            return make(parts)
    raise ConversionError(f"the extent {expression} has no counterpart in TVM")


_LARGEST_DENOMINATOR = 64
"""Factors of extents are such fractions, or products with them would not be exact in floating point."""


def _whole_part(expression: Any, variables: Mapping[str, tirx.Var]) -> Any:
    """An extent times a factor, such as of a resizing, rounded down. Raises ConversionError."""
    factor, value = expression.args[0].as_coeff_Mul()
    share, exact = Fraction(float(factor)), isinstance(value, tuple(_named("ToFloat")))
    if not exact or share.denominator > _LARGEST_DENOMINATOR:
        raise ConversionError(f"the extent {expression} has no counterpart in TVM")
    (extent,) = value.args
    return tirx.floordiv(as_tir(extent, variables) * share.numerator, share.denominator)


def _floats(parts: list[Any]) -> list[Any]:
    return [tirx.Cast("float64", part) if str(part.ty.dtype) == INDEX else part for part in parts]


def _folded(make: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda parts: reduce(make, parts)


def _divided(parts: list[Any]) -> Any:
    left, right = _floats(parts)
    return tirx.Div(left, right)


def _named(*names: str) -> list[Any]:
    """Those of PyTorch's functions that this version has."""
    return [getattr(functions, name) for name in names if hasattr(functions, name)]


_FUNCTIONS: Mapping[Any, Callable[[list[Any]], Any]] = {
    sympy.Add: _folded(lambda left, right: left + right),
    sympy.Mul: _folded(lambda left, right: left * right),
    **dict.fromkeys((sympy.Max, *_named("Max")), _folded(tirx.max)),
    **dict.fromkeys((sympy.Min, *_named("Min")), _folded(tirx.min)),
    **dict.fromkeys(_named("FloorDiv", "CleanDiv"), lambda parts: tirx.floordiv(*parts)),
    **dict.fromkeys((sympy.Mod, *_named("Mod", "PythonMod")), lambda parts: tirx.floormod(*parts)),
    **dict.fromkeys(_named("IntTrueDiv", "FloatTrueDiv"), _divided),
    **dict.fromkeys(_named("ToFloat"), lambda parts: _floats(parts)[0]),
    **dict.fromkeys(_named("FloatPow"), lambda parts: tirx.pow(*_floats(parts))),
    **dict.fromkeys(_named("OpaqueUnaryFn_sqrt"), lambda parts: tirx.sqrt(_floats(parts)[0])),
}


def variables_of(program: ExportedProgram, dynamic: DynamicInputs) -> dict[str, tirx.Var]:
    """A variable of TVM with the user's name for each symbol of PyTorch in the inputs."""
    found: dict[str, tirx.Var] = {}
    variables = {name: tirx.Var(name, INDEX) for name in dynamic.symbols}
    inputs = [node for node in program.graph.find_nodes(op="placeholder") if node.name in _users(program)]
    for node, shape in zip(inputs, dynamic.shapes, strict=True):
        for given, extent in zip(node.meta["val"].shape, shape or (), strict=False):
            if isinstance(extent, Extent):
                for symbol in given.node.expr.free_symbols:
                    found[str(symbol)] = variables[extent.symbol]
    return found


def _users(program: ExportedProgram) -> Mapping[str, None]:
    return dict.fromkeys(program.graph_signature.user_inputs)
