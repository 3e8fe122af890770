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
from .kernel_parameters import KernelParameters
from .nodes import (
    INDEX,
    Places,
    ceildiv,
    fixed,
    flat_index,
    loads_of,
    number,
    product,
    simple,
    split_index,
    with_loads,
    with_values,
)
from .panels import weight_load
from .symbolic_product import SymbolicProduct, Weight


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
        return tirx.BufferLoad(self.of(load.source), [flat_index(load.indices, load.source.shape)])


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

    @property
    def stride(self) -> Any:
        """Elements from one term of the innermost axis to the next; 0 if the place is not linear."""
        return self._steps[-1] if self._steps else number(0)

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
        place = flat_index([self.row, *indices[count:]], [number(1), *shape[count:]])
        return tirx.BufferLoad(self.views.of(load.source), [place])

    def values(self, row: Any) -> dict[Any, Any]:
        """Values of the axes, and of the row of views."""
        return {self.row: row, **dict(zip(self.axes, split_index(row, self.extents), strict=True))}


class Loads:
    """The loads of data and weight that a kernel multiplies."""

    def __init__(self, task: SymbolicProduct, member: KernelParameters, panels: Any) -> None:
        self.task, self.member = task, member
        self.views = Views()
        self.rows = RowsAsOne(task, self.views)
        self.across = ceildiv(task.columns, member.width)
        self.depths = task.depths(member.step)
        self._term = _simplified(with_values(task.term, {axis.var: 0 for axis in task.unit}))
        self._weight = weight_load(task)
        data = next(load for load in loads_of(self._term) if not self._is_weight(load))
        self.of_data = Operand(self.rows.flat(data), task, self.views)
        direct = task.layout is Weight.DIRECT
        self.of_weight = Operand(self._weight, task, self.views) if direct else None
        self.panels = None if direct else self.views.of(panels)

    def _is_weight(self, load: Any) -> bool:
        return bool(tvm_ffi.structural_equal(load, self._weight))

    def product(self, data: Any, weight: Any) -> Any:
        """The term of a sum, of these operands."""
        return with_loads(self._term, lambda load: weight if self._is_weight(load) else data)


class TileLoads:
    """Variables for the first place of each row and panel of a register tile, and loads from there.

    The tile has `height` rows from `row` on, and panels from `panel` on, whose first columns are `starts`.
    """

    def __init__(
        self,
        loads: Loads,
        places: Places,
        batches: Mapping[Any, Any],
        batch: Any,
        row: Any,
        height: int,
        panel: Any,
        starts: Sequence[Any],
    ) -> None:
        task, member = loads.task, loads.member
        self.loads, self._places = loads, places
        self.rows = [{**batches, **loads.rows.values(row + line)} for line in range(height)]
        self.columns = [{**batches, task.column.var: start} for start in starts]
        if loads.of_weight is None:
            size = product([*loads.depths, member.width * member.step])
            first = batch * loads.across if task.layout is Weight.TURNED else number(0)
            weights = [simple((first + panel + at) * size) for at in range(member.panels)]
        else:
            weights = [loads.of_weight.start(values) for values in self.columns]
        data = [loads.of_data.start(values) for values in self.rows] if loads.of_data.linear else []
        of_data, self.data = places.kept(data)
        of_weights, self.weights = places.kept(weights)
        self.starts = of_data + of_weights

    def at(self, depths: Mapping[Any, Any]) -> tuple[list[Any], StepLoads]:
        """Statements before one step of the reduction, and its loads.

        `depths` are the indices of the step along the reduced axes, the innermost one in words.
        """
        loads, task, step = self.loads, self.loads.task, self.loads.member.step
        values = dict(depths)
        flat: Any = number(0)
        for axis, extent in zip(task.reduced, loads.depths, strict=False):
            flat = flat * extent + depths[axis.var]
        if task.reduced and step > 1:
            values[task.reduced[-1].var] = depths[task.reduced[-1].var] * step
        if loads.of_weight is None:
            of_weight = simple(flat * (loads.member.width * step))
        else:
            of_weight = loads.of_weight.step(values)
        of_data = loads.of_data.step(values) if loads.of_data.linear else number(0)
        statements, steps = self._places.kept([of_data, of_weight])
        return statements, StepLoads(self, values, *steps)


class StepLoads:
    """Loads of one step of the reduction, by row, panel and lane of a register tile."""

    def __init__(self, tile: TileLoads, values: Mapping[Any, Any], of_data: Any, of_weight: Any) -> None:
        """`values` are those of the reduced axes, `of_data` and `of_weight` the elements from each start."""
        self._tile, self._values = tile, values
        self._of_data, self._of_weight = of_data, of_weight

    @property
    def adjacent(self) -> bool:
        """Whether the terms of a word of the data are next to each other."""
        return fixed(self._tile.loads.of_data.stride) == 1

    def data(self, line: int, term: int = 0) -> TensorLoad:
        """Load of a term of the word of a row."""
        operand, values = self._tile.loads.of_data, dict(self._values)
        if operand.linear:
            place = self._tile.data[line] + self._of_data
            return tirx.BufferLoad(operand.view, [place + simple(operand.stride * term) if term else place])
        if term:
            values[self._tile.loads.task.reduced[-1].var] += term
        return operand.at({**self._tile.rows[line], **values})

    def weight(self, at: int, lane: Any) -> TensorLoad:
        """Load of an element of a panel, counted from the first column's word."""
        loads, start = self._tile.loads, self._tile.weights[at]
        operand = loads.of_weight
        if operand is not None and not operand.linear:
            column = loads.task.column.var
            columns = self._tile.columns[at]
            return operand.at({**columns, column: columns[column] + lane, **self._values})
        view = loads.panels if operand is None else operand.view
        return tirx.BufferLoad(view, [start + self._of_weight + lane])

    def term(self, line: int, at: int, lane: Any) -> Any:
        """The product of a row and a lane."""
        return self._tile.loads.product(self.data(line), self.weight(at, lane))


def _simplified(term: Any) -> Any:
    """The expression with the indices of its loads simplified, as those of `weight_load` are."""
    return with_loads(term, lambda load: tirx.BufferLoad(load.source, [simple(at) for at in load.indices]))
