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
from ....instruction_sets import INSTRUCTION
from ....tvm_compat import importing_llvm
from ..intrinsics.dot_intrinsics import dot_call, dot_llvm_ir
from ..template import COLUMNS_FIRST
from .addresses import Loads, StepLoads, TileLoads
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
        body = sequence(*views, tiles)
        pairs = self.member.pairs
        return importing_llvm(dot_llvm_ir(INSTRUCTION[pairs]), body) if pairs else body

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
        steps, again = _steps(task, member.step)
        several = member.order == COLUMNS_FIRST and member.rows > 1  # one pass streams anyway
        if not several or task.layout is not Weight.PACKED or len(task.reduced) != 1:
            return None
        tile = (fixed(self.loads.depths[-1]) or 0) * member.step * member.columns
        bits = tvm.DataType(str(task.weight.ty.dtype)).bits
        lane = LINE_BYTES * 8 // bits
        share = math.ceil(again * member.step * member.columns / lane / _PASSES)

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
        self.word = local([self.member.step], str(self.task.data.ty.dtype), "word")

    def statement(self, batches: Mapping[Any, Any], batch: Any, row: Any, panel: Any, ahead: Any) -> Any:
        """Statement that computes the tile of these first rows and panels; `ahead` is of `_Kernel._ahead`."""
        task, member, places = self.task, self.member, Places()
        given, (row,) = places.kept([row])
        columns, starts = places.kept(
            [tile_start(simple(panel + at), member.width, task.columns) for at in range(member.panels)]
        )
        loads = TileLoads(self.kernel.loads, places, batches, batch, row, self.height, panel, starts)

        clipping, taps = self._clipped(places, batches)
        reduction = partial(_reduction, task, member.step, taps)

        def zero(line: int, at: int, lane: Any) -> Any:
            return store(self.sums, tirx.const(0, task.dtype), [line, at, lane])

        def added(depths: Mapping[Any, Any], terms: int) -> Any:
            steps, step = loads.at(depths)
            return sequence(*steps, self._dots(step, terms) if member.pairs else self._added(step))

        body = sequence(
            *given,
            *columns,
            *loads.starts,
            *clipping,
            self._in_order(zero),
            reduction(added, None) if ahead is None else self._fetching(partial(reduction, added), *ahead),
            self._stored(batches, row, starts),
        )
        words = [self.word] if member.pairs else []
        return allocated([places.array, self.sums, *words], body)

    def _added(self, loads: StepLoads) -> Any:
        """Adds a term of each sum."""

        def statement(line: int, at: int, lane: Any) -> Any:
            return store(self.sums, self._sum(line, at, lane) + loads.term(line, at, lane), [line, at, lane])

        return self._in_order(statement)

    def _dots(self, loads: StepLoads, terms: int) -> Any:
        """Adds a word of `terms` terms of each sum. Terms that are not adjacent are copied into one."""
        member, instruction = self.member, INSTRUCTION[self.member.pairs]
        dtype = str(self.word.dtype)
        adjacent = terms == member.step and loads.adjacent
        statements: list[Any] = []
        for line in range(self.height):
            word = loads.data(line)
            if not adjacent:
                for term in range(member.step):
                    value = loads.data(line, term) if term < terms else tirx.const(0, dtype)
                    statements.append(store(self.word, value, [term]))
                word = tirx.BufferLoad(self.word, [number(0)])
            for at in range(member.panels):
                for lane in range(0, member.width, member.lanes):
                    weight = loads.weight(at, lane * member.step)
                    sums = (self.sums, [number(line), number(at), number(lane)])
                    operands = ((one.source, one.indices) for one in (word, weight))
                    statements.append(dot_call(instruction, sums, *operands))
        return sequence(*statements)

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


def _steps(task: SymbolicProduct, step: int) -> tuple[Any, int]:
    """Iterations of the innermost loop of the reduction, and whole words of `step` terms in each."""
    words = simple(number(task.reduced[-1].dom.extent if task.reduced else 1) // step)
    known = fixed(words)
    again = 1 if known is None else next(count for count in _UNROLLED if known % count == 0)
    return simple(words // again), again


def _reduction(
    task: SymbolicProduct, step: int, taps: Mapping[Any, tuple[Any, Any]], added: Any, ahead: Any
) -> Any:
    """Loops of the reduction around `added`, and around `ahead` unless that is None.

    Words of `step` terms are added, and a last one of fewer terms if that remains. `taps` has the first tap
    and the number of taps that are inside of the data, by variable.
    """
    if not task.reduced:
        return added({}, step)
    steps, again = _steps(task, step)
    rest = simple(number(task.reduced[-1].dom.extent) % step)

    def nested(axes: Sequence[Any], values: Mapping[Any, Any]) -> Any:
        axis = axes[0]
        if len(axes) > 1:
            first, count = taps.get(axis.var, (number(0), axis.dom.extent))
            return loop("depth", count, lambda at: nested(axes[1:], {**values, axis.var: first + at}))

        def word(at: Any, terms: int = step) -> Any:
            return added({**values, axis.var: at}, terms)

        def several(at: Any) -> Any:
            words = unrolled("again", again, lambda inner: word(at * again + inner))
            return sequence(None if ahead is None else ahead(at), words)

        last = None if fixed(rest) == 0 else loop("rest", rest, lambda _: word(steps * again, 1))
        return sequence(loop("depth", steps, several), last)

    return nested(task.reduced, {})


def _axes_in_order(task: SymbolicProduct) -> Iterator[Any]:
    """Variables of the anchor in the order of the output's axes."""
    spatial = {axis.var for axis in (*task.batch, *task.lines, *task.rows, task.column)}
    return (axis.var for axis in task.anchor.iter_vars if axis.var in spatial)
