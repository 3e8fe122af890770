"""View of a TIR function in which operators recognise themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.stmt import SBlock
from tvm.sym import detect_linear_equation


@dataclass(frozen=True)
class TirFunction:
    """Blocks of an unscheduled TIR function. Their names are those of TVM's operator library."""

    anchor: SBlock
    """The reduction with the most operations."""
    blocks: Mapping[str, SBlock]
    """All blocks by name."""


def extents(buffer: Any) -> list[int]:
    """Shape of a buffer as integers."""
    return [int(extent) for extent in buffer.shape]


def linear(index: Any, iteration: Any) -> tuple[int, int]:
    """Coefficient of the loop variable in `index`, and the constant term.

    TVM simplifies the variable of a loop with one iteration away; its coefficient reads as 1.
    """
    variables = {iteration.var}
    tvm_ffi.structural_walk(index, (tvm.tirx.Var, variables.add))
    ordered = sorted(variables, key=lambda var: not var.same_as(iteration.var))
    terms = detect_linear_equation(index, ordered)
    return (int(terms[0]) or 1, int(terms[-1])) if terms else (1, 0)


def substituted(node: Any, values: Mapping[Any, Any]) -> Any:
    """An expression or statement with values, expressions or integers, in place of variables."""

    def value_of(var: tvm.tirx.Var) -> Any:
        value = values.get(var, var)
        return tvm.tirx.const(value, var.ty.dtype) if isinstance(value, int) else value

    return tvm_ffi.structural_map(node, (tvm.tirx.Var, value_of))


def per_axis(values: list[int]) -> Any:
    """Values as settings store them: a number for one axis, a list for more."""
    return values[0] if len(values) == 1 else values
