"""Kernel of attention in blocks of queries and keys, with the running softmax of FlashAttention.

Scores of a block stay in cache: they are never written as a whole. Largest score and sum of exponentials of
a row are corrected block after block (Milakov and Gimelshein 2018; Dao et al. 2022, Algorithm 1). Keys are
brought into panels first, in which the keys of a register tile are adjacent, and values into panels of
columns. The last block of queries overlaps the one before it, and both store equal values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.ir import Range
from tvm.tirx import DeclBuffer, For, ForKind, IterVar, PrimFunc

from ....codegen.vector_math import exp_of_negative
from ....operators.shared.tir import extents
from ..dynamic.nodes import (
    INDEX,
    Places,
    allocated,
    fixed,
    local,
    loop,
    number,
    product,
    sequence,
    simple,
    store,
    unrolled,
    vector,
    workspace,
)
from .attention import Attention, Blocks, Layout

PACKED, ATTENDED = "attention_panels", "attention"
"""Names of the blocks of the kernel, in order."""

_DTYPE = "float32"
_LOWEST = -3.4028234663852886e38
"""Lowest float32 that is finite: a running maximum of it leaves hidden scores hidden."""

_UNROLLED = 4
"""Steps of a product in a row without a branch."""


def attention_function(
    problem: Attention, blocks: Blocks, shapes: Sequence[Sequence[int]], sources: Sequence[int]
) -> PrimFunc:
    """Function of the arrays of an attention, whose loops run in order.

    Args:
        problem: the attention.
        blocks: its blocks.
        shapes: shape of each array that it reads, and of the output.
        sources: number of the array of query, key, value, and of the mask unless there is none.

    Its two loops over tiles have independent iterations.
    """
    return _Kernel(problem, blocks, shapes, sources).function()


class _Kernel:
    """Arrays of a kernel, which all of its parts share."""

    def __init__(
        self, problem: Attention, blocks: Blocks, shapes: Sequence[Sequence[int]], sources: Sequence[int]
    ) -> None:
        self.problem, self.blocks = problem, blocks
        self.params = [
            tirx.decl_buffer([number(extent) for extent in shape], _DTYPE, f"p{index}")
            for index, shape in enumerate(shapes)
        ]
        self.views = [
            tirx.decl_buffer([product(array.shape)], _DTYPE, f"{array.name}_flat") for array in self.params
        ]
        names = ["query", "key", "value", *(["mask"] if problem.mask else [])]
        self.sources = {**dict(zip(names, sources, strict=True)), "output": len(shapes) - 1}
        self.panels = math.ceil(problem.keys / blocks.columns)
        self.padded = math.ceil(problem.width / blocks.lanes) * blocks.lanes
        keys = self.panels * blocks.columns
        self.keys = workspace([problem.pairs, keys * problem.width], _DTYPE, "key_panels")
        self.values = workspace([problem.pairs, problem.keys * self.padded], _DTYPE, "value_panels")

    def function(self) -> PrimFunc:
        """The whole function."""
        problem, blocks = self.problem, self.blocks
        self.tiles = math.ceil(problem.queries / blocks.queries)
        packed = self._loop(PACKED, self.panels, ["key", "value"], [], self._panel)
        inputs = ["query", *(["mask"] if problem.mask else [])]
        attended = self._loop(ATTENDED, self.tiles, inputs, ["output"], self._tile)
        # Extents of loops that depend on the block are not constant, which TVM cannot count.
        flops = 4 * problem.pairs * problem.queries * problem.keys * problem.width
        root = SBlock([], [], [], "root", sequence(packed, attended), None, [self.keys, self.values])
        made = PrimFunc(self.params, SBlockRealize([], True, root))
        attributes = {"global_symbol": "main", "tirx.noalias": True, "s_tir": True, "estimated_flops": flops}
        return made.with_attrs(attributes)

    def _loop(
        self, name: str, tiles: int, reads: Sequence[str], writes: Sequence[str], body: Callable[[Any], Any]
    ) -> Any:
        """A loop over tiles of each pair around a block whose iterations are independent of each other."""
        extent, panels = number(self.problem.pairs * tiles), [self.keys, self.values]
        at, inside = tirx.Var("tile", INDEX), IterVar(Range(0, extent), tirx.Var("at", INDEX), IterVar.DataPar)
        of_reads, of_writes = (sorted({self.sources[one] for one in names}) for names in (reads, writes))
        arrays = [[self.params[one] for one in numbers] for numbers in (of_reads, of_writes)]
        arrays[0 if writes else 1] += panels
        views = [DeclBuffer(self.views[one], data=self.params[one].data) for one in (*of_reads, *of_writes)]
        block = SBlock([inside], *map(_regions, arrays), name, sequence(*views, body(inside.var)))
        return For(at, number(0), extent, ForKind.SERIAL, SBlockRealize([at], True, block))

    def _at(self, name: str, pair: Any, row: Any, column: Any) -> tuple[Any, list[Any]]:
        """Array of this name, and indices of an element of a pair's row."""
        layout: Layout = getattr(self.problem, name)
        heads = self.problem.heads
        place = (
            layout.start
            + (pair // heads) * layout.batch
            + (pair % heads) * layout.head
            + row * layout.row
            + column
        )
        return self.views[self.sources[name]], [simple(place)]

    def _load(self, name: str, pair: Any, row: Any, column: Any) -> Any:
        array, indices = self._at(name, pair, row, column)
        return tirx.BufferLoad(array, indices)

    def _panel(self, at: Any) -> Any:
        """Brings the keys and values of one panel into place."""
        problem, blocks = self.problem, self.blocks
        wide = blocks.columns
        places = Places()
        computed, (pair, panel) = places.kept([at // self.panels, at % self.panels])

        def key(lane: Any) -> Any:
            row = tirx.min(panel * wide + lane, number(problem.keys - 1))

            def element(depth: Any) -> Any:
                target = (panel * problem.width + depth) * wide + lane
                return store(self.keys, self._load("key", pair, row, depth), [pair, target])

            return loop("depth", problem.width, element)

        def value(lane: Any) -> Any:
            row = panel * wide + lane

            def columns(start: int, width: int) -> Any:
                def element(lane: Any) -> Any:
                    column = start + lane
                    inside = column if start + width <= problem.width else tirx.min(column, problem.width - 1)
                    target = start * problem.keys + row * width + lane
                    return store(self.values, self._load("value", pair, row, inside), [pair, target])

                return vector(width, element)

            return sequence(*(columns(start, width) for start, width in self._value_panels()))

        rest = tirx.min(number(wide), number(problem.keys) - panel * wide)
        return allocated(
            [places.array],
            sequence(*computed, loop("key", wide, key), loop("value", rest, value)),
        )

    def _value_panels(self) -> list[tuple[int, int]]:
        """First column and width of each panel of the values."""
        wide = self.blocks.columns
        return [(start, min(wide, self.padded - start)) for start in range(0, self.padded, wide)]

    def _tile(self, at: Any) -> Any:
        """Output of a block of queries."""
        return _Tile(self, at).statement()


class _Tile:
    """One block of queries."""

    def __init__(self, kernel: _Kernel, at: Any) -> None:
        self.kernel, self.problem, self.blocks = kernel, kernel.problem, kernel.blocks
        problem, blocks = self.problem, self.blocks
        self.places = Places()
        start = at % kernel.tiles * blocks.queries
        first = start if problem.queries % blocks.queries == 0 else tirx.min(start, problem.queries - blocks.queries)
        self.computed, (self.pair, self.first) = self.places.kept([at // kernel.tiles, simple(first)])
        rows, lanes = blocks.queries, blocks.lanes
        self.query = local([rows, problem.width], _DTYPE, "scaled_query")
        self.scores = local([rows, blocks.keys], _DTYPE, "scores")
        self.sums = local([rows, kernel.padded], _DTYPE, "sums")
        self.largest = local([rows], _DTYPE, "largest")
        self.total = local([rows, lanes], _DTYPE, "total")
        self.tile = local([blocks.rows, blocks.vectors, lanes], _DTYPE, "tile")
        self.row = local([lanes], _DTYPE, "row")
        self.found = local([4], _DTYPE, "found")

    def statement(self) -> Any:
        problem, blocks = self.problem, self.blocks
        visible: Any = number(problem.keys)
        if problem.ahead is not None:
            visible = tirx.max(tirx.min(visible, self.first + (blocks.queries + problem.ahead)), number(1))
        count = simple((visible + (blocks.keys - 1)) // blocks.keys)
        arrays = [self.query, self.scores, self.sums, self.largest, self.total, self.tile, self.row, self.found]
        return allocated(
            [self.places.array, *arrays],
            sequence(
                *self.computed,
                loop("row", blocks.queries, self._begin),
                loop("block", count, self._block),
                loop("row", blocks.queries, self._end),
            ),
        )

    def _begin(self, row: Any) -> Any:
        """Scaled query of a row, and its sums."""

        def scaled(column: Any) -> Any:
            value = self.kernel._load("query", self.pair, self.first + row, column)
            return store(self.query, value * tirx.const(self.problem.scale, _DTYPE), [row, column])

        zero = tirx.const(0, _DTYPE)
        return sequence(
            _in_vectors(self.problem.width, self.blocks.lanes, scaled),
            _in_vectors(self.kernel.padded, self.blocks.lanes, lambda at: store(self.sums, zero, [row, at])),
            vector(self.blocks.lanes, lambda lane: store(self.total, zero, [row, lane])),
            store(self.largest, tirx.const(_LOWEST, _DTYPE), [row]),
        )

    def _block(self, at: Any) -> Any:
        """Adds a block of keys."""
        problem, blocks = self.problem, self.blocks
        start = at * blocks.keys
        whole = problem.keys % blocks.keys == 0
        count: Any = number(blocks.keys) if whole else tirx.min(number(blocks.keys), problem.keys - start)
        computed, (start, count) = self.places.kept([start, count])
        panels = simple((count + (blocks.columns - 1)) // blocks.columns)
        return sequence(
            *computed,
            loop("panel", panels, lambda panel: self._scores(start, panel)),
            None if problem.keys % blocks.columns == 0 else self._hidden(count, panels),
            loop("row", blocks.queries, lambda row: self._softmax(row, start, count, panels)),
            *(self._values(start, count, column, width) for column, width in self.kernel._value_panels()),
        )

    def _scores(self, start: Any, panel: Any) -> Any:
        """Scores of a panel of keys."""
        problem, blocks, keys = self.problem, self.blocks, self.kernel.keys
        wide, vectors = blocks.columns, blocks.vectors
        first = (start // wide + panel) * (problem.width * wide)

        def tile(line: Any) -> Any:
            def added(depth: Any) -> Any:
                def term(row: int, at: int, lane: Any) -> Any:
                    weight = tirx.BufferLoad(keys, [self.pair, first + depth * wide + at * blocks.lanes + lane])
                    return tirx.BufferLoad(self.query, [line * blocks.rows + row, depth]) * weight

                return self._added(term, vectors)

            return sequence(
                self._each(vectors, lambda row, at, lane: store(self.tile, tirx.const(0, _DTYPE), [row, at, lane])),
                _steps(problem.width, added),
                self._each(
                    vectors,
                    lambda row, at, lane: store(
                        self.scores,
                        self._sum(row, at, lane),
                        [line * blocks.rows + row, panel * wide + at * blocks.lanes + lane],
                    ),
                ),
            )

        return loop("line", blocks.queries // blocks.rows, tile)

    def _values(self, start: Any, count: Any, column: int, width: int) -> Any:
        """Adds the weighted values of a panel of columns to the sums."""
        problem, blocks, values = self.problem, self.blocks, self.kernel.values
        vectors = width // blocks.lanes
        first = column * problem.keys + start * width

        def tile(line: Any) -> Any:
            def place(row: int, at: int, lane: Any) -> list[Any]:
                return [line * blocks.rows + row, column + at * blocks.lanes + lane]

            def added(key: Any) -> Any:
                def term(row: int, at: int, lane: Any) -> Any:
                    value = tirx.BufferLoad(values, [self.pair, first + key * width + at * blocks.lanes + lane])
                    return tirx.BufferLoad(self.scores, [line * blocks.rows + row, key]) * value

                return self._added(term, vectors)

            return sequence(
                self._each(
                    vectors,
                    lambda row, at, lane: store(
                        self.tile, tirx.BufferLoad(self.sums, place(row, at, lane)), [row, at, lane]
                    ),
                ),
                _steps(count, added),
                self._each(
                    vectors,
                    lambda row, at, lane: store(self.sums, self._sum(row, at, lane), place(row, at, lane)),
                ),
            )

        return loop("line", blocks.queries // blocks.rows, tile)

    def _each(self, vectors: int, statement: Callable[[int, int, Any], Any]) -> Any:
        """A statement for each vector of the register tile."""

        def of(row: int, at: int) -> Any:
            return vector(self.blocks.lanes, lambda lane: statement(row, at, lane))

        return sequence(*(of(row, at) for row in range(self.blocks.rows) for at in range(vectors)))

    def _sum(self, row: int, at: int, lane: Any) -> Any:
        return tirx.BufferLoad(self.tile, [number(row), number(at), lane])

    def _added(self, term: Callable[[int, int, Any], Any], vectors: int) -> Any:
        return self._each(
            vectors,
            lambda row, at, lane: store(
                self.tile, self._sum(row, at, lane) + term(row, at, lane), [row, at, lane]
            ),
        )

    def _hidden(self, count: Any, panels: Any) -> Any:
        """Hides the scores of the last panel that belong to no key."""
        lacking = simple(panels * self.blocks.columns - count)
        hidden = tirx.const(-math.inf, _DTYPE)
        return loop(
            "row",
            self.blocks.queries,
            lambda row: loop("key", lacking, lambda at: store(self.scores, hidden, [row, count + at])),
        )

    def _softmax(self, row: Any, start: Any, count: Any, panels: Any) -> Any:
        """Exponentials of a row's scores, with the sums so far corrected to the largest score so far."""
        blocks, lanes = self.blocks, self.blocks.lanes
        vectors = simple(panels * blocks.vectors)

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
                return store(
                    self.scores, exp_of_negative(score(at, lane) - load(self.found, 0)), [row, at * lanes + lane]
                )

            def summed(lane: Any) -> Any:
                return store(self.row, load(self.row, lane) + score(at, lane), [lane])

            return sequence(vector(lanes, of), vector(lanes, summed))

        peak = load(self.row, 0)
        for lane in range(1, lanes):
            peak = tirx.max(peak, load(self.row, lane))
        before = load(self.largest, row)
        kept = load(self.found, 1)
        return sequence(
            None if self.problem.mask is None else self._masked(row, start, count),
            vector(lanes, lambda lane: store(self.row, tirx.const(_LOWEST, _DTYPE), [lane])),
            loop("vector", vectors, larger),
            store(self.found, tirx.max(peak, before), [0]),
            store(self.found, exp_of_negative(before - load(self.found, 0)), [1]),
            store(self.largest, load(self.found, 0), [row]),
            vector(lanes, lambda lane: store(self.row, load(self.total, row, lane) * kept, [lane])),
            loop("vector", vectors, exponential),
            vector(lanes, lambda lane: store(self.total, load(self.row, lane), [row, lane])),
            _in_vectors(
                self.kernel.padded, lanes, lambda at: store(self.sums, load(self.sums, row, at) * kept, [row, at])
            ),
        )

    def _masked(self, row: Any, start: Any, count: Any) -> Any:
        """Adds the mask to a row of scores."""

        def plus(at: Any) -> Any:
            mask = self.kernel._load("mask", self.pair, self.first + row, start + at)
            return store(self.scores, tirx.BufferLoad(self.scores, [row, at]) + mask, [row, at])

        return _in_vectors(count, self.blocks.lanes, plus)

    def _end(self, row: Any) -> Any:
        """Stores a row of the output."""
        total: Any = tirx.BufferLoad(self.total, [row, number(0)])
        for lane in range(1, self.blocks.lanes):
            total = total + tirx.BufferLoad(self.total, [row, number(lane)])
        inverse = tirx.const(1, _DTYPE) / tirx.BufferLoad(self.found, [number(0)])
        if self.problem.zeros:
            empty = tirx.BufferLoad(self.found, [number(0)]) == tirx.const(0, _DTYPE)
            inverse = tirx.Select(empty, tirx.const(0, _DTYPE), inverse)

        def stored(column: Any) -> Any:
            value = tirx.BufferLoad(self.sums, [row, column]) * tirx.BufferLoad(self.found, [number(1)])
            array, indices = self.kernel._at("output", self.pair, self.first + row, column)
            return store(array, value, indices)

        return sequence(
            store(self.found, total, [0]),
            store(self.found, inverse, [1]),
            _in_vectors(self.problem.width, self.blocks.lanes, stored),
        )


def _in_vectors(extent: Any, lanes: int, body: Callable[[Any], Any]) -> Any:
    """Elements in whole vectors, and those that are left one by one."""
    whole, rest = simple(number(extent) // lanes), simple(number(extent) % lanes)
    return sequence(
        loop("vector", whole, lambda at: vector(lanes, lambda lane: body(at * lanes + lane)))
        if fixed(whole) != 0
        else None,
        loop("single", rest, lambda at: body(whole * lanes + at)) if fixed(rest) != 0 else None,
    )


def _steps(extent: Any, body: Callable[[Any], Any]) -> Any:
    """Steps of a product, a few of them without a branch."""
    whole, rest = simple(number(extent) // _UNROLLED), simple(number(extent) % _UNROLLED)
    return sequence(
        loop("step", whole, lambda at: unrolled("again", _UNROLLED, lambda inner: body(at * _UNROLLED + inner)))
        if fixed(whole) != 0
        else None,
        loop("last", rest, lambda at: body(whole * _UNROLLED + at)) if fixed(rest) != 0 else None,
    )


def _regions(arrays: Sequence[Any]) -> list[Any]:
    return [array[tuple(slice(0, extent) for extent in extents(array))] for array in arrays]
