"""Elements of a function's output, computed by numpy in float64 from its blocks, without compiling it.

A few elements show whether a function computes the problem that it was recognised as. Elements that they do
not depend on are never computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock

from ....operators.shared.tir import extents
from ..contraction import blocks_of
from ..dynamic.row_task import combination_of, reduced_of, spatial_of

Values = NDArray[Any]

_BINARY: Mapping[str, Any] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Max": np.maximum,
    "Min": np.minimum,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}

_FOLDS: Mapping[type, Any] = {tirx.Add: np.add, tirx.Max: np.maximum, tirx.Min: np.minimum}

_AT_ONCE = 1 << 20
"""Terms of reductions that are computed at once."""


class UnknownStepError(Exception):
    """A step that is not one of these."""


class SampledValues:
    """Values of the arrays of `main`, at the places that are asked for."""

    def __init__(self, mod: tvm.IRModule, inputs: Mapping[int, Values]) -> None:
        """`inputs` are the arrays of the parameters, by index."""
        params = mod["main"].params
        self._inputs = {params[index]: values.ravel() for index, values in inputs.items()}
        self._writers = {block.writes[0].source: block for block in blocks_of(mod)}
        self._output = params[-1]

    def output(self, places: Values) -> Values:
        """Elements of the flat output, the function's last parameter. Raises UnknownStepError."""
        with np.errstate(all="ignore"):
            return self._at(self._output, places)

    def _at(self, array: Any, places: Values) -> Values:
        if array in self._inputs:
            return np.asarray(self._inputs[array][places])
        block = self._writers.get(array)
        if block is None or not isinstance(block.body, tirx.BufferStore):
            raise UnknownStepError
        once, back = np.unique(places, return_inverse=True)
        found = self._reduced(block, once) if block.init is not None else self._stored(block, once)
        return np.broadcast_to(found, once.shape)[back].reshape(np.shape(places))

    def _loops(self, block: SBlock, places: Values) -> dict[Any, Values]:
        """Values of a block's own loops when it writes these places."""
        loops = {axis.var: np.zeros_like(places) for axis in spatial_of(block)}
        found = np.unravel_index(places, extents(block.writes[0].source))
        for index, values in zip(block.body.indices, found, strict=True):
            if isinstance(index, tirx.Var):
                loops[index] = values
            elif not isinstance(index, tirx.IntImm):
                raise UnknownStepError
        return loops

    def _stored(self, block: SBlock, places: Values) -> Values:
        return self._value(block.body.value, self._loops(block, places))

    def _reduced(self, block: SBlock, places: Values) -> Values:
        combined = combination_of(block)
        fold = None if combined is None else _FOLDS.get(combined[0])
        if combined is None or fold is None:
            raise UnknownStepError
        axes = reduced_of(block)
        sizes = [int(axis.dom.extent) for axis in axes]
        grid = np.indices(sizes).reshape(len(sizes), 1, -1)
        results = []
        for some in np.array_split(places, max(1, prod(sizes) * places.size // _AT_ONCE)):
            loops = {var: values[:, None] for var, values in self._loops(block, some).items()}
            loops |= {axis.var: along for axis, along in zip(axes, grid, strict=True)}
            terms = np.broadcast_to(self._value(combined[1], loops), (some.size, prod(sizes)))
            first = self._value(block.init.value, loops)
            results.append(fold(fold.reduce(terms, axis=1), np.broadcast_to(first, terms.shape)[:, 0]))
        return np.concatenate(results)

    def _value(self, node: Any, loops: Mapping[Any, Values]) -> Values:
        if isinstance(node, TensorLoad):
            indices = np.broadcast_arrays(*(self._value(index, loops) for index in node.indices))
            shape = extents(node.source)
            at = np.ravel_multi_index(tuple(index.astype(np.int64) for index in indices), shape, mode="clip")
            return self._at(node.source, np.asarray(at))
        if isinstance(node, tirx.Var):
            if node not in loops:
                raise UnknownStepError
            return loops[node]
        if isinstance(node, tirx.IntImm | tirx.FloatImm):
            return np.asarray(node.value)
        if isinstance(node, tirx.Cast):
            value, dtype = self._value(node.value, loops), str(node.ty.dtype)
            return value.astype(np.float64 if "float" in dtype else bool if dtype == "bool" else np.int64)
        if isinstance(node, tirx.Not):
            return np.logical_not(self._value(node.a, loops))
        if isinstance(node, tirx.Select):
            return self._chosen(node.condition, node.true_value, node.false_value, loops)
        if isinstance(node, Call):
            name = str(getattr(node.op, "name", ""))
            if name == "tirx.exp":
                return np.asarray(np.exp(self._value(node.args[0], loops)))
            if name == "tirx.if_then_else":
                condition, one, other = node.args
                return self._chosen(condition, one, other, loops)
        operation = _BINARY.get(type(node).__name__)
        if operation is None:
            raise UnknownStepError
        return np.asarray(operation(self._value(node.a, loops), self._value(node.b, loops)))

    def _chosen(self, condition: Any, one: Any, other: Any, loops: Mapping[Any, Values]) -> Values:
        return np.where(*(self._value(node, loops) for node in (condition, one, other)))
