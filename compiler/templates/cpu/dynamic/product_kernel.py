"""Kernel of a product of symbolic extents: register tiles whose last one overlaps the one before it.

Weights lie in panels of columns, which all members of a family read. The panel at the end of the columns
overlaps the one before it, too, so that each vector is whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx import Bind, DeclBuffer, IfThenElse

from ....codegen.prefetching import LINE_BYTES, prefetch
from ..template import COLUMNS_FIRST
from .elementwise_kernel import elementwise_loops
from .nodes import (
    INDEX,
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
    vector,
    with_loads,
    with_values,
    workspace,
)
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


def panels_of(weight: NDArray[Any], task: SymbolicProduct, width: int) -> NDArray[Any]:
    """A constant weight in panels: [panel, axes of the reduction, width]."""
    places = _places(task)
    axes = [places[var] for var in (task.column.var, *(axis.var for axis in task.reduced))]
    dropped = tuple(axis for axis in range(weight.ndim) if axis not in axes)
    turned = np.transpose(weight, (*dropped, *axes)).reshape([weight.shape[axis] for axis in axes])
    columns = turned.shape[0]
    starts = np.minimum(np.arange(-(-columns // width)) * width, columns - width)
    chosen = turned[starts[:, None] + np.arange(width)]
    return np.ascontiguousarray(np.moveaxis(chosen, 1, -1))


def packed_shape(task: SymbolicProduct, width: int) -> list[int]:
    """Shape of `panels_of`."""
    depths = [fixed(axis.dom.extent) or 0 for axis in task.reduced]
    return [-(-(fixed(task.columns) or 0) // width), *depths, width]


def _places(task: SymbolicProduct) -> dict[Any, int]:
    units = {axis.var: 0 for axis in task.unit}
    indices = [simple(with_values(at, units)) for at in task.weight.indices]
    return {at: place for place, at in enumerate(indices) if isinstance(at, tirx.Var)}


def with_prepared(task: SymbolicProduct, body: Any) -> Any:
    """A statement after those that store what the product reads, such as a padded image."""
    arrays = [block.writes[0].source for block in task.prepared]
    stored = [elementwise_loops(block, task.parameters) for block in task.prepared]
    return allocated(arrays, sequence(*stored, body))


def turned_panels(task: SymbolicProduct, width: int) -> Any:
    """Array for panels of a weight that each call brings into panels."""
    depths = [axis.dom.extent for axis in task.reduced]
    shape = [task.batch_count, ceildiv(task.columns, width), *depths, width]
    return workspace(shape, str(task.weight.ty.dtype), "panels")


def with_turned(task: SymbolicProduct, panels: Any, width: int, body: Any) -> Any:
    """A statement after the one that fills `turned_panels`."""
    depths = [axis.dom.extent for axis in task.reduced]
    across = ceildiv(task.columns, width)
    weight = _weight_load(task)

    def panel(at: Any) -> Any:
        batch, panel = at // across, at % across
        start = tile_start(panel, width, task.columns)
        batches = _values(task.batch, split_index(batch, [axis.dom.extent for axis in task.batch]))

        def element(depth: Any, lane: Any) -> Any:
            reduced = split_index(depth, depths)
            values = {**batches, **_values(task.reduced, reduced), task.column.var: start + lane}
            return store(panels, with_values(weight, values), [batch, panel, *reduced, lane])

        return loop(
            "depth", product(depths), lambda depth: loop("lane", width, lambda lane: element(depth, lane))
        )

    return allocated([panels], sequence(parallel("panel", product([task.batch_count, across]), panel), body))


def product_kernel(task: SymbolicProduct, member: Member, panels: Any = None) -> Any:
    """Statement that computes the task for sizes of at least the member's register tile.

    `panels` is the array of the weight in panels, None for a weight that is read where it is.
    """
    return _Kernel(task, member, panels).statement()


def _weight_load(task: SymbolicProduct) -> TensorLoad:
    units = {axis.var: 0 for axis in task.unit}
    return tirx.BufferLoad(
        task.weight.source, [simple(with_values(at, units)) for at in task.weight.indices]
    )


class _Kernel:
    """What the parts of a kernel share."""

    def __init__(self, task: SymbolicProduct, member: Member, panels: Any) -> None:
        self.task, self.member, self.panels = task, member, panels
        self.rows = RowsAsOne(task)
        self.term = self.rows.flat(with_values(task.term, {axis.var: 0 for axis in task.unit}))
        self.weight = _weight_load(task)
        self.across = ceildiv(task.columns, member.width)
        tile = (member.rows, member.panels, member.width)
        self.sums, self.kept = (local(tile, task.dtype, name) for name in ("sums", "kept"))

    def statement(self) -> Any:
        tiles = self._tiles()  # makes the views
        views = [DeclBuffer(view, data=source.data) for source, view in self.rows.views.items()]
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
        rows = [self.rows.bound(row + line, self.term) for line in range(member.rows)]
        starts = [tirx.Var("column", INDEX) for _ in range(member.panels)]
        columns = [
            Bind(start, tile_start(simple(panel + at), member.width, task.columns))
            for at, start in enumerate(starts)
        ]
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
            def statement(line: int, at: int, lane: Any) -> Any:
                values = {**batches, **rows[line][0], **depths}
                weight = self._weight(values, batch, panel + at, starts[at], lane)
                term = with_values(self._with_weight(weight), values)
                sums = tirx.BufferLoad(self.sums, [number(line), number(at), lane])
                return store(self.sums, sums + term, [line, at, lane])

            return in_order(statement)

        return sequence(
            *columns,
            *(bind for _, binds in rows for bind in binds),
            in_order(zero),
            _reduction(task, added, None) if ahead is None else self._fetching(added, *ahead),
            self._stored(batches, row, starts, in_order),
        )

    def _weight(self, values: Mapping[Any, Any], batch: Any, panel: Any, start: Any, lane: Any) -> Any:
        if self.task.layout is Weight.DIRECT:
            return with_values(self.weight, {**values, self.task.column.var: start + lane})
        depths = [values[axis.var] for axis in self.task.reduced]
        first = [batch] if self.task.layout is Weight.TURNED else []
        return tirx.BufferLoad(self.panels, [number(at) for at in (*first, panel, *depths, lane)])

    def _with_weight(self, weight: Any) -> Any:
        source = self.task.weight.source
        return with_loads(self.term, lambda load: weight if load.source.same_as(source) else load)

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


class RowsAsOne:
    """The rows of a task as one axis: arrays with all of them as leading axes are viewed so."""

    def __init__(self, task: SymbolicProduct) -> None:
        self.axes = [axis.var for axis in task.rows]
        self.extents = [axis.dom.extent for axis in task.rows]
        self.row = tirx.Var("row", INDEX)
        self.views: dict[Any, Any] = {}

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
        source = load.source
        if source not in self.views:
            self.views[source] = tirx.decl_buffer([product(shape)], str(source.dtype), f"{source.name}_rows")
        place: Any = self.row
        for at, size in zip(indices[count:], shape[count:], strict=True):
            place = place * size + at
        return tirx.BufferLoad(self.views[source], [place])

    def values(self, row: Any) -> dict[Any, Any]:
        """Values of the axes, and of the row of views."""
        return {self.row: row, **dict(zip(self.axes, split_index(row, self.extents), strict=True))}

    def bound(self, row: Any, node: Any) -> tuple[dict[Any, Any], list[Any]]:
        """`values`, with variables for those that `node` reads, and their bindings."""
        read: set[Any] = set()
        tvm_ffi.structural_walk(node, (tirx.Var, read.add))
        values = {var: value for var, value in self.values(row).items() if var in read}
        names = {var: tirx.Var(var.name, INDEX) for var in values}
        return names, [Bind(names[var], value) for var, value in values.items()]


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


def _values(axes: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
    return {axis.var: value for axis, value in zip(axes, values, strict=True)}


def _bound(axes: Sequence[Any], values: Sequence[Any]) -> tuple[dict[Any, Any], list[Any]]:
    names = [tirx.Var(axis.var.name, INDEX) for axis in axes]
    return _values(axes, names), [Bind(name, value) for name, value in zip(names, values, strict=True)]
