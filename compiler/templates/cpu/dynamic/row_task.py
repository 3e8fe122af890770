"""Reading of a task of symbolic extents as groups of blocks that run row after row."""

from __future__ import annotations

from collections.abc import Sequence
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
from .nodes import fixed, loads_of, simple

_COMBINED = (tirx.Add, tirx.Mul, tirx.Max, tirx.Min)
"""Operations of a reduction, whose order may change."""


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
    written = [at.min for at in block.writes[0].region]
    spatial = spatial_of(block) if written else []  # TVM gives a number an axis of one element
    plain = len(written) == len(spatial) and all(
        at.same_as(axis.var) or fixed(axis.dom.extent) == 1 for at, axis in zip(written, spatial, strict=True)
    )
    if not reduces(block):
        return plain and block.init is None
    return plain and block.init is not None and combination_of(block) is not None


def spatial_of(block: SBlock) -> list[IterVar]:
    return [axis for axis in block.iter_vars if axis.iter_type != IterVar.CommReduce]


def reduced_of(block: SBlock) -> list[IterVar]:
    return [axis for axis in block.iter_vars if axis.iter_type == IterVar.CommReduce]


def combination_of(block: SBlock) -> tuple[type, Any] | None:
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
    for count in range(min(len(spatial_of(block)) for block in blocks), 0, -1):
        if all(_reads_own_rows(block, blocks, count) for block in blocks):
            return count if all(_reads_along(block, count) for block in blocks) else max(count - 1, 0)
    return 0


def _reads_own_rows(block: SBlock, blocks: Sequence[SBlock], count: int) -> bool:
    written = [one.writes[0].source for one in blocks]
    rows = spatial_of(block)[:count]
    if not all(
        tvm_ffi.structural_equal(simple(axis.dom.extent), simple(other.dom.extent))
        for one in blocks
        for axis, other in zip(rows, spatial_of(one), strict=False)
    ):
        return False
    return all(
        len(load.indices) >= count
        and all(
            at.same_as(axis.var) or fixed(axis.dom.extent) == 1
            for at, axis in zip(load.indices, rows, strict=False)
        )
        for load in loads_of(block.body.value)
        if any(load.source.same_as(source) for source in written)
    )


def _reads_along(block: SBlock, count: int) -> bool:
    """Whether a reduction without other axes than `count` rows reads consecutive elements."""
    reduced = reduced_of(block)
    if not reduced or len(spatial_of(block)) > count:
        return True
    rows = {axis.var for axis in spatial_of(block)}
    depths = {axis.var for axis in reduced}
    return not any(
        variables_of([load.indices[-1]]) & rows
        for load in loads_of(block.body.value)
        if variables_of(load.indices) & depths
    )
