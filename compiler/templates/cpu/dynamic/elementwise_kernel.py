"""Loops of element-wise blocks of any extents: rows in parallel, the last axis in whole vectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tvm import tirx
from tvm.s_tir.stmt import SBlock
from tvm.tirx import BufferStore

from .nodes import (
    Places,
    allocated,
    ceildiv,
    fixed,
    in_vectors,
    loop,
    number,
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

_TOGETHER = 1024
"""Elements of short rows that one thread computes in a row: the first place takes divisions by extents."""


def elementwise_loops(block: SBlock, parameters: Collection[Any]) -> Any:
    """Statement that computes an element-wise block of a function with these parameters."""
    if not block.iter_vars:
        return block.body
    *outer, last = block.iter_vars
    given = [region.source in parameters for region in block.reads]
    once = block.writes[0].source not in parameters and not all(given)
    extents = [axis.dom.extent for axis in outer]
    *lead, rows = extents or [number(1)]
    count = max(1, _TOGETHER // (fixed(last.dom.extent) or _TOGETHER))
    chunks = ceildiv(rows, count)

    def elements(values: dict[Any, Any]) -> Any:
        return in_vectors(
            "element",
            last.dom.extent,
            WIDTHS,
            lambda start, width: _vector(block, values, last, start, width),
            once=once,
        )

    def chunk(at: Any) -> Any:
        places = Places()
        *indices, number_of = split_index(at, [*lead, chunks])
        computed, (*indices, start) = places.kept([*indices, number_of * count])

        def row(within: Any) -> Any:
            return elements(values_of(outer, [*indices, start + within][: len(outer)]))

        within = 1 if count == 1 else tirx.min(number(rows) - start, count)
        return allocated([places.array], sequence(*computed, loop("row", within, row)))

    return parallel("chunk", product([*lead, chunks]), chunk)


def _vector(block: SBlock, values: dict[Any, Any], last: Any, start: Any, width: int) -> Any:
    """One vector of an element-wise block."""

    def element(lane: Any) -> BufferStore:
        return with_values(block.body, {**values, last.var: start + lane})

    return vector(width, element)
