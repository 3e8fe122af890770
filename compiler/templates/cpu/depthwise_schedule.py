"""Schedule of templates of depthwise convolutions: register tiles of outputs, with unrolled windows."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV, Schedule

from .depthwise import MOST_PIXELS, MOST_VECTORS, Depthwise, DepthwiseTemplate, Pooling
from .stages import (
    copy_in_parallel,
    in_vectors,
    inline_blocks,
    split_by_decision,
    tile_decision,
    with_sums_in_registers,
)


def apply_depthwise(sch: Schedule, task: Depthwise, template: DepthwiseTemplate) -> None:
    """Schedules `main` of `sch` as the template says.

    The loop over the columns is the innermost around a register tile, so that the weights of a vector of
    channels stay in registers.
    """
    lanes = template.lanes
    inline_blocks(sch, task.inlined)
    block = sch.get_sblock(task.block)
    last = with_sums_in_registers(sch, block, task.epilogue)
    image, y, x, channel, *window = sch.get_loops(block)
    most = MOST_VECTORS // template.vectors if template.ragged else MOST_VECTORS
    of_blocks = tile_decision(sch, y, template.block, task.rows)
    blocks, y = sch.split(y, of_blocks)
    y, line = sch.split(y, [None, template.tile[0]])
    x, pixel = split_by_decision(sch, x, template.tile[1], MOST_PIXELS)
    channel, lane = sch.split(channel, [None, lanes])
    channel, vector = split_by_decision(sch, channel, template.channels // lanes, most)
    sch.reorder(image, blocks, channel, y, x, *window, line, pixel, vector, lane)
    sch.reverse_compute_at(last, x)
    pooled = None if task.pooling is None else _pooled_by_block(sch, task.pooling, of_blocks, x, channel)
    sch.parallel(sch.fuse(image, blocks))
    around = 4  # the loops outside of the register tile
    in_vectors(sch, sch.get_loops(last)[around:], lanes)
    sch.vectorize(lane)  # TVM vectorises no reduction without its first value
    zero = sch.decompose_reduction(block, window[0])
    in_vectors(sch, sch.get_loops(zero)[around:], lanes)
    for loop in (*window, line, pixel, vector):
        sch.unroll(loop)
    if task.pooling is not None and pooled is not None:
        _pool_in_registers(sch, *pooled, y, lanes)
        _add_blocks(sch, task.pooling, lanes)
    for name in task.prepared:
        copy_in_parallel(sch, sch.get_sblock(name))


def _pooled_by_block(
    sch: Schedule, pooling: Pooling, of_blocks: Sequence[ExprRV], tile: LoopRV, channel: LoopRV
) -> tuple[SBlockRV, SBlockRV]:
    """Sums the outputs of each register tile while they are in registers, by block of rows.

    Returns the block that sums, and the block that stores its sums over a block of rows.
    """
    *_, row, _ = sch.get_loops(sch.get_sblock(pooling.block))
    blocks, _ = sch.split(row, of_blocks)
    partial = sch.rfactor(blocks, 0)
    stored = sch.cache_write(partial, 0, "local")
    sch.reverse_compute_at(partial, tile)
    sch.reverse_compute_at(stored, channel)
    return partial, stored


def _pool_in_registers(sch: Schedule, partial: SBlockRV, stored: SBlockRV, row: LoopRV, lanes: int) -> None:
    """Runs what `_pooled_by_block` returns in vectors; `row` is the loop over the rows of a block."""
    channel, *summed = sch.get_loops(partial)[4:]
    vector, lane = sch.split(channel, [None, lanes])
    sch.reorder(*summed, vector, lane)
    sch.vectorize(lane)
    for loop in (*summed, vector):
        sch.unroll(loop)
    zero = sch.decompose_reduction(partial, row)
    for block in (zero, stored):
        in_vectors(sch, sch.get_loops(block)[2:], lanes)


def _add_blocks(sch: Schedule, pooling: Pooling, lanes: int) -> None:
    """Adds up the sums of all blocks of rows, in vectors of channels."""
    block = sch.get_sblock(pooling.block)
    *_, channel, blocks = sch.get_loops(block)
    channel, lane = sch.split(channel, [None, lanes])
    sch.reorder(channel, blocks, lane)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(sch.decompose_reduction(block, blocks))[-1])
    for name in pooling.steps:
        *_, channel = sch.get_loops(sch.get_sblock(name))
        sch.vectorize(sch.split(channel, [None, lanes])[1])
