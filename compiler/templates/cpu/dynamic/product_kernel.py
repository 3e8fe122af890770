"""Kernel of a product of symbolic extents, in register tiles of two heights.

Tall tiles and ones of one row fewer cover all rows, in nearly all sizes without computing a row twice.

Weights lie in panels of columns, which all members of a family read. The panel at the end of the columns
overlaps the one before it, too, so that each vector is whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx import DeclBuffer, IfThenElse

from ....codegen.prefetching import LINE_BYTES, prefetch
from ..template import COLUMNS_FIRST
from .addresses import Loads, TileLoads
from .finishing import finished
from .kernel_parameters import KernelParameters, row_tiles
from .nodes import (
    Places,
    allocated,
    ceildiv,
    fixed,
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
from .symbolic_product import SymbolicProduct, Weight

_PASSES = 2
"""Passes over the panels of a tile in which the next ones are fetched."""

_UNROLLED = (4, 2, 1)
"""Steps of the reduction in a row without a branch; the first that divides it."""


def product_kernel(task: SymbolicProduct, member: KernelParameters, panels: Any = None) -> Any:
    """Statement that computes the task for sizes of at least the member's register tile.

    `panels` is the array of the weight in panels, None for a weight that is read where it is.
    """
    return _Kernel(task, member, panels).statement()


def panel_product(
    task: SymbolicProduct, member: KernelParameters, panels: Any, batch: tuple[Any, Any], rows: Any
) -> Any:
    """Statement that one thread runs for the first `rows` rows of one matrix, and a register tile's columns.

    `rows` is at least the member's `least_rows`. `batch` has the value of the task's batch axis, and the
    number of the matrix among `panels`: [matrix, panel of the member, depth, width].
    """
    kernel, (at, matrix) = _Kernel(task, member, panels), batch
    values = values_of(task.batch, [at])

    def of(height: int, row: Any) -> Any:
        return _Tile(kernel, height).statement(values, matrix, row, number(0), None)

    count, tall = row_tiles(rows, member.rows, tirx.max)
    tiles = loop("line", count, lambda line: _of_height(line, rows, tall, member, of))
    return kernel.with_views(tiles)


class _Kernel:
    """One kernel: its task, arrays and loads, which all of its parts share."""

    def __init__(self, task: SymbolicProduct, member: KernelParameters, panels: Any) -> None:
        self.task, self.member, self.panels = task, member, panels
        self.loads = Loads(task, member, panels)
        self.rows = self.loads.rows
        self.in_line, self.tall = map(simple, row_tiles(task.row_count, member.rows, tirx.max))
        self.down = product([task.line_count, self.in_line])

    def statement(self) -> Any:
        return self.with_views(self._tiles())

    def with_views(self, tiles: Any) -> Any:
        """The statement of tiles after the views that it reads."""
        views = [DeclBuffer(view, data=source.data) for source, view in self.loads.views.by_source.items()]
        return sequence(*views, tiles)

    def _tiles(self) -> Any:
        task, member, down = self.task, self.member, self.down
        along = ceildiv(self.loads.across, member.panels)
        lines = [axis.dom.extent for axis in task.lines]

        def tile(at: Any) -> Any:
            each = product([down, along])
            batch, rest = (at // each, at % each) if task.batch else (0, at)
            if member.order == COLUMNS_FIRST:
                across, line = rest // down, rest % down
            else:
                line, across = rest // along, rest % along
            batches = split_index(number(batch), [axis.dom.extent for axis in task.batch])
            places = Places()
            panel = tile_start(across, member.panels, self.loads.across)
            computed, (panel, line, *batches) = places.kept([panel, line, *batches])
            split, (*outer, within) = places.kept(split_index(line, [*lines, self.in_line]))
            values = values_of([*task.batch, *task.lines], [*batches, *outer])
            ahead = self._ahead(line, across)

            def of(height: int, row: Any) -> Any:
                return _Tile(self, height).statement(values, number(batch), row, panel, ahead)

            tiles = _of_height(within, task.row_count, self.tall, member, of)
            return allocated([places.array], sequence(*computed, *split, tiles))

        return parallel("tile", product([task.batch_count, along, down]), tile)

    def _ahead(self, line: Any, across: Any) -> Any:
        """Number of the pass over the current panels, and what makes the statement that fetches a share of
        the next ones at a step of the reduction, see `prefetching`; None if that saves no time."""
        task, member = self.task, self.member
        steps, again = _steps(task)
        several = member.order == COLUMNS_FIRST and member.rows > 1  # one pass streams anyway
        if not several or task.layout is not Weight.PACKED or len(task.reduced) != 1:
            return None
        tile = (fixed(task.depth) or 0) * member.columns
        bits = tvm.DataType(str(task.weight.ty.dtype)).bits
        lane = LINE_BYTES * 8 // bits
        share = math.ceil(again * member.columns / lane / _PASSES)

        def statement(step: Any) -> Any:
            start = (across + 1) * tile + (line * steps + step) * (share * lane)
            return prefetch(self.panels, [start + extra * lane for extra in range(share)])

        return line, statement


def _of_height(
    line: Any, rows: Any, tall: Any, member: KernelParameters, of: Callable[[int, Any], Any]
) -> Any:
    """The statement that `of` makes of the height and the first row of a tile of a line, see `row_tiles`."""
    height, least = member.rows, member.least_rows
    taller = of(height, simple(line * height))
    if height == 1 or fixed(rows % height) == 0:
        return taller
    start = tirx.min(line * least + tall, rows - least)
    return IfThenElse(line < tall, taller, of(least, simple(start)))


class _Tile:
    """One register tile of a kernel."""

    def __init__(self, kernel: _Kernel, height: int) -> None:
        self.kernel, self.task, self.member, self.height = kernel, kernel.task, kernel.member, height
        shape = (height, self.member.panels, self.member.width)
        self.sums = local(shape, self.task.dtype, "sums")

    def statement(self, batches: Mapping[Any, Any], batch: Any, row: Any, panel: Any, ahead: Any) -> Any:
        """Statement that computes the tile of these first rows and panels; `ahead` is of `_Kernel._ahead`."""
        task, member, places = self.task, self.member, Places()
        given, (row,) = places.kept([row])
        columns, starts = places.kept(
            [tile_start(simple(panel + at), member.width, task.columns) for at in range(member.panels)]
        )
        loads = TileLoads(self.kernel.loads, places, batches, batch, row, self.height, panel, starts)

        clipping, taps = self._clipped(places, batches)
        reduction = partial(_reduction, task, taps)

        def zero(line: int, at: int, lane: Any) -> Any:
            return store(self.sums, tirx.const(0, task.dtype), [line, at, lane])

        def added(depths: Mapping[Any, Any]) -> Any:
            steps, term = loads.at(depths)

            def statement(line: int, at: int, lane: Any) -> Any:
                total = self._sum(line, at, lane) + term(line, at, lane)
                return store(self.sums, total, [line, at, lane])

            return sequence(*steps, self._in_order(statement))

        body = sequence(
            *given,
            *columns,
            *loads.starts,
            *clipping,
            self._in_order(zero),
            reduction(added, None) if ahead is None else self._fetching(partial(reduction, added), *ahead),
            self._stored(batches, row, starts),
        )
        return allocated([places.array, self.sums], body)

    def _clipped(self, places: Places, batches: Mapping[Any, Any]) -> tuple[list[Any], dict[Any, Any]]:
        """Statements that find the taps inside of the data; the first one and their number, by variable."""
        statements, taps = [], {}
        for axis in self.task.clipped:
            computed, (first, count) = places.kept(axis.inside(axis.first(batches[axis.axis.var])))
            statements += computed
            taps[axis.tap_var] = first, count
        return statements, taps

    def _sum(self, line: int, at: int, lane: Any) -> Any:
        return tirx.BufferLoad(self.sums, [number(line), number(at), lane])

    def _in_order(self, statement: Callable[[int, int, Any], Any]) -> Any:
        """The statement for all vectors of the tile."""
        places = [(line, at) for line in range(self.height) for at in range(self.member.panels)]
        return sequence(*(self._across(partial(statement, line, at)) for line, at in places))

    def _across(self, statement: Callable[[Any], Any]) -> Any:
        """The statement for all vectors of one row of a panel."""
        lanes = self.member.lanes
        return sequence(
            *(
                vector(lanes, partial(lambda start, lane: statement(lane + start), at * lanes))
                for at in range(self.member.vectors)
            )
        )

    def _fetching(self, reduction: Callable[[Any], Any], line: Any, ahead: Any) -> Any:
        """The reduction, which fetches the next panels in its first passes over the current ones.

        A single pass streams its weights without that.
        """
        first, others = reduction(ahead), reduction(None)
        passes = tirx.Select(self.kernel.down > 1, number(_PASSES), number(0))
        return IfThenElse(line < passes, first, others)

    def _stored(self, batches: Mapping[Any, Any], row: Any, starts: Sequence[Any]) -> Any:
        """Writes the output."""
        task = self.task
        block = task.epilogue or task.anchor
        axes = dict(zip((axis.var for axis in block.iter_vars), _axes_in_order(task), strict=False))
        value = with_values(block.body.value, axes)
        target = [with_values(region.min, axes) for region in block.writes[0].region]

        def written(sums: Any, line: Any, panel: int, column: Any) -> Any:
            result = sums
            if task.epilogue is not None:
                result = with_loads(value, lambda load: sums if load.source.same_as(task.sums) else load)
            return self._store(
                block.writes[0].source, result, target, batches, row + line, starts[panel] + column
            )

        epilogue = None if task.epilogue is None else value
        return finished(self.sums, self.member.lanes, epilogue, written)

    def _store(
        self,
        buffer: Any,
        value: Any,
        target: Sequence[Any],
        batches: Mapping[Any, Any],
        row: Any,
        column: Any,
    ) -> Any:
        rows = self.kernel.rows
        place = rows.flat(tirx.BufferLoad(buffer, list(target)))
        values = {**batches, **rows.values(row), self.task.column.var: column}
        place = with_values(place, values)
        return store(place.source, with_values(rows.flat(value), values), place.indices)


def _steps(task: SymbolicProduct) -> tuple[Any, int]:
    """Iterations of the innermost loop of the reduction, and terms of each."""
    extent = task.reduced[-1].dom.extent if task.reduced else 1
    known = fixed(extent)
    again = 1 if known is None else next(step for step in _UNROLLED if known % step == 0)
    return simple(number(extent) // again), again


def _reduction(task: SymbolicProduct, taps: Mapping[Any, tuple[Any, Any]], added: Any, ahead: Any) -> Any:
    """Loops of the reduction around `added`, and around `ahead` unless that is None.

    `taps` has the first tap and the number of taps that are inside of the data, by variable.
    """
    if not task.reduced:
        return added({})
    steps, again = _steps(task)

    def nested(axes: Sequence[Any], values: Mapping[Any, Any]) -> Any:
        axis = axes[0]
        if len(axes) > 1:
            first, count = taps.get(axis.var, (number(0), axis.dom.extent))
            return loop("depth", count, lambda at: nested(axes[1:], {**values, axis.var: first + at}))

        def step(at: Any) -> Any:
            terms = unrolled("again", again, lambda inner: added({**values, axis.var: at * again + inner}))
            return sequence(None if ahead is None else ahead(at), terms)

        return loop("depth", steps, step)

    return nested(task.reduced, {})


def _axes_in_order(task: SymbolicProduct) -> Iterator[Any]:
    """Variables of the anchor in the order of the output's axes."""
    spatial = {axis.var for axis in (*task.batch, *task.lines, *task.rows, task.column)}
    return (axis.var for axis in task.anchor.iter_vars if axis.var in spatial)
