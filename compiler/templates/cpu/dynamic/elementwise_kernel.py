"""Loops of element-wise blocks of any extents: rows in parallel, the last axis in whole vectors."""

from __future__ import annotations

from typing import Any

from tvm.s_tir.stmt import SBlock
from tvm.tirx import BufferStore

from .nodes import in_vectors, parallel, product, split_index, vector, with_values

WIDTHS = (16, 8)
"""Elements of a vector, the widest that fits."""


def elementwise_loops(block: SBlock) -> Any:
    """Statement that computes an element-wise block."""
    *outer, last = block.iter_vars
    extents = [axis.dom.extent for axis in outer]

    def row(at: Any) -> Any:
        indices = split_index(at, extents)
        values = dict(zip((axis.var for axis in outer), indices, strict=True))
        return in_vectors(
            "element", last.dom.extent, WIDTHS, lambda start, width: vector_of(block, values, last, start, width)
        )

    return parallel("row", product(extents), row)


def vector_of(block: SBlock, values: dict[Any, Any], last: Any, start: Any, width: int) -> Any:
    """One vector of an element-wise block."""

    def element(lane: Any) -> BufferStore:
        return with_values(block.body, {**values, last.var: start + lane})

    return vector(width, element)
