"""Addresses of the operands of a product: a start for each row or panel, and a step for each term of a sum.

Each load of a kernel is then one variable plus one sum, however many symbolic extents the array has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import detect_linear_equation

from ..contraction import variables_of
from .nodes import INDEX, fixed, number, product, simple, split_index, with_loads, with_values
from .symbolic_product import SymbolicProduct


class Views:
    """Arrays of a kernel as one axis each."""

    def __init__(self) -> None:
        self.by_source: dict[Any, Any] = {}

    def of(self, source: Any) -> Any:
        """The view of an array."""
        if source not in self.by_source:
            size = product(source.shape)
            self.by_source[source] = tirx.decl_buffer([size], str(source.dtype), f"{source.name}_flat")
        return self.by_source[source]

    def flat(self, load: TensorLoad) -> TensorLoad:
        """The load from the view; one from a view stays as it is."""
        if any(load.source.same_as(view) for view in self.by_source.values()):
            return load
        return tirx.BufferLoad(self.of(load.source), [_offset(load.indices, load.source.shape)])


def _offset(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    place: Any = number(0)
    for at, size in zip(indices, shape, strict=True):
        place = place * size + at
    return simple(place)


class Operand:
    """A load whose place is a start plus a step for each axis of a reduction, where it is such."""

    def __init__(self, load: TensorLoad, task: SymbolicProduct, views: Views) -> None:
        flat = views.flat(load)
        self.view, self.place = flat.source, flat.indices[0]
        self._reduced = [axis.var for axis in task.reduced]
        terms = list(detect_linear_equation(self.place, self._reduced)) if self._reduced else [self.place]
        moving = {axis.var for axis in task.anchor.iter_vars}
        self.linear = bool(terms) and not variables_of(terms[:-1]) & moving
        self._steps, self._start = (terms[:-1], terms[-1]) if self.linear else ([], self.place)

    def start(self, values: Mapping[Any, Any]) -> Any:
        """Place of the first term of a sum."""
        return simple(with_values(self._start, values))

    def step(self, depths: Mapping[Any, Any]) -> Any:
        """Elements from the first term to the one of these indices."""
        step: Any = number(0)
        for var, by in zip(self._reduced, self._steps, strict=True):
            step = step + by * depths[var]
        return simple(step)

    def at(self, values: Mapping[Any, Any]) -> TensorLoad:
        """The load for these values of all axes."""
        return tirx.BufferLoad(self.view, [with_values(self.place, values)])


class RowsAsOne:
    """The rows of a task as one axis: arrays with all of them as leading axes are viewed so."""

    def __init__(self, task: SymbolicProduct, views: Views) -> None:
        self.axes = [axis.var for axis in task.rows]
        self.extents = [axis.dom.extent for axis in task.rows]
        self.row = tirx.Var("row", INDEX)
        self.views = views

    def flat(self, node: Any) -> Any:
        """The expression with loads from views where these exist."""
        return node if len(self.axes) < 2 else with_loads(node, self._viewed)

    def _viewed(self, load: TensorLoad) -> Any:
        count, indices = len(self.axes), [simple(at) for at in load.indices]
        shape = load.source.shape
        leading = len(indices) >= count and all(
            (at.same_as(var) or fixed(extent) == 1) and tvm_ffi.structural_equal(simple(size), simple(extent))
            for at, var, size, extent in zip(indices, self.axes, shape, self.extents, strict=False)
        )
        if not leading:
            return load
        place = _offset([self.row, *indices[count:]], [number(1), *shape[count:]])
        return tirx.BufferLoad(self.views.of(load.source), [place])

    def values(self, row: Any) -> dict[Any, Any]:
        """Values of the axes, and of the row of views."""
        return {self.row: row, **dict(zip(self.axes, split_index(row, self.extents), strict=True))}

    def bound(self, row: Any, node: Any) -> tuple[dict[Any, Any], list[Any]]:
        """`values`, with variables for those that `node` reads, and their bindings."""
        read: set[Any] = set()
        tvm_ffi.structural_wa
