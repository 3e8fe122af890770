"""End of a register tile: what follows from its sums, and is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from .nodes import allocated, fixed, local, loop, number, sequence, store, vector

Written = Callable[[Any, Any, int, Any], Any]
"""Makes the store of what follows from a sum, from that sum and its line, panel and column."""


def finished(sums: Any, lanes: int, epilogue: Any, written: Written) -> Any:
    """Statement that stores what follows from all sums of a tile [lines, panels, columns], in vectors.

    `epilogue` is the expression that follows from a sum, or None. One without function calls reads registers.
    Another one reads the sums from the stack, in a loop over lines that keeps its code short.
    """
    lines, panels, columns = (fixed(extent) or 0 for extent in sums.shape)

    def vectors(of: Callable[[int, Any], Any]) -> Iterator[Any]:
        for panel in range(panels):
            for start in range(0, columns, lanes):
                yield vector(lanes, partial(_lane, partial(of, panel), start))

    def line_of(array: Any, line: Any) -> Any:
        def of(panel: int, column: Any) -> Any:
            value = tirx.BufferLoad(array, [number(line), number(panel), column])
            return written(value, line, panel, column)

        return sequence(*vectors(of))

    if epilogue is None or not _calls(epilogue):
        return sequence(*(line_of(sums, line) for line in range(lines)))
    kept = local([lines, panels, columns], str(sums.dtype), "kept")

    def copied(line: int) -> Any:
        def of(panel: int, column: Any) -> Any:
            at = [number(line), number(panel), column]
            return store(kept, tirx.BufferLoad(sums, at), at)

        return sequence(*vectors(of))

    copies = map(copied, range(lines))
    return allocated([kept], sequence(*copies, loop("line", lines, lambda line: line_of(kept, line))))


def _lane(of: Callable[[Any], Any], start: int, lane: Any) -> Any:
    return of(start + lane)


def _calls(expression: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (Call, found.append))
    return bool(found)
