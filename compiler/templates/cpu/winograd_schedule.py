"""Schedule of templates of Winograd's algorithm: transforms in registers, products like those of matrices.

Transforms run over vectors of channels, with the loops over the elements of a tile unrolled, so that the
numbers of the matrices become constants and zeros vanish.
"""

from __future__ import annotations

from tvm.s_tir.schedule import LoopRV, Schedule

from ...codegen.prefetching import PREFETCHED
from .intrinsics.dot_intrinsics import dot_name
from .stages import copy_in_parallel, in_vectors, split_by_decision, tensorize
from .vector_schedule import MOST_ROWS, MOST_UNROLLED, MOST_VECTORS
from .winograd import (
    COLUMNS,
    DATA_PAD,
    DATA_TRANSFORM,
    OUTPUT,
    OUTPUT_ROWS,
    OUTPUT_TRANSFORM,
    PRODUCT,
    Winograd,
    WinogradTemplate,
)


def apply_winograd(sch: Schedule, task: Winograd, template: WinogradTemplate) -> None:
    """Schedules `main` of `sch` as the template says."""
    for name in (OUTPUT, *task.steps)[:-1]:
        sch.compute_inline(sch.get_sblock(name))
    around = _outputs(sch, task, template)
    _products(sch, template, around)
    _data(sch, task, template, around)


def _outputs(sch: Schedule, task: Winograd, template: WinogradTemplate) -> LoopRV | None:
    """Transform of the outputs with the epilogue; returns the loop over blocks, None stage by stage."""
    lanes = template.instruction.lanes
    image, y, x, channel = sch.get_loops(sch.get_sblock(task.last))
    rows, y = sch.split(y, [None, task.tile])
    columns, x = sch.split(x, [None, task.tile])
    channel, lane = sch.split(channel, [None, lanes])
    if template.block is None:
        sch.reorder(image, rows, columns, channel, y, x, lane)
        around = None
        inner = sch.fuse(image, rows, columns, channel)
        sch.parallel(inner)
    else:
        rows, row = sch.split(rows, [None, template.block[0]])
        columns, column = sch.split(columns, [None, template.block[1]])
        sch.reorder(image, rows, columns, row, column, channel, y, x, lane)
        around = sch.fuse(image, rows, columns)
        sch.parallel(around)
        inner = channel
    for name in (OUTPUT_TRANSFORM, OUTPUT_ROWS):
        _compute_in_registers(sch, name, inner)
    for loop in (y, x):
        sch.unroll(loop)
    sch.vectorize(lane)
    return around


def _products(sch: Schedule, template: WinogradTemplate, around: LoopRV | None) -> None:
    """Products of matrices, whose sums stay in registers over all input channels."""
    lanes, step = template.instruction.lanes, template.instruction.step
    product = sch.get_sblock(PRODUCT)
    if around is not None:
        sch.compute_at(product, around, preserve_unit_loops=True)
    last = sch.cache_write(product, 0, "local")
    a, b, image, rows, columns, channel, depth, *term = sch.get_loops(product)[-7 - (step > 1) :]
    across, along = template.row_tile
    rows, row = split_by_decision(sch, rows, across, MOST_ROWS)
    columns, column = split_by_decision(sch, columns, along, MOST_ROWS)
    channel, lane = sch.split(channel, [None, lanes])
    channel, vector = split_by_decision(sch, channel, template.vectors, MOST_VECTORS)
    depth, again = split_by_decision(sch, depth, template.unroll, MOST_UNROLLED)
    tile = row, column, vector
    sch.reorder(a, b, channel, image, rows, columns, depth, again, *tile, lane, *term)
    if around is None:
        sch.parallel(sch.fuse(a, b, channel))
    sch.reverse_compute_at(last, columns, preserve_unit_loops=True)
    outside = len(sch.get_loops(product)) - 6 - len(term)
    in_vectors(sch, sch.get_loops(last)[outside:], lanes)
    if not term:
        sch.vectorize(lane)  # TVM vectorises no reduction without its first value
    zero = sch.decompose_reduction(product, depth)
    in_vectors(sch, sch.get_loops(zero)[outside:], lanes)
    for loop in (again, *tile):
        sch.unroll(loop)
    sch.annotate(depth, PREFETCHED, 1)
    if term:
        tensorize(sch, lane, dot_name(template.instruction))


def _data(sch: Schedule, task: Winograd, template: WinogradTemplate, around: LoopRV | None) -> None:
    """Transform of the data, a vector of channels of a tile at a time."""
    if task.padded and around is not None:
        sch.compute_inline(sch.get_sblock(DATA_PAD))
    elif task.padded:
        copy_in_parallel(sch, sch.get_sblock(DATA_PAD))
    transform = sch.get_sblock(DATA_TRANSFORM)
    if around is not None:
        sch.compute_at(transform, around, preserve_unit_loops=True)
    a, b, image, rows, columns, channel = sch.get_loops(transform)[-6:]
    channel, lane = sch.split(channel, [None, template.instruction.lanes])
    sch.reorder(image, rows, columns, channel, a, b, lane)
    if around is None:
        channel = sch.fuse(image, rows, columns, channel)
        sch.parallel(channel)
    _compute_in_registers(sch, COLUMNS, channel)
    for loop in (a, b):
        sch.unroll(loop)
    sch.vectorize(lane)


def _compute_in_registers(sch: Schedule, name: str, at: LoopRV) -> None:
    """Computes a stage of a transform inside a loop, unrolled and in vectors along its last axis."""
    block = sch.get_sblock(name)
    outside = len(sch.get_loops(block))
    sch.compute_at(block, at, preserve_unit_loops=True)
    sch.set_scope(block, 0, "local")
    *loops, lane = sch.get_loops(block)[-outside:]
    for loop in loops:
        sch.unroll(loop)
    sch.vectorize(lane)
