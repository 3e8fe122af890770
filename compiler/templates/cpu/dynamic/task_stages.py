"""Stages of a task of symbolic extents: prepared data, the block that reduces, and its epilogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir.schedule import Schedule, ScheduleError
from tvm.s_tir.stmt import SBlock
from tvm.tirx import IterVar, PrimFunc

from ..contraction import blocks_of, is_elementwise, only_copies, reduces
from ..stages import inline_blocks
from .nodes import fixed, loads_of


@dataclass(frozen=True, eq=False)
class TaskStages:
    """A task whose only reduction is one block, with element-wise blocks around it."""

    prepared: tuple[SBlock, ...]
    """Element-wise blocks whose values the anchor reads, such as a padded image."""
    anchor: SBlock
    """Block that reduces; it stores each element at the place of its spatial axes."""
    epilogue: SBlock | None
    """Block that writes the output from the results of the anchor; None if the anchor writes it."""
    func: PrimFunc
    """The function with all other blocks inlined."""


def read_stages(func: PrimFunc, reads: Callable[[SBlock], bool]) -> TaskStages | None:
    """The stages of a function whose anchor fulfils `reads`; None for any other function."""
    blocks = blocks_of(tvm.IRModule({"main": func}))
    anchors = [block for block in blocks if reduces(block)]
    names = {block.name_hint for block in blocks}
    if len(anchors) != 1 or len(names) != len(blocks) or not reads(anchors[0]):
        return None
    (anchor,) = anchors
    others = [block for block in blocks if block is not anchor]
    if not all(map(is_elementwise, others)):
        return None
    operands = {region.source for region in anchor.reads}
    stored = {
        block.name_hint for block in others if block.writes[0].source in operands and not only_copies(block)
    }
    last = blocks[-1]
    kept = {anchor.name_hint, last.name_hint} | stored
    sch = Schedule(tvm.IRModule({"main": func}), debug_mask=0, error_render_level="none")
    try:
        inline_blocks(sch, [block.name_hint for block in others if block.name_hint not in kept])
    except ScheduleError:  # such as a block that is read in two places of another shape
        return None
    inlined = {block.name_hint: block for block in blocks_of(sch.mod)}
    anchor, last = inlined[anchor.name_hint], inlined[last.name_hint]
    prepared = tuple(block for name, block in inlined.items() if name in stored)
    epilogue = None if last.name_hint == anchor.name_hint else last
    if not _stores_in_order(anchor) or (epilogue is not None and not _follows(epilogue, anchor)):
        return None
    return TaskStages(prepared, anchor, epilogue, sch.mod["main"])


def _stores_in_order(anchor: SBlock) -> bool:
    spatial = [axis for axis in anchor.iter_vars if axis.iter_type != IterVar.CommReduce]
    written = [at.min for at in anchor.writes[0].region]
    return (
        bool(spatial)
        and len(written) == len(spatial)
        and all(
            fixed(axis.dom.extent) == 1 or at.same_as(axis.var)
            for axis, at in zip(spatial, written, strict=True)
        )
    )


def _follows(epilogue: SBlock, anchor: SBlock) -> bool:
    """Whether the block computes each element of the output from the sum at the same place."""
    sums, variables = anchor.writes[0].source, [axis.var for axis in epilogue.iter_vars]
    written = [at.min for at in epilogue.writes[0].region]
    reads = [load for load in loads_of(epilogue.body.value) if load.source.same_as(sums)]
    places: list[Any] = [written, *(load.indices for load in reads)]
    return bool(reads) and all(
        len(place) == len(variables) == len(sums.shape)
        and all(
            fixed(extent) == 1 or at.same_as(var)
            for at, var, extent in zip(place, variables, sums.shape, strict=True)
        )
        for place in places
    )
