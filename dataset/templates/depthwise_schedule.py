"""Schedule of templates of depthwise convolutions: register tiles of outputs, with unrolled windows."""

from __future__ import annotations

from tvm.s_tir.schedule import Schedule

from .depthwise import MOST_PIXELS, MOST_VECTORS, Depthwise, DepthwiseTemplate
from .stages import copy_in_parallel, in_vectors, inline_blocks, split_by_decision, with_sums_in_registers


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
    blocks, y = split_by_decision(sch, y, template.block, task.rows)
    y, line = sch.split(y, [None, template.tile[0]])
    x, pixel = split_by_decision(sch, x, template.tile[1], MOST_PIXELS)
    channel, lane = sch.split(channel, [None, lanes])
    channel, vector = split_by_decision(sch, channel, template.channels // lanes, most)
    sch.reorder(image, blocks, channel, y, x, *window, line, pixel, vector, lane)
    sch.parallel(sch.fuse(image, blocks))
    around = 4  # the loops outside of the register tile
    sch.reverse_compute_at(last, x)
    in_vectors(sch, sch.get_loops(last)[around:], lanes)
    sch.vectorize(lane)  # TVM vectorises no reduction without its first value
    zero = sch.decompose_reduction(block, window[0])
    in_vectors(sch, sch.get_loops(zero)[around:], lanes)
    for loop in (*window, line, pixel, vector):
        sch.unroll(loop)
    for name in task.prepared:
        copy_in_parallel(sch, sch.get_sblock(name))
