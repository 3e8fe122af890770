"""One block of queries of a kernel of attention: scores, running softmax and values by blocks of keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx import IfThenElse

from ....codegen.vector_math import exp_of_negative
from ....tvm_compat import importing_llvm
from ..dynamic.nodes import (
    Places,
    allocated,
    in_type,
    local,
    loop,
    number,
    sequence,
    simple,
    store,
    vector,
)
from .attention_arrays import DTYPE, Arrays
from .attention_loops import in_vectors, tiles_of
from .attention_products import Products

_LOWEST = -3.4028234663852886e38
"""Lowest float32 that is finite: a running maximum of it leaves hidden scores hidden."""

_PARTS = 4
"""Values of an exponential that are read several times."""


class Tile:
    """One block of queries."""

    def __init__(self, arrays: Arrays, tiles: Any, at: Any) -> None:
        self.arrays, self.problem, self.blocks = arrays, arrays.problem, arrays.blocks
        problem, blocks = self.problem, self.blocks
        self.places = Places()
        start = at % tiles * blocks.queries
        known = isinstance(problem.queries, int)
        exact = not known or problem.queries % blocks.queries == 0
        first = start if exact else tirx.min(start, number(problem.queries - blocks.queries))
        pair = at // tiles
        bases = {
            name: arrays.base(name, pair, first)
            for name in ("query", "mask", "output")
            if name in arrays.sources
        }
        self.computed, kept = self.places.kept([pair, simple(first), *bases.values()])
        self.pair, self.first, *found = kept
        self.bases = dict(zip(bases, found, strict=True))
        self.converts = arrays.dtype != DTYPE
        """Whether factors have a narrower type than sums."""
        self.rows, self.lines = blocks.queries, blocks.queries // blocks.rows
        """Queries of this block, and register tiles that cover them."""
        if not known:
            left = tirx.min(number(blocks.queries), problem.queries - self.first)
            of_rows, (self.rows,) = self.places.kept([left])
            of_lines, (self.lines,) = self.places.kept([tiles_of(self.rows, blocks.rows)])
            self.computed += of_rows + of_lines
        rows, lanes = blocks.queries, blocks.lanes
        self.products = Products(arrays, self.places, self.pair, self.lines)
        self.scores, self.sums = self.products.scores, self.products.sums
        self.largest = local([rows], DTYPE, "largest")
        self.total = local([rows, lanes], DTYPE, "total")
        self.row = local([lanes], DTYPE, "row")
        self.found = local([2], DTYPE, "found")
        self.parts = local([_PARTS, lanes], DTYPE, "parts")

    def statement(self) -> Any:
        products = self.products
        arrays = [products.query, self.scores, self.sums, self.largest, self.total, products.tile, self.row]
        arrays += [self.found, self.parts, *([products.weights] if self.converts else [])]
        body = allocated(
            [self.places.array, *arrays],
            sequence(
                *self.computed,
                loop("row", self.lines * self.blocks.rows, self._begin),
                *self._blocks(),
                loop("row", self.rows, self._end),
            ),
        )
        return importing_llvm(products.llvm_ir, body) if products.llvm_ir else body

    def _begin(self, row: Any) -> Any:
        """Query of a row, and its sums. Rows that fill a register tile repeat the last query."""
        given = row if isinstance(self.rows, int) else tirx.min(row, self.rows - 1)

        query = self.products.query

        def factor(column: Any) -> Any:
            value = self.arrays.element("query", self.bases["query"], given, column)
            # A narrower type would round a scaled query once more: scores are scaled instead.
            scaled = value if self.converts else value * tirx.const(self.problem.scale, DTYPE)
            return store(query, in_type(scaled, self.arrays.dtype), [row, column])

        filled = range(self.problem.width, self.arrays.depth * self.arrays.step)
        zero = tirx.const(0, DTYPE)
        return sequence(
            in_vectors(self.problem.width, self.blocks.lanes, factor),
            *(store(query, tirx.const(0, self.arrays.dtype), [row, at]) for at in filled),
            in_vectors(self.arrays.padded, self.blocks.lanes, lambda at: store(self.sums, zero, [row, at])),
            vector(self.blocks.lanes, lambda lane: store(self.total, zero, [row, lane])),
            store(self.largest, tirx.const(_LOWEST, DTYPE), [row]),
        )

    def _blocks(self) -> list[Any]:
        """Whole blocks of keys, and the last one if it is smaller.

        A branch leaves out blocks that are not seen: MetaSchedule needs loops of constant extents.
        """
        problem, blocks = self.problem, self.blocks
        if not isinstance(problem.keys, int):
            return [loop("block", tiles_of(problem.keys, blocks.keys), self._symbolic_block)]
        whole, rest = divmod(problem.keys, blocks.keys)

        def seen(at: Any, count: int) -> Any:
            start = at * blocks.keys
            if problem.ahead is None:
                return self._block(start, count)
            first = self.first + (blocks.queries + problem.ahead)
            # The first block is never left out, so that a row has a sum.
            return IfThenElse(start < tirx.max(first, number(1)), self._block(start, count), None)

        several = loop("block", whole, lambda at: seen(at, blocks.keys)) if whole else None
        last = seen(number(whole), rest) if rest else None
        return [one for one in (several, last) if one is not None]

    def _symbolic_block(self, at: Any) -> Any:
        """Adds a block of keys of symbolic number, which is smaller than others if it is the last one."""
        start = at * self.blocks.keys
        left = tirx.min(number(self.blocks.keys), self.problem.keys - start)
        computed, (count,) = self.places.kept([left])
        return sequence(*computed, self._block(start, count))

    def _block(self, start: Any, count: Any) -> Any:
        """Adds a block of `count` keys."""
        blocks = self.blocks
        panels = tiles_of(count, blocks.columns)
        computed, (start,) = self.places.kept([start])
        if not isinstance(count, int):
            of_panels, (panels,) = self.places.kept([panels])
            computed += of_panels
        whole = isinstance(count, int) and count % blocks.columns == 0
        scale = self.problem.scale if self.converts else None
        return sequence(
            *computed,
            loop("panel", panels, lambda panel: self.products.score(start, panel, scale)),
            None if whole else self._hidden(count, panels),
            loop("row", self.rows, lambda row: self._softmax(row, start, count, panels)),
            *(self.products.add_values(start, count, *panel) for panel in self.arrays.value_panels()),
        )

    def _hidden(self, count: Any, panels: Any) -> Any:
        """Hides the scores of the last panel that belong to no key."""
        lacking = panels * self.blocks.columns - count
        hidden = tirx.const(-math.inf, DTYPE)
        return loop(
            "row",
            self.rows,
            lambda row: loop("key", lacking, lambda at: store(self.scores, hidden, [row, count + at])),
        )

    def _softmax(self, row: Any, start: Any, count: Any, panels: Any) -> Any:
        """Exponentials of a row's scores, with the sums so far corrected to the largest score so far."""
        blocks, lanes = self.blocks, self.blocks.lanes
        vectors = panels * blocks.vectors

        def score(at: Any, lane: Any) -> Any:
            return tirx.BufferLoad(self.scores, [row, at * lanes + lane])

        def load(array: Any, *indices: Any) -> Any:
            return tirx.BufferLoad(array, [number(index) for index in indices])

        def larger(at: Any) -> Any:
            return vector(
                lanes,
                lambda lane: store(self.row, tirx.max(score(at, lane), load(self.row, lane)), [lane]),
            )

        def exponential(at: Any) -> Any:
            def of(lane: Any) -> Any:
                difference = score(at, lane) - load(self.found, 0)
                return self._exponential(difference, lane, self.scores, [row, at * lanes + lane])

            def summed(lane: Any) -> Any:
                return store(self.row, load(self.row, lane) + score(at, lane), [lane])

            weights = vector(lanes, lambda lane: self._weight(row, at * lanes + lane))
            return sequence(vector(lanes, of), vector(lanes, summed), weights if self.converts else None)

        def halved(width: int) -> Any:
            return vector(
                width,
                lambda lane: store(
                    self.row, tirx.max(load(self.row, lane), load(self.row, lane + width)), [lane]
                ),
            )

        before = load(self.largest, row)
        kept = load(self.found, 1)
        return sequence(
            None if self.problem.mask is None else self._masked(row, start, count),
            vector(lanes, lambda lane: store(self.row, tirx.const(_LOWEST, DTYPE), [lane])),
            loop("vector", vectors, larger),
            *(halved(1 << power) for power in reversed(range(lanes.bit_length() - 1))),
            store(self.found, load(self.row, 0), [0]),
            store(self.found, tirx.max(load(self.found, 0), before), [0]),
            self._exponential(before - load(self.found, 0), number(0), self.found, [1]),
            store(self.largest, load(self.found, 0), [row]),
            vector(lanes, lambda lane: store(self.row, load(self.total, row, lane) * kept, [lane])),
            loop("vector", vectors, exponential),
            vector(lanes, lambda lane: store(self.total, load(self.row, lane), [row, lane])),
            in_vectors(
                self.arrays.padded,
                lanes,
                lambda at: store(self.sums, load(self.sums, row, at) * kept, [row, at]),
            ),
        )

    def _weight(self, row: Any, key: Any) -> Any:
        """Stores an exponential as a factor."""
        value = tirx.Cast(self.arrays.dtype, tirx.BufferLoad(self.scores, [row, key]))
        return store(self.products.weights, value, [row, key])

    def _exponential(self, value: Any, lane: Any, array: Any, indices: Sequence[Any]) -> Any:
        """Stores the exponential of a value that is at most 0."""
        statements: list[Any] = []

        def once(part: Any) -> Any:
            place = [number(len(statements)), lane]
            statements.append(store(self.parts, part, place))
            return tirx.BufferLoad(self.parts, place)

        result = exp_of_negative(value, once)
        return sequence(*statements, store(array, result, indices))

    def _masked(self, row: Any, start: Any, count: Any) -> Any:
        """Adds the mask to a row of scores."""

        def plus(at: Any) -> Any:
            mask = self.arrays.element("mask", self.bases["mask"] + start, row, at)
            masked = tirx.BufferLoad(self.scores, [row, at]) + in_type(mask, DTYPE)
            return store(self.scores, masked, [row, at])

        return in_vectors(count, self.blocks.lanes, plus)

    def _end(self, row: Any) -> Any:
        """Stores a row of the output."""
        total: Any = tirx.BufferLoad(self.total, [row, number(0)])
        for lane in range(1, self.blocks.lanes):
            total = total + tirx.BufferLoad(self.total, [row, number(lane)])
        inverse = tirx.const(1, DTYPE) / tirx.BufferLoad(self.found, [number(0)])
        if self.problem.zeros:
            empty = tirx.BufferLoad(self.found, [number(0)]) == tirx.const(0, DTYPE)
            inverse = tirx.Select(empty, tirx.const(0, DTYPE), inverse)

        def stored(column: Any) -> Any:
            value = tirx.BufferLoad(self.sums, [row, column]) * tirx.BufferLoad(self.found, [number(1)])
            target = self.arrays.element("output", self.bases["output"], row, column)
            return store(target.source, in_type(value, self.problem.output_dtype), target.indices)

        return sequence(
            store(self.found, total, [0]),
            store(self.found, inverse, [1]),
            in_vectors(self.problem.width, self.blocks.lanes, stored),
        )
