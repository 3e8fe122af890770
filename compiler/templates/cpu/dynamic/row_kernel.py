"""Kernels of tasks that are no products: softmax, normalisation, reductions, pooling and element-wise blocks.

Blocks that work on the same rows of their arrays run row after row, and threads share the rows. Values between
such blocks are kept for one row. Elements of a row are computed in whole vectors, see `in_vectors`; the sum of
a row is made in several vectors, which are added up at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.schedule import Schedule, ScheduleError
from tvm.s_tir.stmt import SBlock
from tvm.tirx import BufferStore, IterVar, PrimFunc

from ..contraction import blocks_of, is_elementwise, reduces, variables_of, writes_output
from ..stages import inline_blocks
from .elementwise_kernel import WIDTHS, elementwise_loops
from .nodes import (
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
    unrolled,
    vector,
    with_loads,
    with_values,
    workspace,
)

STACK_ELEMENTS = 4096
"""Elements of the largest array of one row that is on the stack."""

_LANES, _SUMS = 8, 4
"""Elements of a vector of partial sums, and vectors of partial sums of one row."""

_COMBINED = (tirx.Add, tirx.Mul, tirx.Max, tirx.Min)
"""Operations of a reduction, whose order may change."""

Bound = Callable[[Any], int]
"""Largest value of an extent."""


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Blocks that run together, row after row."""

    blocks: tuple[SBlock, ...]
    axes: int
    """Leading axes of each block that are the rows; 0 for an element-wise block on its own."""


@dataclass(frozen=True, eq=False)
class RowTask:
    """A function as groups of blocks."""

    func: PrimFunc
    groups: tuple[RowGroup, ...]


def read_row_task(func: PrimFunc) -> RowTask | None:
    """The groups of a function; None if a block of it is of another form."""
    func = _inlined(func)
    blocks = blocks_of(tvm.IRModule({"main": func}))
    if not blocks or not all(map(_is_simple, blocks)):
        return None
    groups: list[RowGroup] = []
    for block in blocks:
        alone = _common_rows([block]) if reduces(block) else 0
        joined = (*groups[-1].blocks, block) if groups else (block,)
        axes = _common_rows(joined) if groups else 0
        if axes and axes >= max(alone, groups[-1].axes):  # fewer axes would keep fewer threads busy
            groups[-1] = RowGroup(joined, axes)
        else:
            groups.append(RowGroup((block,), alone))
    return RowTask(func, tuple(groups))


def _inlined(func: PrimFunc) -> PrimFunc:
    """The function with element-wise blocks computed at their reader, if that is one of as many axes."""
    sch = Schedule(tvm.IRModule({"main": func}), debug_mask=0, error_render_level="none")
    blocks = blocks_of(sch.mod)
    if len({block.name_hint for block in blocks}) < len(blocks):
        return func
    for block in blocks:
        written = block.writes[0].source
        readers = [other for other in blocks if any(written.same_as(read.source) for read in other.reads)]
        if (
            is_elementwise(block)
            and not writes_output(block, func)
            and len(readers) == 1
            and len(readers[0].iter_vars) == len(block.iter_vars)
        ):
            try:
                inline_blocks(sch, [block.name_hint])
            except ScheduleError:  # such as a block that is read in two places of another shape
                continue
    return sch.mod["main"]


def _is_simple(block: SBlock) -> bool:
    """Whether the block stores one value, each at its own place, or reduces to it."""
    if not isinstance(block.body, BufferStore) or len(block.writes) != 1:
        return False
    spatial = _spatial(block)
    written = [at.min for at in block.writes[0].region]
    plain = len(written) == len(spatial) and all(
        at.same_as(axis.var) or fixed(axis.dom.extent) == 1
        for at, axis in zip(written, spatial, strict=True)
    )
    if not reduces(block):
        return plain and block.init is None
    return plain and block.init is not None and _combined(block) is not None


def _spatial(block: SBlock) -> list[IterVar]:
    return [axis for axis in block.iter_vars if axis.iter_type != IterVar.CommReduce]


def _reduced(block: SBlock) -> list[IterVar]:
    return [axis for axis in block.iter_vars if axis.iter_type == IterVar.CommReduce]


def _combined(block: SBlock) -> tuple[type, Any] | None:
    """Operation of a reduction, and the value that it adds to the result."""
    value, own = block.body.value, block.writes[0].source
    if not isinstance(value, _COMBINED) or block.init is None:
        return None
    for result, added in ((value.a, value.b), (value.b, value.a)):
        if isinstance(result, TensorLoad) and result.source.same_as(own):
            return type(value), added
    return None


def _common_rows(blocks: Sequence[SBlock]) -> int:
    """Leading axes that all blocks have in common, so that a row reads what the same row wrote."""
    for count in range(min(len(_spatial(block)) for block in blocks), 0, -1):
        if all(_reads_own_rows(block, blocks, count) for block in blocks):
            return count if all(_reads_along(block, count) for block in blocks) else max(count - 1, 0)
    return 0


def _reads_own_rows(block: SBlock, blocks: Sequence[SBlock], count: int) -> bool:
    written = [one.writes[0].source for one in blocks]
    rows = _spatial(block)[:count]
    if not all(
        tvm_ffi.structural_equal(simple(axis.dom.extent), simple(other.dom.extent))
        for one in blocks
        for axis, other in zip(rows, _spatial(one), strict=False)
    ):
        return False
    return all(
        len(load.indices) >= count
        and all(at.same_as(axis.var) or fixed(axis.dom.extent) == 1 for at, axis in zip(load.indices, rows, strict=False))
        for load in loads_of(block.body.value)
        if any(load.source.same_as(source) for source in written)
    )


def _reads_along(block: SBlock, count: int) -> bool:
    """Whether a reduction without other axes than `count` rows reads consecutive elements."""
    reduced = _reduced(block)
    if not reduced or len(_spatial(block)) > count:
        return True
    rows = {axis.var for axis in _spatial(block)}
    depths = {axis.var for axis in reduced}
    return not any(
        variables_of([load.indices[-1]]) & rows
        for load in loads_of(block.body.value)
        if variables_of(load.indices) & depths
    )


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
            statements.append(_group(group, kept, bound))
    return allocated(arrays, sequence(*statements))


def _kept_by_row(group: RowGroup, task: RowTask, outputs: set[Any]) -> list[Any]:
    """Arrays that only blocks of the group read, which each row has its own of."""
    others = [block for other in task.groups if other is not group for block in other.blocks]
    read = {region.source for block in others for region in block.reads}
    written = [block.writes[0].source for block in group.blocks]
    return [source for source in written if source not in outputs and source not in read]


def _group(group: RowGroup, kept: Sequence[Any], bound: Bound) -> Any:
    """Rows in parallel, and the group's blocks in each."""
    extents = [axis.dom.extent for axis in _spatial(group.blocks[0])[: group.axes]]

    def row(at: Any) -> Any:
        names = {}
        for source in kept:
            names[source] = _row_array(source, source.shape[group.axes :], bound)
        indices = split_index(at, extents)
        body = [_block(block, indices, names) for block in group.blocks]
        return allocated(list(names.values()), sequence(*body))

    return parallel("row", product(extents), row)


def _row_array(source: Any, shape: Sequence[Any], bound: Bound) -> Any:
    """Array of one row: on the stack if it is small."""
    sizes = [fixed(extent) or bound(extent) for extent in shape] or [1]
    if fixed(product(sizes)) is not None and int(fixed(product(sizes)) or 0) <= STACK_ELEMENTS:
        return local(sizes, str(source.dtype), source.name)
    return workspace(list(shape), str(source.dtype), source.name)


class _RowBlock:
    """A block in one row."""

    def __init__(self, block: SBlock, indices: Sequence[Any], names: Mapping[Any, Any]) -> None:
        self.block, self.names, self.count = block, names, len(indices)
        spatial = _spatial(block)
        self.inner, self.reduced = spatial[len(indices) :], _reduced(block)
        self.rows = {axis.var: at for axis, at in zip(spatial, indices, strict=False)}

    @property
    def reads_and_keeps(self) -> bool:
        """Whether the block computes elements that are kept for the row from other such elements."""
        read = [load for load in loads_of(self.block.body.value) if load.source in self.names]
        return self.block.writes[0].source in self.names and any(
            len(load.indices) > self.count for load in read
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


def _block(block: SBlock, indices: Sequence[Any], names: Mapping[Any, Any]) -> Any:
    this = _RowBlock(block, indices, names)
    if this.inner:
        return _over_elements(this)
    if this.reduced:
        return _row_sum(this)
    return this.stored(this.expression(block.body.value, {}), {})


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
    combined = _combined(block)
    assert combined is not None
    operation, added = combined
    sums = local([width], str(block.writes[0].source.dtype), "sums")

    def step(depths: Mapping[Any, Any]) -> Any:
        return vector(
            width,
            lambda lane: store(
                sums,
                operation(
                    tirx.BufferLoad(sums, [lane]), this.expression(added, {**at_lane(lane), **depths})
                ),
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
    combined = _combined(block)
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
        return vector(
            _LANES, lambda lane: store(sums, operation(load(0, lane), load(at, lane)), [0, lane])
        )

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
