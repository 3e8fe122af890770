"""Schedule of templates of tasks without sums."""

from __future__ import annotations

import math

from tvm.s_tir.schedule import LoopRV, Schedule

from .elementwise import SQUARE, TURNED, VECTORS, Elementwise, ElementwiseTemplate, Output
from .stages import inline_blocks, share_among_threads

_SHARED = 8192
"""Elements of an output that threads share at least: fewer are written before another thread begins."""


def apply_elementwise(sch: Schedule, task: Elementwise, template: ElementwiseTemplate, cores: int) -> None:
    """Schedules `main` of `sch` as the template says; an output that it does not fit has plain loops."""
    inline_blocks(sch, task.inlined)
    for output in task.outputs:
        loops = list(sch.get_loops(sch.get_sblock(output.block)))
        if template.order == TURNED and output.turned is not None:
            outer = _order_in_squares(sch, output, loops)
        else:
            *outer, last = loops
            if template.order == VECTORS and output.lanes:
                rest, last = sch.split(last, [None, output.lanes])
                outer.append(rest)
                sch.vectorize(last)
        if outer and math.prod(output.extents) >= _SHARED:
            share_among_threads(sch, outer, cores)


def _order_in_squares(sch: Schedule, output: Output, loops: list[LoopRV]) -> list[LoopRV]:
    """Orders loops so that squares of two axes are innermost; returns the loops around them."""
    assert output.turned is not None
    last, turned = loops.pop(), loops.pop(output.turned)
    rows, row = sch.split(turned, [None, SQUARE])
    columns, column = sch.split(last, [None, SQUARE])
    sch.reorder(*loops, columns, rows, row, column)
    sch.unroll(row)
    sch.vectorize(column)
    return [*loops, columns, rows]
