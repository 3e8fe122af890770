"""Stages that the schedules of all templates have: inlining, preparation, packing and storing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV, Schedule
from tvm.tirx import ForKind

from ...codegen.prefetching import PREFETCHED
from .contraction import Axis, Contraction
from .intrinsics.registry import register_named
from .template import COLUMNS_FIRST, Template

PREPROCESSED = "meta_schedule.layout_rewrite_preproc"
"""Annotation of a block that MetaSchedule runs ahead of time, on constant weights."""

_COPY_LANES = 16


def inline_blocks(sch: Schedule, names: Sequence[str]) -> None:
    """Computes element-wise steps where they are read."""
    for name in names:
        sch.compute_inline(sch.get_sblock(name))


def copy_in_parallel(sch: Schedule, block: SBlockRV) -> None:
    """Runs an element-wise block in parallel, and in vectors along its last loop."""
    *outer, last = sch.get_loops(block)
    extent = int(sch.get(last).extent)
    if extent % _COPY_LANES == 0:
        rest, last = sch.split(last, [None, _COPY_LANES])
        outer.append(rest)
    if extent % _COPY_LANES == 0 or extent < _COPY_LANES:
        sch.vectorize(last)
    else:
        outer.append(last)
    if outer:
        sch.parallel(sch.fuse(*(outer[:-1] or outer)))


def pack_weight(sch: Schedule, task: Contraction, block: SBlockRV, template: Template) -> None:
    """Stores the weight in the order in which the instruction reads it, ahead of time if it is constant.

    Vectors: [columns of the register tile, other axes, steps, vectors, lanes, step]. Tiles of AMX:
    [columns of a tile, other axes, tiles, words, lanes, step].
    """
    packed = sch.cache_read(block, task.weight, "global")
    lanes, step = template.lanes, template.instruction.step
    axes = task.weight_column, task.weight_inner
    taken = (*axes, task.weight_window) if task.channels else axes

    def order(*index: Any) -> list[Any]:
        column, depth = (index[axis] for axis in axes)
        if task.channels and task.weight_window is not None:
            depth += task.channels * index[task.weight_window]
        others = [at for axis, at in enumerate(index) if axis not in taken]
        if template.instruction.tiles:
            words = template.words(task.inner.extent)
            tiles = [depth // (words * step), depth // step % words]
            return [column // lanes, *others, *tiles, column % lanes, depth % step]
        panel = template.columns
        return [
            column // panel,
            *others,
            depth // step,
            column // lanes % (panel // lanes),
            column % lanes,
            depth % step,
        ]

    sch.transform_layout(block, ("read", task.weight), order)
    if task.constant_weight:
        sch.annotate(packed, PREPROCESSED, True)
    else:
        copy_in_parallel(sch, packed)


def with_sums_in_registers(sch: Schedule, block: SBlockRV, epilogue: str | None) -> SBlockRV:
    """Keeps the sums of a block in registers; returns the block that stores the output from them."""
    if epilogue is None:
        return sch.cache_write(block, 0, "local")
    last = sch.get_sblock(epilogue)
    sch.set_scope(block, 0, "local")
    return last


def tile_decision(sch: Schedule, loop: LoopRV, inner: int, most: int) -> list[ExprRV]:
    """Factors of a split with `inner` iterations inside; a search may change it to at most `most`."""
    extent = int(sch.get(loop).extent)
    return list(sch.sample_perfect_tile(loop, 2, most, [extent // inner, inner]))


def split_by_decision(sch: Schedule, loop: LoopRV, inner: int, most: int) -> tuple[LoopRV, LoopRV]:
    """Splits a loop by `tile_decision`."""
    outside, inside = sch.split(loop, tile_decision(sch, loop, inner, most))
    return outside, inside


def share_among_threads(sch: Schedule, outer: Sequence[LoopRV], cores: int) -> list[LoopRV]:
    """Runs the outermost loops in parallel, as many as keep all cores busy; returns the loops that result."""
    taken, count = 0, 1
    while taken < len(outer) and not (count >= 4 * cores or (count >= cores and count % cores == 0)):
        count *= int(sch.get(outer[taken]).extent)
        taken += 1
    fused = sch.fuse(*outer[: max(taken, 1)])
    sch.parallel(fused)
    return [fused, *outer[max(taken, 1) :]]


def tensorize(sch: Schedule, loop: LoopRV, name: str) -> None:
    """Replaces the loops from `loop` inwards by an intrinsic of templates."""
    register_named([name])
    sch.tensorize(loop, name)


def in_vectors(sch: Schedule, loops: Sequence[LoopRV], lanes: int) -> None:
    """Unrolls the loops of a tile, and runs the last one in vectors; TVM has no loop for one element."""
    if not loops:
        return
    *rows, last = loops
    if int(sch.get(last).extent) > lanes:
        vectors, last = sch.split(last, [None, lanes])
        rows.append(vectors)
    for loop in rows:
        sch.unroll(loop)
    if sch.get(last).kind != ForKind.VECTORIZED:
        sch.vectorize(last)


def outer_loops(
    template: Template, batch: Sequence[LoopRV], rows: Sequence[LoopRV], column: LoopRV
) -> list[LoopRV]:
    """Loops around the register tile in the template's order."""
    return [*batch, column, *rows] if template.order == COLUMNS_FIRST else [*batch, *rows, column]


def mark_streaming(sch: Schedule, task: Contraction, template: Template, depth: LoopRV) -> None:
    """Marks the loop over the reduction where panels of constant weights follow each other, for prefetches.

    Products of 8 bits are done with a panel too soon, as those of AMX are: prefetches made some slower.
    """
    if task.constant_weight and template.order == COLUMNS_FIRST and template.instruction.step <= 2:
        sch.annotate(depth, PREFETCHED, 1)


def loops_of(loops: Sequence[LoopRV], axes: Sequence[Axis]) -> list[LoopRV]:
    """Loops of these axes."""
    return [loops[axis.position] for axis in axes]
