"""Schedule of templates whose accumulators are vector registers: all but those of AMX."""

from __future__ import annotations

from tvm.s_tir.schedule import Schedule

from ...codegen.remainders import APART
from .contraction import Contraction
from .filling import fill_up
from .intrinsics.dot_intrinsics import dot_name
from .stages import (
    copy_in_parallel,
    in_vectors,
    inline_blocks,
    loops_of,
    mark_streaming,
    outer_loops,
    pack_weight,
    share_among_threads,
    split_by_decision,
    tensorize,
    with_sums_in_registers,
)
from .template import Template

MOST_ROWS, MOST_VECTORS, MOST_UNROLLED = 32, 8, 16
"""Rows and vectors of a register tile, and steps without a branch, to which a search may change them."""


def apply_vectors(sch: Schedule, task: Contraction, template: Template, cores: int) -> None:
    """Schedules `main` of `sch` as the template says.

    The register tile is `template.rows` x `template.vectors` vectors. Its sums stay in registers over the
    whole reduction; then the epilogue reads them, and stores the output.
    """
    lanes, step = template.lanes, template.instruction.step
    inline_blocks(sch, task.inlined)
    block = sch.get_sblock(task.block)
    zeros = fill_up(sch, task, block, template)
    # MetaSchedule packs constant weights of float32 on its own, and consecutive columns need no packing.
    if step > 1 or not (task.constant_weight or task.weight_column == task.weight_axes - 1) or zeros.weight:
        pack_weight(sch, task, block, template)
    for filled in zeros.weight:
        sch.compute_inline(filled)  # packing fills it up
    last = with_sums_in_registers(sch, block, zeros.epilogue)
    loops = sch.get_loops(block)
    batch, reduced = loops_of(loops, task.batch), loops_of(loops, task.outer)
    rows, row_tile, ragged = [], [], []
    for loop, tile in zip(loops_of(loops, task.rows), template.row_tile, strict=True):
        if int(sch.get(loop).extent) % tile:
            outside, inside = sch.split(loop, [None, tile])
            ragged.append(outside)
        else:
            outside, inside = split_by_decision(sch, loop, tile, MOST_ROWS)
        rows.append(outside)
        row_tile.append(inside)
    most = MOST_VECTORS // template.vectors if template.ragged else MOST_VECTORS
    column, lane = sch.split(loops[task.column.position], [None, lanes])
    column, vector = split_by_decision(sch, column, template.columns // lanes, most)
    if zeros.weight:
        ragged.append(column)
    depth, term = loops[task.inner.position], []
    if step > 1:
        depth, pair = sch.split(depth, [None, step])
        term = [pair]
    depth, again = split_by_decision(sch, depth, template.unroll, MOST_UNROLLED)
    outer = outer_loops(template, batch, rows, column)
    sch.reorder(*outer, *reduced, depth, again, *row_tile, vector, lane, *term)
    outer = share_among_threads(sch, outer, cores)
    for loop in outer:
        if any(loop.same_as(other) for other in ragged):
            sch.annotate(loop, APART, 1)
    around = len(outer)
    sch.reverse_compute_at(last, outer[-1])
    in_vectors(sch, sch.get_loops(last)[around:], lanes)
    if not term:
        sch.vectorize(lane)  # TVM vectorises no reduction without its first value
    zero = sch.decompose_reduction(block, reduced[0] if reduced else depth)
    in_vectors(sch, sch.get_loops(zero)[around:], lanes)
    for loop in (again, *row_tile, vector):
        sch.unroll(loop)
    mark_streaming(sch, task, template, depth)
    if term:
        tensorize(sch, lane, dot_name(template.instruction))
    for prepared in (*map(sch.get_sblock, task.prepared), *zeros.data):
        copy_in_parallel(sch, prepared)
