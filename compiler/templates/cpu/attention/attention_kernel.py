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

_PARTS = 4
"""Values of an exponential that are read several times."""

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

    def base(self, name: str, pair: Any, row: Any) -> Any:
        """Place of the first element of a pair's row in the flat array of this name."""
        layout, heads = self._layout(name), self.problem.heads
        of_pair = layout.start + (pair // heads) * layout.batch + (pair % heads) * layout.head
        return simple(of_pair + row * layout.row)

    def element(self, name: str, base: Any, row: Any, column: Any) -> Any:
        """Element of a row behind a base."""
        place = base + row * self._layout(name).row + column
        return tirx.BufferLoad(self.views[self.sources[name]], [simple(place)])

    def _layout(self, name: str) -> Layout:
        found = getattr(self.problem, name)
        assert isinstance(found, Layout)
        return found

    def _panel(self, at: Any) -> Any:
        """Brings the keys and values of one panel into place."""
        problem, wide = self.problem, self.blocks.columns
        places = Places()
        pair, panel = at // self.panels, at % self.panels
        bases = [self.base(name, pair, panel * wide) for name in ("key", "value")]
        targets = [panel * (problem.width * wide), panel * wide]
        rest = tirx.min(number(wide), number(problem.keys) - panel * wide)
        computed, kept = places.kept([pair, *bases, *targets, simple(rest)])
        pair, of_key, of_value, to_key, to_value, rest = kept

        def key(lane: Any) -> Any:
            row = lane if problem.keys % wide == 0 else tirx.min(lane, rest - 1)

            def element(depth: Any) -> Any:
                target = to_key + (depth * wide + lane)
                return store(self.keys, self.element("key", of_key, row, depth), [pair, target])

            return loop("depth", problem.width, element)

        def value(row: Any) -> Any:
            return sequence(*(columns(row, *panel) for panel in self.value_panels()))

        def columns(row: Any, start: int, width: int) -> Any:
            def element(lane: Any) -> Any:
                inside = start + width <= problem.width
                column = start + lane if inside else tirx.min(start + lane, number(problem.width - 1))
                target = start * problem.keys + (to_value + row) * width + lane
                return store(self.values, self.element("value", of_value, row, column), [pair, target])

            return vector(width, element)

        body = sequence(*computed, loop("key", wide, key), loop("value", rest, value))
        return allocated([places.array], body)

    def value_panels(self) -> list[tuple[int, int]]:
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
        even = problem.queries % blocks.queries == 0
        first = start if even else tirx.min(start, number(problem.queries - blocks.queries))
        pair = at // kernel.tiles
        bases = {name: kernel.base(name, pair, first) for name in ("query", "mask", "output") if name in kernel.sources}
        self.computed, kept = self.places.kept([pair, simple(first), *bases.values()])
        self.pair, self.first, *found = kept
        self.bases = dict(zip(bases, found, strict=True))
        rows, lanes = blocks.queries, blocks.lanes
        self.query = local([rows, problem.width], _DTYPE, "scaled_query")
        self.scores = local([rows, blocks.keys], _DTYPE, "scores")
        self.sums = local([rows, kernel.padded], _DTYPE, "sums")
        self.largest = local([rows], _DTYPE, "largest")
        self.total = local([rows, lanes], _DTYPE, "total")
        self.tile = local([blocks.rows, blocks.vectors, lanes], _DTYPE, "tile")
        self.row = local([lanes], _DTYPE, "row")
        self.found = local([2], _DTYPE, "found")
        self.parts = local([_PARTS, lanes], _DTYPE, "parts")

    def statement(self) -> Any:
        problem, blocks = self.problem, self.blocks
        visible: Any = number(problem.keys)
        if problem.ahead is not None:
            visible = tirx.max(tirx.min(visible, self.first + (blocks.queries + problem.ahead)), number(1))
        count = simple((visible + (blocks.keys - 1)) // blocks.keys)
        arrays = [self.query, self.scores, self.sums, self.largest, self.total, self.tile, self.row]
        arrays += [self.found, self.parts]
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
            value = self.kernel.element("query", self.bases["query"], row, column)
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
            *(self._values(start, count, column, width) for column, width in self.kernel.value_panels()),
        )

    def _scores(self, start: Any, panel: Any) -> Any:
        """Scores of a panel of keys."""
        problem, blocks, keys = self.problem, self.blocks, self.kernel.keys
        wide, vectors = blocks.columns, blocks.vectors
        computed, (first, column) = self.places.kept(
            [(start + panel * wide) * problem.width, panel * wide]
        )

        def tile(line: Any) -> Any:
            def added(depth: Any) -> Any:
                def term(row: Any, at: Any, lane: Any) -> Any:
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
                        [line * blocks.rows + row, column + at * blocks.lanes + lane],
                    ),
                ),
            )

        return sequence(*computed, loop("line", blocks.queries // blocks.rows, tile))

    def _values(self, start: Any, count: Any, column: int, width: int) -> Any:
        """Adds the weighted values of a panel of columns to the sums."""
        problem, blocks, values = self.problem, self.blocks, self.kernel.values
        vectors = width // blocks.lanes
        computed, (first,) = self.places.kept([column * problem.keys + start * width])

        def tile(line: Any) -> Any:
            def place(row: Any, at: Any, lane: Any) -> list[Any]:
                return [line * blocks.rows + row, column + at * blocks.lanes + lane]

            def added(key: Any) -> Any:
                def term(row: Any, at: Any, lane: Any) -> Any:
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

        return sequence(*computed, loop("line", blocks.queries // blocks.rows, tile))

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

    def _added(self, term: Callable[[Any, Any, Any], Any], vectors: int) -> Any:
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
                difference = score(at, lane) - load(self.found, 0)
                return self._exponential(difference, lane, self.scores, [row, at * lanes + lane])

            def summed(lane: Any) -> Any:
                return store(self.row, load(self.row, lane) + score(at, lane), [lane])

            return sequence(vector(lanes, of), vector(lanes, summed))

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
            vector(lanes, lambda lane: store(self.row, tirx.const(_LOWEST, _DTYPE), [lane])),
            loop("vector", vectors, larger),
            *(halved(1 << power) for power in reversed(range(lanes.bit_length() - 1))),
            store(self.found, load(self.row, 0), [0]),
            store(self.found, tirx.max(load(self.found, 0), before), [0]),
            self._exponential(before - load(self.found, 0), number(0), self.found, [1]),
            store(self.largest, load(self.found, 0), [row]),
            vector(lanes, lambda lane: store(self.row, load(self.total, row, lane) * kept, [lane])),
            loop("vector", vectors, exponential),
            vector(lanes, lambda lane: store(self.total, load(self.row, lane), [row, lane])),
            _in_vectors(
                self.kernel.padded, lanes, lambda at: store(self.sums, load(self.sums, row, at) * kept, [row, at])
            ),
        )

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
            mask = self.kernel.element("mask", self.bases["mask"] + start, row, at)
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
            target = self.kernel.element("output", self.bases["output"], row, column)
            return store(target.source, value, target.indices)

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
