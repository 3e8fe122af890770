"""Loops of element-wise blocks of any extents: rows in parallel, the last axis in whole vectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tvm.s_tir.stmt import SBlock
from tvm.tirx import BufferStore

from .nodes import (
    Places,
    allocated,
    in_vectors,
    parallel,
    product,
    sequence,
    split_index,
    values_of,
    vector,
    with_values,
)

WIDTHS = (16, 8)
"""Elements of a vector, the widest that fits."""


def elementwise_loops(block: SBlock, parameters: Collection[Any]) -> Any:
    """Statement that computes an element-wise block of a function with these parameters."""
    if not block.iter_vars:
        return block.body
    *outer, last = block.iter_vars
    given = [region.source in parameters for region in block.reads]
    once = block.writes[0].source not in parameters and not all(given)
    extents = [axis.dom.extent for axis in outer]

    def row(at: Any) -> Any:
        places = Places()
        computed, indices = places.kept(split_index(at, extents))
        values = values_of(outer, indices)
        elements = in_vectors(
            "element",
            last.dom.extent,
            WIDTHS,
            lambda start, width: _vector(block, values, last, start, width),
            once=once,
        )
        return allocated([places.array], sequence(*computed, elements)) if computed else elements

    return parallel("row", product(extents), row)


def _vector(block: SBlock, values: dict[Any, Any], last: Any, start: Any, width: int) -> Any:
    """One vector of an element-wise block."""

    def element(lane: Any) -> BufferStore:
        return with_values(block.body, {**values, last.var: start + lane})

    return vector(width, element)
