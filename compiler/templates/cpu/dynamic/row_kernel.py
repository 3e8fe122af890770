"""Kernels of tasks that are no products: softmax, normalisation, reductions, pooling, element-wise blocks.

Blocks that work on the same rows of their arrays run row after row, and threads share the rows. Values
between such blocks are kept for one row. Elements of a row are computed in whole vectors, see `in_vectors`;
the sum of a row is made in several vectors, which are added up at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock
from tvm.tirx import IterVar

from ..contraction import reduces
from .elementwise_kernel import WIDTHS, elementwise_loops
from .nodes import (
    Places,
    allocated,
    fixed,
    in_vectors,
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
    vector,
    with_loads,
    with_values,
    workspace,
)
from .row_task import RowGroup, RowTask, combination_of, reduced_of, spatial_of

STACK_ELEMENTS = 4096
"""Elements of the largest array of one row that is on the stack."""

_LANES, _SUMS = 8, 4
"""Elements of a vector of partial sums, and vectors of partial sums of one row."""

Bound = Callable[[Any], int]
"""Largest value of an extent."""


def row_kernel(task: RowTask, bound: Bound) -> Any:
    """Statement that computes the task for any size."""
    outputs = set(task.func.params)
    arrays: list[Any] = []
    statements = []
    for group in task.groups:
        kept = [] if group.axes == 0 else _kept_by_row(group, task, outputs)
        arrays += [
            block.writes[0].source
            for block in group.blocks
            if block.writes[0].source not in outputs and block.writes[0].source not in kept
        ]
        if group.axes == 0 and not reduces(group.blocks[0]):
            statements.append(elementwise_loops(group.blocks[0], outputs))
        else:
            statements.append(_group(group, kept, bound, outputs))
    return allocated(arrays, sequence(*statements))


def _kept_by_row(group: RowGroup, task: RowTask, outputs: set[Any]) -> list[Any]:
    """Arrays that only blocks of the group read, which each row has its own of."""
    others = [block for other in task.groups if other is not group for block in other.blocks]
    read = {region.source for block in others for region in block.reads}
    written = [block.writes[0].source for block in group.blocks]
    return [source for source in written if source not in outputs and source not in read]


def _group(group: RowGroup, kept: Sequence[Any], bound: Bound, parameters: Collection[Any]) -> Any:
    """Rows in parallel, and the group's blocks in each."""
    extents = [axis.dom.extent for axis in spatial_of(group.blocks[0])[: group.axes]]

    def row(at: Any) -> Any:
        names = {}
        for source in kept:
            names[source] = _row_array(source, source.shape[group.axes :], bound)
        places = Places()
        computed, indices = places.kept(split_index(at, extents))
        body = [_block(_RowBlock(block, indices, names, parameters)) for block in group.blocks]
        arrays = [places.array, *names.values()] if computed else list(names.values())
        return allocated(arrays, sequence(*computed, *body))

    return parallel("row", product(extents), row)


def _row_array(source: Any, shape: Sequence[Any], bound: Bound) -> Any:
    """Array of one row: on the stack if it is small."""
    sizes = [fixed(extent) or bound(extent) for extent in shape] or [1]
    if fixed(product(sizes)) is not None and int(fixed(product(sizes)) or 0) <= STACK_ELEMENTS:
        return local(sizes, str(source.dtype), source.name)
    return workspace(list(shape), str(source.dtype), source.name)


class _RowBlock:
    """A block in one row."""

    def __init__(
        self,
        block: SBlock,
        indices: Sequence[Any],
        names: Mapping[Any, Any],
        parameters: Collection[Any],
    ) -> None:
        self.block, self.names, self.count = block, names, len(indices)
        self.parameters = parameters
        spatial = spatial_of(block)
        self.inner, self.reduced = spatial[len(indices) :], reduced_of(block)
        self.rows = {axis.var: at for axis, at in zip(spatial, indices, strict=False)}

    @property
    def reads_and_keeps(self) -> bool:
        """Whether the block computes elements of an array of this function from elements of another."""
        return self.block.writes[0].source not in self.parameters and any(
            load.source not in self.parameters
            and (load.source not in self.names or len(load.indices) > self.count)
            for load in loads_of(self.block.body.value)
        )

    def expression(self, node: Any, values: Mapping[Any, Any]) -> Any:
        """An expression with its values, which reads the arrays of the row."""
        return with_loads(with_values(node, {**self.rows, **values}), self._of_row)

    def _of_row(self, load: TensorLoad) -> Any:
        array = self.names.get(load.source)
        return load if array is None else tirx.BufferLoad(array, self._indices(load.indices))

    def _indices(self, indices: Sequence[Any]) -> list[Any]:
        return list(indices[self.count :]) or [number(0)]

    def stored(self, value: Any, values: Mapping[Any, Any]) -> Any:
        """Store of the block's output."""
        target = self.block.writes[0]
        indices = [with_values(at.min, {**self.rows, **values}) for at in target.region]
        array = self.names.get(target.source)
        if array is None:
            return store(target.source, value, indices)
        return store(array, value, self._indices(indices))


def _block(this: _RowBlock) -> Any:
    if this.inner:
        return _over_elements(this)
    if this.reduced:
        return _row_sum(this)
    return this.stored(this.expression(this.block.body.value, {}), {})


def _over_elements(this: _RowBlock) -> Any:
    """Elements of a row in vectors; a reduction of each runs inside."""
    *outer, last = this.inner

    def vectors(values: Mapping[Any, Any]) -> Any:
        return in_vectors(
            "element",
            last.dom.extent,
            WIDTHS,
            lambda start, width: _vector(this, values, last, start, width),
            once=this.reads_and_keeps,
        )

    return _nested(outer, vectors)


def _nested(axes: Sequence[IterVar], body: Callable[[Mapping[Any, Any]], Any]) -> Any:
    """Loops over axes around a body."""

    def around(rest: Sequence[IterVar], values: Mapping[Any, Any]) -> Any:
        if not rest:
            return body(values)
        axis = rest[0]
        return loop("axis", axis.dom.extent, lambda at: around(rest[1:], {**values, axis.var: at}))

    return around(axes, {})


def _vector(this: _RowBlock, values: Mapping[Any, Any], last: IterVar, start: Any, width: int) -> Any:
    block = this.block

    def at_lane(lane: Any) -> dict[Any, Any]:
        return {**values, last.var: start + lane}

    if not this.reduced:
        return vector(
            width, lambda lane: this.stored(this.expression(block.body.value, at_lane(lane)), at_lane(lane))
        )
    combined = combination_of(block)
    assert combined is not None
    operation, added = combined
    sums = local([width], str(block.writes[0].source.dtype), "sums")

    def step(depths: Mapping[Any, Any]) -> Any:
        return vector(
            width,
            lambda lane: store(
                sums,
                operation(tirx.BufferLoad(sums, [lane]), this.expression(added, {**at_lane(lane), **depths})),
                [lane],
            ),
        )

    return allocated(
        [sums],
        sequence(
            vector(width, lambda lane: store(sums, block.init.value, [lane])),
            _nested(this.reduced, step),
            vector(width, lambda lane: this.stored(tirx.BufferLoad(sums, [lane]), at_lane(lane))),
        ),
    )


def _row_sum(this: _RowBlock) -> Any:
    """Reduction of a row in several vectors, then one vector, then single elements."""
    block = this.block
    combined = combination_of(block)
    assert combined is not None
    operation, added = combined
    *outer, last = this.reduced
    sums = local([_SUMS, _LANES], str(block.writes[0].source.dtype), "sums")
    extent, wide = number(last.dom.extent), _SUMS * _LANES

    def load(at: int, lane: Any) -> Any:
        return tirx.BufferLoad(sums, [number(at), number(lane)])

    def plus(at: int, depths: Mapping[Any, Any], start: Any) -> Any:
        return vector(
            _LANES,
            lambda lane: store(
                sums,
                operation(load(at, lane), this.expression(added, {**depths, last.var: start + lane})),
                [at, lane],
            ),
        )

    def one(depths: Mapping[Any, Any], start: Any) -> Any:
        value = operation(load(0, 0), this.expression(added, {**depths, last.var: start}))
        return store(sums, value, [0, 0])

    def step(depths: Mapping[Any, Any]) -> Any:
        whole = simple(extent // wide)
        rest, left = simple(extent % wide // _LANES), simple(extent % _LANES)
        return sequence(
            loop(
                "vectors",
                whole,
                lambda at: sequence(*(plus(v, depths, at * wide + v * _LANES) for v in range(_SUMS))),
            ),
            loop("vector", rest, lambda at: plus(0, depths, whole * wide + at * _LANES)),
            loop("single", left, lambda at: one(depths, extent - left + at)),
        )

    def initial(at: int) -> Any:
        return vector(_LANES, lambda lane: store(sums, block.init.value, [at, lane]))

    def folded(at: int) -> Any:
        return vector(_LANES, lambda lane: store(sums, operation(load(0, lane), load(at, lane)), [0, lane]))

    total = load(0, 0)
    for lane in range(1, _LANES):
        total = operation(total, load(0, lane))
    return allocated(
        [sums],
        sequence(
            *map(initial, range(_SUMS)),
            _nested(outer, step),
            *map(folded, range(1, _SUMS)),
            this.stored(total, {}),
        ),
    )
