"""Schedule of templates whose accumulators are tile registers: AMX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.s_tir.schedule import LoopRV, SBlockRV, Schedule
from tvm.tirx import IndexMap

from .contraction import Contraction
from .intrinsics.tile_intrinsics import MOST_ACROSS, tile_name
from .stages import (
    copy_in_parallel,
    in_vectors,
    inline_blocks,
    loops_of,
    outer_loops,
    pack_weight,
    share_among_threads,
    split_by_decision,
    tensorize,
)
from .template import Template


def apply_tiles(sch: Schedule, task: Contraction, template: Template, cores: int) -> None:
    """Schedules `main` of `sch` as the template says.

    `template.row_tiles` x `template.vectors` tiles hold the sums over the whole reduction. They are stored to
    memory that stays in the first cache, from which the epilogue reads them.
    """
    instruction = template.instruction
    whole, task = task, task.in_tiles(instruction.step)
    lanes, step = instruction.lanes, instruction.step
    words = template.words(task.inner.extent)
    rows, stride = template.row_tile[-1], task.rows[-1].stride
    inline_blocks(sch, task.inlined)
    block = sch.get_sblock(task.block)
    if task is not whole:
        _fold_window(sch, block, whole)
    pack_weight(sch, task, block, template)
    data = sch.reindex(block, ("read", task.data))
    sch.set_scope(data, 0, "local")
    row_axis = _rows_beside_depth(sch, task, data)
    weight = sch.cache_read(block, task.weight, "local")
    store = sch.cache_write(block, 0, "local")
    loops = sch.get_loops(block)
    batch, reduced = loops_of(loops, task.batch), loops_of(loops, task.outer)
    *others, last_row = loops_of(loops, task.rows)
    row, line = sch.split(last_row, [None, rows])
    if others and task.rows[-1].extent == rows:  # tiles of several lines of an image
        others[-1], tile = split_by_decision(sch, others[-1], template.row_tiles, MOST_ACROSS)
    else:
        row, tile = split_by_decision(sch, row, template.row_tiles, MOST_ACROSS)
    column, lane = sch.split(loops[task.column.position], [None, lanes])
    column, vector = split_by_decision(sch, column, template.vectors, MOST_ACROSS)
    depth, term = sch.split(loops[task.inner.position], [None, words * step])
    outer = outer_loops(template, batch, [*others, row], column)
    inside = [*reduced, depth, tile, vector, line, lane, term]
    sch.reorder(*outer, *inside)
    outer = share_among_threads(sch, outer, cores)
    around = len(outer)
    sch.reverse_compute_at(store, outer[-1], preserve_unit_loops=True)
    if task.epilogue is not None:
        _compute_epilogue(sch, sch.get_sblock(task.epilogue), store, outer[-1], lanes)
    sch.compute_at(data, depth, preserve_unit_loops=True)
    sch.compute_at(weight, depth, preserve_unit_loops=True)
    zero = sch.decompose_reduction(block, reduced[0] if reduced else depth)

    def named(part: str) -> str:
        of_data = (stride, task.channels) if part == "load_data" else ()
        return tile_name(instruction, part, rows, words, *of_data)

    inner = around + len(reduced) + 1
    of_data = _rows_then_depth(sch.get_loops(data)[inner:], row_axis)
    _tensorize(sch, sch.get_loops(zero)[around:], (rows, lanes), named("zero"))
    _tensorize(sch, of_data, (rows, words * step), named("load_data"))
    _tensorize(sch, sch.get_loops(weight)[inner:], (words, lanes, step), named("load_weight"))
    kind = "store" if task.epilogue is None else "store_local"
    _tensorize(sch, sch.get_loops(store)[around:], (rows, lanes), named(kind))
    for loop in (tile, vector):
        sch.unroll(loop)
    tensorize(sch, line, named("multiply"))
    for name in task.prepared:
        copy_in_parallel(sch, sch.get_sblock(name))


def _compute_epilogue(sch: Schedule, epilogue: SBlockRV, store: SBlockRV, loop: LoopRV, lanes: int) -> None:
    """Computes the epilogue at a loop, from sums that `store` keeps in the first cache."""
    sch.set_scope(store, 0, "local")
    sch.reverse_compute_at(epilogue, loop)
    in_vectors(sch, sch.get_loops(epilogue)[-1:], lanes)


def _rows_then_depth(loops: list[LoopRV], row_axis: int) -> list[LoopRV]:
    """The loops of a tile of data with its row, and then its depth, innermost."""
    loops.append(loops.pop(row_axis))
    loops.append(loops.pop(-2))
    return loops


def _fold_window(sch: Schedule, block: SBlockRV, task: Contraction) -> None:
    """Makes one loop of the window's last axis and of the channels, which are consecutive in the data."""
    window = task.window
    assert window is not None

    def order(*axes: Any) -> list[Any]:
        found = list(axes)
        found[task.inner.position] += task.inner.extent * found[window.position]
        del found[window.position]
        return found

    axes = len(sch.get(block).iter_vars)
    sch.transform_block_layout(block, IndexMap.from_func(order, ndim=axes, index_dtype="int64"))


def _rows_beside_depth(sch: Schedule, task: Contraction, data: SBlockRV) -> int:
    """Moves the innermost row axis of the data next to the reduction, as a tile has these two.

    Returns the place of that axis among the loops of the block.
    """
    axes = len(sch.get(data).iter_vars)
    row = axes - 2 - sum(axis.extent > 1 for axis in task.outer)

    def order(*index: Any) -> list[Any]:
        return [*index[:row], *index[row + 1 : -1], index[row], index[-1]]

    sch.transform_layout(data, ("write", 0), order)
    return row


def _tensorize(sch: Schedule, loops: Sequence[LoopRV], shape: Sequence[int], name: str) -> None:
    """Replaces the innermost loops of a block, one for each extent, by an intrinsic; unrolls the others."""
    outside, inside = list(loops[: -len(shape)]), []
    for loop, extent in zip(loops[-len(shape) :], shape, strict=True):
        rest, within = sch.split(loop, [None, extent])
        outside.append(rest)
        inside.append(within)
    sch.reorder(*outside, *inside)
    for loop in outside:
        sch.unroll(loop)
    tensorize(sch, inside[0], name)
