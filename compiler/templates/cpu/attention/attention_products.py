"""Products of one block of queries, in register tiles: scores of keys, and weighted values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from ..dynamic.nodes import Places, local, loop, number, sequence, simple, store, unrolled, vector
from ..intrinsics.dot_intrinsics import dot_call, dot_llvm_ir
from .attention_arrays import DTYPE, Arrays
from .attention_loops import steps, tiles_of

At = Callable[..., list[Any]]
"""Indices by the row, or by the vector and the lane, of a register tile."""


class Products:
    """Products of one block of queries.

    Args:
        arrays: arrays of the kernel.
        places: integers that the kernel keeps.
        pair: number of the batch and head.
        lines: register tiles that cover the queries.
    """

    def __init__(self, arrays: Arrays, places: Places, pair: Any, lines: Any) -> None:
        self.arrays, self.blocks, self.places = arrays, arrays.blocks, places
        self.pair, self.lines = pair, lines
        blocks, rows = self.blocks, self.blocks.queries
        self.query = local([rows, arrays.depth * arrays.step], arrays.dtype, "scaled_query")
        self.scores = local([rows, blocks.keys], DTYPE, "scores")
        self.sums = local([rows, arrays.padded], DTYPE, "sums")
        self.tile = local([blocks.rows, blocks.vectors, blocks.lanes], DTYPE, "tile")
        self.weights = (
            self.scores if arrays.dtype == DTYPE else local([rows, blocks.keys], arrays.dtype, "weights")
        )
        """Exponentials of the scores as factors."""

    @property
    def llvm_ir(self) -> str:
        """LLVM IR that the statements call; empty for instructions that LLVM chooses on its own."""
        return dot_llvm_ir(self.blocks.instruction) if self.arrays.step > 1 else ""

    def score(self, start: Any, panel: Any, scale: float | None) -> Any:
        """Stores the scores of a panel of keys, with a factor if there is one."""
        blocks, depth = self.blocks, self.arrays.depth
        wide, vectors = blocks.columns, blocks.vectors
        computed, (first, column) = self.places.kept([(start + panel * wide) * depth, panel * wide])

        def tile(line: Any) -> Any:
            def added(at_depth: Any) -> Any:
                return self._added(
                    vectors,
                    (self.query, lambda row: [line * blocks.rows + row, at_depth * self.arrays.step]),
                    (
                        self.arrays.keys,
                        lambda at, lane: [self.pair, first + at_depth * wide + at * blocks.lanes + lane],
                    ),
                )

            def result(row: Any, at: Any, lane: Any) -> Any:
                found = self._sum(row, at, lane)
                return found if scale is None else found * tirx.const(scale, DTYPE)

            return sequence(
                self._each(
                    vectors, lambda row, at, lane: store(self.tile, tirx.const(0, DTYPE), [row, at, lane])
                ),
                steps(depth, added),
                self._each(
                    vectors,
                    lambda row, at, lane: store(
                        self.scores,
                        result(row, at, lane),
                        [line * blocks.rows + row, column + at * blocks.lanes + lane],
                    ),
                ),
            )

        return sequence(*computed, loop("line", self.lines, tile))

    def add_values(self, start: Any, count: Any, column: int, width: int) -> Any:
        """Adds the weighted values of a panel of columns to the sums."""
        arrays, blocks = self.arrays, self.blocks
        vectors = width // blocks.lanes
        first = column * arrays.lines + start // arrays.step * width
        computed: Sequence[Any] = []
        if not isinstance(arrays.problem.keys, int):
            computed, (first,) = self.places.kept([simple(first)])

        def tile(line: Any) -> Any:
            def place(row: Any, at: Any, lane: Any) -> list[Any]:
                return [line * blocks.rows + row, column + at * blocks.lanes + lane]

            def added(key: Any) -> Any:
                return self._added(
                    vectors,
                    (self.weights, lambda row: [line * blocks.rows + row, key * arrays.step]),
                    (
                        arrays.values,
                        lambda at, lane: [self.pair, first + key * width + at * blocks.lanes + lane],
                    ),
                )

            return sequence(
                self._each(
                    vectors,
                    lambda row, at, lane: store(
                        self.tile, tirx.BufferLoad(self.sums, place(row, at, lane)), [row, at, lane]
                    ),
                ),
                steps(tiles_of(count, arrays.step) if arrays.step > 1 else count, added),
                self._each(
                    vectors,
                    lambda row, at, lane: store(self.sums, self._sum(row, at, lane), place(row, at, lane)),
                ),
            )

        return sequence(*computed, loop("line", self.lines, tile))

    def _added(self, vectors: int, left: tuple[Any, At], right: tuple[Any, At]) -> Any:
        """Adds the products of a word of each row on the left and of each column on the right to the tile."""
        (of_rows, at_row), (of_columns, at_column) = left, right
        if self.arrays.step == 1:
            return self._each(
                vectors,
                lambda row, at, lane: store(
                    self.tile,
                    self._sum(row, at, lane)
                    + tirx.BufferLoad(of_rows, at_row(row))
                    * tirx.BufferLoad(of_columns, at_column(at, lane)),
                    [row, at, lane],
                ),
            )

        def dot(row: Any, at: Any) -> Any:
            operands = (self.tile, [row, at, 0]), (of_rows, at_row(row)), (of_columns, at_column(at, 0))
            return dot_call(self.blocks.instruction, *operands)

        return unrolled(
            "row", self.blocks.rows, lambda row: unrolled("vector", vectors, lambda at: dot(row, at))
        )

    def _each(self, vectors: int, statement: Callable[[Any, Any, Any], Any]) -> Any:
        """A statement for each vector of the register tile."""
        lanes = self.blocks.lanes
        return unrolled(
            "row",
            self.blocks.rows,
            lambda row: unrolled(
                "vector", vectors, lambda at: vector(lanes, lambda lane: statement(row, at, lane))
            ),
        )

    def _sum(self, row: Any, at: Any, lane: Any) -> Any:
        return tirx.BufferLoad(self.tile, [number(row), number(at), lane])
