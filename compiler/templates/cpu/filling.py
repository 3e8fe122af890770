"""Zeros after the rows, columns and depth of a product that are no whole register tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir.schedule import SBlockRV, Schedule

from .contraction import Contraction
from .template import Template


@dataclass(frozen=True)
class Filled:
    """Blocks that fill a product up; empty where its tiles are whole."""

    data: tuple[SBlockRV, ...]
    """Block that stores the data with zeros after it."""
    weight: tuple[SBlockRV, ...]
    """Block that stores the weight with zeros after it."""
    epilogue: str | None
    """Last block, which leaves out the added elements; None if the contraction writes the output."""


def fill_up(sch: Schedule, task: Contraction, block: SBlockRV, template: Template) -> Filled:
    """Fills a product up with zeros to whole tiles of the template.

    Rows in tiles of single multiply-adds are left alone: TVM takes their remainder out of the loop. Raises
    TVM's ScheduleError for a block with other indices than its loops.
    """
    tiles = _tiles(task, template)
    size = {axis.position: axis.extent for axis in (*task.rows, task.column, task.inner)}
    lacking = [position for position, tile in tiles.items() if size[position] % tile]
    if not lacking:
        return Filled((), (), task.epilogue)
    sch.pad_einsum(block, [tiles.get(position, 1) for position in range(len(sch.get(block).iter_vars))])
    product = sch.get(block)
    stored = {operand: product.reads[operand].source for operand in (task.data, task.weight)}
    zeros = {
        operand: tuple(
            producer
            for producer in sch.get_producers(block)
            if sch.get(producer).writes[0].source.same_as(source)
        )
        for operand, source in stored.items()
    }
    epilogue = task.epilogue
    if lacking != [task.inner.position]:
        (cut,) = sch.get_consumers(block)
        if epilogue is None:
            epilogue = str(sch.get(cut).name_hint)
        else:
            sch.compute_inline(cut)
    return Filled(zeros[task.data], zeros[task.weight], epilogue)


def _tiles(task: Contraction, template: Template) -> dict[int, int]:
    """Elements that a loop must be a multiple of, by its position."""
    step = template.instruction.step
    rows = zip(task.rows, template.row_tile, strict=True) if step > 1 else ()
    return {
        task.column.position: template.columns,
        task.inner.position: step,
        **{axis.position: tile for axis, tile in rows},
    }
