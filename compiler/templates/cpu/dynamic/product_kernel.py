"""Kernel of a product of symbolic extents: register tiles whose last one overlaps the one before it.

Weights lie in panels of columns, which all members of a family read. The panel at the end of the columns
overlaps the one before it, too, so that each vector is whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx import DeclBuffer, IfThenElse

from ....codegen.prefetching import LINE_BYTES, prefetch
from ..template import COLUMNS_FIRST
from .addresses import Loads, TileLoads
from .kernel_parameters import KernelParameters
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


class _Kernel:
    """One kernel: its task, arrays and loads, which all of its parts share."""

    def __init__(self, task: SymbolicProduct, member: KernelParameters, panels: Any) -> None:
        self.task, self.member, self.panels = task, member, panels
        self.loads = Loads(task, member, panels)
        self.rows = self.loads.rows
        tile = (member.rows, member.panels, member.width)
        self.sums, self.kept = (local(tile, task.dtype, name) for name in ("sums", "kept"))

    def statement(self) -> Any:
        tiles = self._tiles()  # makes the views
        views = [DeclBuffer(view, data=source.data) for source, view in self.loads.views.by_source.items()]
        return sequence(*views, tiles)

    def _tiles(self) -> Any:
        task, member = self.task, self.member
        down, along = ceildiv(task.row_count, member.rows), ceildiv(self.loads.across, member.panels)

        def tile(at: Any) -> Any:
            tiles = product([down, along])
            batch, rest = (at // tiles, at % tiles) if task.batch else (0, at)
            if member.order == COLUMNS_FIRST:
                across, line = rest // down, rest % down
            else:
                line, across = rest // along, rest % along
            batches = split_index(number(batch), [axis.dom.extent for axis in task.batch])
            places = Places()
            row, panel = (
                tile_start(line, member.rows, task.row_count),
                tile_start(across, member.panels, self.loads.across),
            )
            computed, (row, panel, line, *batches) = places.kept([row, panel, line, *batches])
            kept = [self.kept] if task.epilogue else []
            values = values_of(task.batch, batches)
            body = self._tile(places, values, number(batch), row, panel, self._ahead(line, across))
            return allocated([places.array, self.sums, *kept], sequence(*computed, body))

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

    def _fetching(self, added: Any, line: Any, ahead: Any) -> Any:
        """The reduction, which fetches the next panels in its first passes over the current ones."""
        first, others = (_reduction(self.task, added, one) for one in (ahead, None))
        return IfThenElse(line < number(_PASSES), first, others)

    def _tile(
        self, kept: Places, batches: Mapping[Any, Any], batch: Any, row: Any, panel: Any, ahead: Any
    ) -> Any:
        task, member = self.task, self.member
        columns, starts = kept.kept(
            [tile_start(simple(panel + at), member.width, task.columns) for at in range(member.panels)]
        )
        tile = TileLoads(self.loads, kept, batches, batch, row, panel, starts)
        places = [(line, at) for line in range(member.rows) for at in range(member.panels)]

        def in_order(statement: Any) -> Any:
            return sequence(*(vector(member.width, partial(statement, line, at)) for line, at in places))

        def zero(line: int, at: int, lane: Any) -> Any:
            return store(self.sums, tirx.const(0, task.dtype), [line, at, lane])

        def added(depths: Mapping[Any, Any]) -> Any:
            steps, term = tile.at(depths)

            def statement(line: int, at: int, lane: Any) -> Any:
                sums = tirx.BufferLoad(self.sums, [number(line), number(at), lane])
                return store(self.sums, sums + term(line, at, lane), [line, at, lane])

            return sequence(*steps, in_order(statement))

        return sequence(
            *columns,
            *tile.starts,
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
                    *(self._epilogue(batches, row + line, line, at, start) for at, start in enumerate(starts))
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
            return self._store(block.writes[0].source, result, target, batches, row, start + lane, task)

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
