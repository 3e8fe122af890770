"""Schedule of chains: all stages are computed for a block of rows before the next block begins."""

from __future__ import annotations

from tvm.s_tir.schedule import LoopRV, SBlockRV, Schedule

from ..intrinsics.dot_intrinsics import dot_name
from ..stages import copy_in_parallel, in_vectors, pack_weight, split_by_decision, tensorize
from ..template import Template
from ..vector_schedule import MOST_ROWS, MOST_UNROLLED, MOST_VECTORS
from .chain import Chain, ChainStage
from .chain_template import MOST_LINES, ChainTemplate

_LAST = -1
"""Number of the last stage among the tiles of a template."""


def apply_chain(sch: Schedule, chain: Chain, template: ChainTemplate) -> None:
    """Schedules `main` of `sch` as the template says. The loop over blocks runs in parallel.

    Padded data of the first stage is stored before, and of a later stage block by block, like the
    results that it surrounds.
    """
    for stage in chain.stages:
        for name in stage.inlined:
            sch.compute_inline(sch.get_sblock(name))
    *others, last = chain.stages
    for number, stage in enumerate(chain.stages):
        if stage.contraction is not None and _packs(stage, template):
            pack_weight(sch, stage.contraction, sch.get_sblock(stage.block), _template_of(template, number))
    around = _last(sch, last, template)
    for number in reversed(range(len(others))):
        following = chain.stages[number + 1]
        for name in following.prepared:
            padded = sch.get_sblock(name)
            sch.compute_at(padded, around, preserve_unit_loops=True)
            _copy_in_vectors(sch, padded, template.instruction.lanes)
        _before(sch, chain.stages[number], template, number, around)
    for name in chain.stages[0].prepared:
        copy_in_parallel(sch, sch.get_sblock(name))


def _last(sch: Schedule, stage: ChainStage, template: ChainTemplate) -> LoopRV:
    """Loops of the last stage; returns the loop over blocks of rows."""
    block, result = _results(sch, stage)
    loops = sch.get_loops(result)
    *outer, column = loops
    place = stage.blocked
    outer[place], inside = split_by_decision(sch, outer[place], template.block, MOST_LINES)
    rows = [inside, *outer[place + 1 :]]
    sch.reorder(*outer[: place + 1], *rows, column)
    around = sch.fuse(*outer[: place + 1])
    sch.parallel(around)
    _register_tiles(sch, stage, template, _LAST, block, result)
    return around


def _before(sch: Schedule, stage: ChainStage, template: ChainTemplate, number: int, around: LoopRV) -> None:
    """Computes an earlier stage for a block of rows."""
    block, result = _results(sch, stage)
    sch.compute_at(result, around, preserve_unit_loops=True)
    _register_tiles(sch, stage, template, number, block, result)


def _results(sch: Schedule, stage: ChainStage) -> tuple[SBlockRV, SBlockRV]:
    """The block that reduces, whose sums are in registers, and the one that stores the result."""
    block = sch.get_sblock(stage.block)
    if stage.result == stage.block:
        return block, sch.cache_write(block, 0, "local")
    sch.set_scope(block, 0, "local")
    return block, sch.get_sblock(stage.result)


def _register_tiles(
    sch: Schedule, stage: ChainStage, template: ChainTemplate, number: int, block: SBlockRV, result: SBlockRV
) -> None:
    """Register tiles of a stage: loops of its result, within which its sums are computed."""
    lanes, step = template.instruction.lanes, template.instruction.step
    rows, vectors = template.tiles[number]
    axes = len(stage.rows) + 1
    inside = axes - stage.blocked if number == _LAST else axes  # within the loop over blocks
    *lines, row, column = sch.get_loops(result)[-inside:]
    row, tile = split_by_decision(sch, row, rows, MOST_ROWS)
    column, lane = sch.split(column, [None, lanes])
    column, vector = split_by_decision(sch, column, vectors, MOST_VECTORS)
    sch.reorder(*lines[:-1], column, *lines[-1:], row, tile, vector, lane)
    outside = len(sch.get_loops(result)) - 3
    sch.compute_at(block, row, preserve_unit_loops=True)
    inner = sch.get_loops(block)[outside:]
    spatial, reduced = inner[:axes], inner[axes:]
    *units, tile_of_sums, columns = spatial
    vector_of_sums, lane_of_sums = sch.split(columns, [None, lanes])
    *taps, depth = reduced
    again: list[LoopRV] = []
    term: list[LoopRV] = []
    if stage.contraction is not None:
        if step > 1:
            depth, pair = sch.split(depth, [None, step])
            term = [pair]
        extent = int(sch.get(depth).extent)
        unroll = next(count for count in (4, 2, 1) if extent % count == 0)
        depth, inside = split_by_decision(sch, depth, unroll if rows * vectors <= 16 else 1, MOST_UNROLLED)
        again = [inside]
    sch.reorder(*units, *taps, depth, *again, tile_of_sums, vector_of_sums, lane_of_sums, *term)
    in_vectors(sch, [tile, vector, lane], lanes)
    if not term:
        sch.vectorize(lane_of_sums)  # TVM vectorises no reduction without its first value
    zero = sch.decompose_reduction(block, (taps or [depth])[0])
    in_vectors(sch, sch.get_loops(zero)[outside:], lanes)
    if stage.contraction is None:  # a window of a depthwise convolution
        for loop in (*taps, depth):
            sch.unroll(loop)
    for loop in (*again, tile_of_sums, vector_of_sums):
        sch.unroll(loop)
    if term:
        tensorize(sch, lane_of_sums, dot_name(template.instruction))


def _copy_in_vectors(sch: Schedule, block: SBlockRV, lanes: int) -> None:
    """Runs a copy in vectors along its last loop."""
    *_, last = sch.get_loops(block)
    _, lane = sch.split(last, [None, lanes])
    sch.vectorize(lane)


def _packs(stage: ChainStage, template: ChainTemplate) -> bool:
    """Whether the weight is packed by the schedule, as in `vector_schedule`."""
    task = stage.contraction
    if task is None:
        return False
    return template.instruction.step > 1 or not (
        task.constant_weight or task.weight_column == task.weight_axes - 1
    )


def _template_of(template: ChainTemplate, number: int) -> Template:
    rows, vectors = template.tiles[number]
    return Template(template.instruction, (rows,), vectors)
