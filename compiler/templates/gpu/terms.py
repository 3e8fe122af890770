"""Elements of arrays as sums of scaled elements of others: how reshapes, transpositions and scales are read.

An array that is only moved, cast, scaled or added to is traced to its sources, with the place of each
element. So it does not matter in which steps a network spells a rearrangement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock

from ...operators.shared.tir import extents

Places = NDArray[np.int64]

_INTEGERS: Mapping[str, Any] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
}


class UntraceableError(Exception):
    """A step other than a rearrangement, scale or sum."""


@dataclass(frozen=True)
class Summand:
    """One summand of each element of an array."""

    source: Any
    """Array that the elements are read from."""
    factor: float
    places: Places
    """Place of each element in the flat source; of the shape that was asked for."""


class Tracer:
    """Traces arrays of a function to its parameters, and to arrays that steps of another kind write."""

    def __init__(self, blocks: Sequence[SBlock]) -> None:
        self.blocks = blocks
        self._writer = {block.writes[0].source: block for block in blocks}

    def writer(self, array: Any) -> SBlock | None:
        """The block that writes an array, None for a parameter."""
        return self._writer.get(array)

    def terms(self, array: Any, at: Places, stops: Sequence[Any] = ()) -> list[Summand]:
        """Terms of the elements at these places of the flat array; `stops` are not traced further.

        Raises UntraceableError.
        """
        block = self._writer.get(array)
        if block is None or any(array.same_as(stop) for stop in stops):
            return [Summand(array, 1.0, at)]
        if block.init is not None or not isinstance(block.body, tirx.BufferStore):
            raise UntraceableError
        return self._summands_of(block.body.value, self.loops(block, at), stops)

    def loops(self, block: SBlock, at: Places) -> dict[Any, Places]:
        """Loop values of a block at which it writes these places of its flat output."""
        found = np.unravel_index(at, extents(block.writes[0].source))
        every = dict.fromkeys((loop.var for loop in block.iter_vars), np.zeros(1, np.int64))
        for index, values in zip(block.body.indices, found, strict=True):
            if isinstance(index, tirx.Var):
                every[index] = values
            elif not isinstance(index, tirx.IntImm):
                raise UntraceableError
        return every

    def read(self, load: TensorLoad, loops: Mapping[Any, Places], stops: Sequence[Any] = ()) -> list[Summand]:
        """Terms of the elements that a load reads in these iterations."""
        shape = extents(load.source)
        indices = [np.broadcast_arrays(_integers(index, loops))[0] for index in load.indices]
        at = np.ravel_multi_index(np.broadcast_arrays(*indices), shape)
        return self.terms(load.source, np.asarray(at, np.int64), stops)

    def _summands_of(self, value: Any, loops: Mapping[Any, Places], stops: Sequence[Any]) -> list[Summand]:
        if isinstance(value, TensorLoad):
            return self.read(value, loops, stops)
        if isinstance(value, tirx.Cast):
            if "float" not in str(value.ty.dtype):
                raise UntraceableError
            return self._summands_of(value.value, loops, stops)
        if isinstance(value, tirx.FloatImm) and value.value == 0.0:
            return []
        if isinstance(value, tirx.Mul):
            factor, other = _constant_first(self, value.a, value.b)
            return [
                replace(term, factor=term.factor * factor) for term in self._summands_of(other, loops, stops)
            ]
        if isinstance(value, tirx.Div) and (divisor := self.constant(value.b)):
            return [
                replace(term, factor=term.factor / divisor)
                for term in self._summands_of(value.a, loops, stops)
            ]
        if isinstance(value, tirx.Add):
            return self._summands_of(value.a, loops, stops) + self._summands_of(value.b, loops, stops)
        chosen = _chosen(value)
        if chosen is not None and self._summands_of(chosen[0], loops, stops) == []:
            # Zeros for rows without a finite score: whoever takes the other value checks that it is right.
            return self._summands_of(chosen[1], loops, stops)
        raise UntraceableError

    def constant(self, value: Any) -> float | None:
        """Value of a constant expression, or of an array with one value in each element; else None."""
        if isinstance(value, tirx.FloatImm | tirx.IntImm):
            return float(value.value)
        if isinstance(value, tirx.Cast):
            return self.constant(value.value)
        if isinstance(value, TensorLoad):
            block = self._writer.get(value.source)
            if block is not None and isinstance(block.body, tirx.BufferStore) and block.init is None:
                return self.constant(block.body.value)
        return None


def _constant_first(tracer: Tracer, first: Any, second: Any) -> tuple[float, Any]:
    for constant, other in ((first, second), (second, first)):
        factor = tracer.constant(constant)
        if factor is not None:
            return factor, other
    raise UntraceableError


def _chosen(value: Any) -> tuple[Any, Any] | None:
    """Both values of a choice; None for other expressions."""
    if isinstance(value, tirx.Select):
        return value.true_value, value.false_value
    if isinstance(value, Call) and str(value.op.name).endswith("if_then_else"):
        return value.args[1], value.args[2]
    return None


def _integers(index: Any, loops: Mapping[Any, Places]) -> Places:
    """Values of an index."""
    if isinstance(index, tirx.Var):
        if index not in loops:
            raise UntraceableError
        return loops[index]
    if isinstance(index, tirx.IntImm):
        return np.full(1, int(index.value), np.int64)
    operator = _INTEGERS.get(type(index).__name__)
    if operator is None:
        raise UntraceableError
    return np.asarray(operator(_integers(index.a, loops), _integers(index.b, loops)), np.int64)
