"""Kernel of a product of symbolic extents: register tiles whose last one overlaps the one before it.

Weights lie in panels of columns, which all members of a family read. The panel at the end of the columns
overlaps the one before it, too, so that each vector is whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Bind, DeclBuffer, IfThenElse

from ....codegen.prefetching import LINE_BYTES, prefetch
from ..template import COLUMNS_FIRST
from .addresses import Operand, RowsAsOne, Views
from .nodes import (
    INDEX,
    allocated,
    ceildiv,
    fixed,
    loads_of,
    local,
    loop,
    number,
    parallel,
    product,
    sequence,
    simple,
    split_index,
    store,
    tile_start,
    unrolled,
    values_of,
    vector,
    with_loads,
    with_values,
)
from .panels import weight_load
from .symbolic_product import SymbolicProduct, Weight

_PASSES = 2
"""Passes over the panels of a tile in which the next ones are fetched."""

_UNROLLED = (4, 2, 1)
"""Steps of the reduction in a row without a branch; the first that divides it."""


@dataclass(frozen=True, order=True)
class Member:
    """One kernel of a family; it is right for all sizes of at least its register tile."""

    width: int
    """Columns of a panel."""
    rows: int
    """Rows of the register tile."""
    panels: int
    """Panels of the register tile."""
    order: str
    """Loop that is outermost."""

    @property
    def columns(self) -> int:
        """Columns of the register tile."""
        return self.panels * self.width


def product_kernel(task: SymbolicProduct, member: Member, panels: Any = None) -> Any:
    """Statement that computes the task for sizes of at least the member's register tile.

    `panels` is the array of the weight in panels, None for a weight that is read where it is.
    """
    return _Kernel(task, member, panels).statement()


class _Kernel:
    """What the parts of a kernel share."""

    def __init__(self, task: SymbolicProduct, member: Member, panels: Any) -> None:
        self.task, self.member, self.panels = task, member, panels
        self.views = Views()
        self.rows = RowsAsOne(task, self.views)
        self.term = with_values(task.term, {axis.var: 0 for axis in task.unit})
        self.loads = _Loads(self)
        self.across = ceildiv(task.columns, member.width)
        tile = (member.rows, member.panels, member.width)
        self.sums, self.kept = (local(tile, task.dtype, name) for name in ("sums", "kept"))

    def statement(self) -> Any:
        tiles = self._tiles()  # makes the views
        views = [DeclBuffer(view, data=source.data) for source, view in self.views.by_source.items()]
        return sequence(*views, tiles)

    def _tiles(self) -> Any:
        task, member = self.task, self.member
        down, along = ceildiv(task.row_count, member.rows), ceildiv(self.across, member.panels)

        def tile(at: Any) -> Any:
            batch, rest = (at // product([down, along]), at % product([down, along])) if task.batch else (0, at)
            if member.order == COLUMNS_FIRST:
                across, line = rest // down, rest % down
            else:
                line, across = rest // along, rest % along
            row, panel = (tirx.Var(name, INDEX) for name in ("row", "panel"))
            batches = split_index(number(batch), [axis.dom.extent for axis in task.batch])
            values = _bound(task.batch, batches)
            return allocated(
                [self.sums, self.kept] if task.epilogue else [self.sums],
                sequence(
                    Bind(row, tile_start(line, member.rows, task.row_count)),
                    Bind(panel, tile_start(across, member.panels, self.across)),
                    *values[1],
                    self._tile(values[0], number(batch), row, panel, self._ahead(line, across)),
                ),
            )

        return parallel("tile", product([task.batch_count, along, down]), tile)

    def _ahead(self, line: Any, across: Any) -> Any:
        """Number of the pass over the current panels, and what makes the statement that fetches a share of
        the next ones at a step of the reduction, see `prefetching`; None if that saves no time."""
        task, member = self.task, self.member
        steps, again = _steps(task)
        several = member.order == COLUMNS_FIRST and member.rows > 1  # one pass streams anyway
        if not several or task.layout is not Weight.PACKED or len(task.reduced) != 1:
            return None
        tile = fixed(task.depth) * member.columns
        bits = tvm.DataType(str(task.weight.ty.dtype)).bits
        lane = LINE_BYTES * 8 // bits
        share = math.ceil(again * member.columns / lane / _PASSES)

        def statement(step: Any) -> Any:
            start = (across + 1) * tile + (line * steps + step) * (share * lane)
            return prefetch(self.panels, [start + extra * lane for extra in range(share)])

        return line, statement

    def _fetching(self, added: Any, line: Any, ahead: Any) -> Any:
        """The reduction, which fetches the next panels in its first passes over the current ones."""
        first, others = (_reduction(self.task, added, one) for one in (ahead, None))
        return IfThenElse(line < number(_PASSES), first, others)

    def _tile(self, batches: Mapping[Any, Any], batch: Any, row: Any, panel: Any, ahead: Any) -> Any:
        task, member = self.task, self.member
        starts = [tirx.Var("column", INDEX) for _ in range(member.panels)]
        columns = [
            Bind(start, tile_start(simple(panel + at), member.width, task.columns))
            for at, start in enumerate(starts)
        ]
        tile = self.loads.of_tile(batches, batch, row, panel, starts)
        places = [(line, at) for line in range(member.rows) for at in range(member.panels)]

        def in_order(statement: Any) -> Any:
            return sequence(
                *(
                    vector(member.width, lambda lane, line=line, at=at: statement(line, at, lane))
                    for line, at in places
                )
            )

        def zero(line: int, at: int, lane: Any) -> Any:
            return store(self.sums, tirx.const(0, task.dtype), [line, at, lane])

        def added(depths: Mapping[Any, Any]) -> Any:
            binds, term = tile.at(depths)

            def statement(line: int, at: int, lane: Any) -> Any:
                sums = tirx.BufferLoad(self.sums, [number(line), number(at), lane])
                return store(self.sums, sums + term(line, at, lane), [line, at, lane])

            return sequence(*binds, in_order(statement))

        return sequence(
            *columns,
            *tile.binds,
            in_order(zero),
            _reduction(task, added, None) if ahead is None else self._fetching(added, *ahead),
            self._stored(batches, row, starts, in_order),
        )

    def _stored(self, batches: Mapping[Any, Any], row: Any, starts: Sequence[Any], in_order: Any) -> Any:
        """Writes the output. An epilogue reads the sums from the stack, in loops that keep its code short."""
        task, member = self.task, self.member
        if task.epilogue is None:
            target = [at.min for at in task.anchor.writes[0].region]

            def plain(line: int, at: int, lane: Any) -> Any:
                sums = tirx.BufferLoad(self.sums, [number(line), number(at), lane])
                return self._store(task.sums, sums, target, batches, row + line, starts[at] + lane, task)

            return in_order(plain)

        def kept(line: int, at: int, lane: Any) -> Any:
            sums = tirx.BufferLoad(self.sums, [number(line), number(at), lane])
            return store(self.kept, sums, [line, at, lane])

        return sequence(
            in_order(kept),
            loop(
                "line",
                member.rows,
                lambda line: sequence(
                    *(
                        self._epilogue(batches, row + line, line, at, start)
                        for at, start in enumerate(starts)
                    )
                ),
            ),
        )

    def _epilogue(self, batches: Mapping[Any, Any], row: Any, line: Any, at: int, start: Any) -> Any:
        task = self.task
        block = task.epilogue
        assert block is not None
        axes = dict(zip((axis.var for axis in block.iter_vars), _axes_in_order(task), strict=True))
        value = with_values(block.body.value, axes)
        target = [with_values(region.min, axes) for region in block.writes[0].region]

        def lane_of(lane: Any) -> Any:
            sums = tirx.BufferLoad(self.kept, [number(line), number(at), lane])
            result = with_loads(value, lambda load: sums if load.source.same_as(task.sums) else load)
            return self._store(
                block.writes[0].source, result, target, batches, row, start + lane, task
            )

        return vector(self.member.width, lane_of)

    def _store(
        self,
        buffer: Any,
        value: Any,
        target: Sequence[Any],
        batches: Mapping[Any, Any],
        row: Any,
        column: Any,
        task: SymbolicProduct,
    ) -> Any:
        place = self.rows.flat(tirx.BufferLoad(buffer, list(target)))
        value = self.rows.flat(value)
        values = {**batches, **self.rows.values(row), task.column.var: column}
        place = with_values(place, values)
        return store(place.source, with_values(value, values), place.indices)


class _Loads:
    """The loads of data and weight that a kernel multiplies."""

    def __init__(self, kernel: _Kernel) -> None:
        self.kernel, task = kernel, kernel.task
        self.weight = weight_load(task)
        self.data = next(load for load in loads_of(self._simple_term()) if not self._is_weight(load))
        self.of_data = Operand(kernel.rows.flat(self.data), task, kernel.views)
        direct = task.layout is Weight.DIRECT
        self.of_weight = Operand(self.weight, task, kernel.views) if direct else None
        self.panels = None if direct else kernel.views.of(kernel.panels)

    def _simple_term(self) -> Any:
        return with_loads(
            self.kernel.term, lambda load: tirx.BufferLoad(load.source, [simple(at) for at in load.indices])
        )

    def _is_weight(self, load: Any) -> bool:
        return bool(tvm_ffi.structural_equal(load, self.weight))

    def product(self, data: Any, weight: Any) -> Any:
        """The term of a sum, of these operands."""
        return with_loads(self._simple_term(), lambda load: weight if self._is_weight(load) else data)

    def of_tile(
        self, batches: Mapping[Any, Any], batch: Any, row: Any, panel: Any, starts: Sequence[Any]
    ) -> _TileLoads:
        """The loads of one register tile."""
        return _TileLoads(self, batches, batch, row, panel, starts)


class _TileLoads:
    """Variables for the first place of each row and panel of a register tile, and loads from there."""

    def __init__(
        self,
        loads: _Loads,
        batches: Mapping[Any, Any],
        batch: Any,
        row: Any,
        panel: Any,
        starts: Sequence[Any],
    ) -> None:
        kernel, task, member = loads.kernel, loads.kernel.task, loads.kernel.member
        self.loads = loads
        self.rows = [{**batches, **kernel.rows.values(row + line)} for line in range(member.rows)]
        self.columns = [{**batches, task.column.var: start} for start in starts]
        if loads.of_weight is None:
            depth = product([axis.dom.extent for axis in task.reduced])
            first = batch * kernel.across if task.layout is Weight.TURNED else number(0)
            weights = [simple((first + panel + at) * depth * member.width) for at in range(member.panels)]
        else:
            weights = [loads.of_weight.start(values) for values in self.columns]
        data = [loads.of_data.start(values) for values in self.rows] if loads.of_data.linear else []
        self.data, self.weights = ([tirx.Var("start", INDEX) for _ in of] for of in (data, weights))
        self.binds = [
            *(Bind(var, value) for var, value in zip(self.data, data, strict=True)),
            *(Bind(var, value) for var, value in zip(self.weights, weights, strict=True)),
        ]

    def at(self, depths: Mapping[Any, Any]) -> tuple[list[Any], Any]:
        """Bindings of one step of the reduction, and what makes its term for a row, a panel and a lane."""
        loads, task, member = self.loads, self.loads.kernel.task, self.loads.kernel.member
        if loads.of_weight is None:
            flat: Any = number(0)
            for axis in task.reduced:
                flat = flat * axis.dom.extent + depths[axis.var]
            weight_step = simple(flat * member.width)
        else:
            weight_step = loads.of_weight.step(depths)
        steps = [tirx.Var("step", INDEX) for _ in range(2)]
        data_step = loads.of_data.step(depths) if loads.of_data.linear else number(0)

        def term(line: int, at: int, lane: Any) -> Any:
            if loads.of_data.linear:
                data = tirx.BufferLoad(loads.of_data.view, [self.data[line] + steps[0]])
            else:
                data = loads.of_data.at({**self.rows[line], **depths})
            if loads.of_weight is not None and not loads.of_weight.linear:
                column = self.columns[at][task.column.var] + lane
                weight = loads.of_weight.at({**self.columns[at], task.column.var: column, **depths})
            else:
                view = loads.panels if loads.of_weight is None else loads.of_weight.view
                weight = tirx.BufferLoad(view, [self.weights[at] + steps[1] + lane])
            return loads.product(data, weight)

        return [Bind(var, value) for var, value in zip(steps, (data_step, weight_step), strict=True)], term


def _steps(task: SymbolicProduct) -> tuple[Any, int]:
    """Iterations of the innermost loop of the reduction, and terms of each."""
    extent = task.reduced[-1].dom.extent if task.reduced else 1
    known = fixed(extent)
    again = 1 if known is None else next(step for step in _UNROLLED if known % step == 0)
    return simple(number(extent) // again), again


def _reduction(task: SymbolicProduct, added: Any, ahead: Any) -> Any:
    """Loops of the reduction around `added`, and around `ahead` unless that is None."""
    if not task.reduced:
        return added({})
    steps, again = _steps(task)

    def nested(axes: Sequence[Any], values: Mapping[Any, Any]) -> Any:
        axis = axes[0]
        if len(axes) > 1:
            return loop("depth", axis.dom.extent, lambda at: nested(axes[1:], {**values, axis.var: at}))

        def step(at: Any) -> Any:
            terms = unrolled("again", again, lambda inner: added({**values, axis.var: at * again + inner}))
            return sequence(None if ahead is None else ahead(at), terms)

        return loop("depth", steps, step)

    return nested(task.reduced, {})


def _axes_in_order(task: SymbolicProduct) -> Iterator[Any]:
    """Variables of the anchor in the order of the output's axes."""
    spatial = {axis.var for axis in (*task.batch, *task.rows, task.column)}
    return (axis.var for axis in task.anchor.iter_vars if axis.var in spatial)


def _bound(axes: Sequence[Any], values: Sequence[Any]) -> tuple[dict[Any, Any], list[Any]]:
    names = [tirx.Var(axis.var.name, INDEX) for axis in axes]
    return values_of(axes, names), [Bind(name, value) for name, value in zip(names, values, strict=True)]
