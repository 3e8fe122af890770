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
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import DeclBuffer, For, ForKind, IterVar, PrimFunc

from ....operators.shared.tir import extents
from ....task import ATTENTION_BLOCKS
from ..dynamic.nodes import (
    INDEX,
    Places,
    allocated,
    loop,
    number,
    parallel,
    scheduled_function,
    sequence,
    simple,
    store,
    vector,
)
from .attention import BlockedAttention, Blocks, Size
from .attention_arrays import Arrays
from .attention_loops import tiles_of
from .attention_tile import Tile

PACKED, ATTENDED = ATTENTION_BLOCKS


def attention_function(
    problem: BlockedAttention, blocks: Blocks, shapes: Sequence[Sequence[int]], sources: Sequence[int]
) -> PrimFunc:
    """Function of the arrays of an attention, whose loops run in order.

    Args:
        problem: the attention.
        blocks: its blocks.
        shapes: shape of each array that it reads, and of the output.
        sources: number of the array of query, key, value and, with a mask, of the mask.

    Its two loops over tiles have independent iterations.
    """
    arrays = Arrays(problem, blocks, shapes, sources)
    tiles = math.ceil(problem.queries / blocks.queries)
    packed = _loop(arrays, PACKED, arrays.panels, ["key", "value"], [], lambda at: _panel(arrays, at))
    inputs = ["query", *(["mask"] if problem.mask else [])]
    attended = _loop(
        arrays, ATTENDED, tiles, inputs, ["output"], lambda at: Tile(arrays, tiles, at).statement()
    )
    # TVM's own estimate counts the queries of overlapping blocks twice.
    flops = 4 * problem.pairs * problem.queries * problem.keys * problem.width
    root = SBlock([], [], [], "root", sequence(packed, attended), None, [arrays.keys, arrays.values])
    made = PrimFunc(arrays.params, SBlockRealize([], True, root))
    return made.with_attrs({"tirx.noalias": True, "s_tir": True, "estimated_flops": flops})


def symbolic_attention_function(
    problem: BlockedAttention,
    blocks: Blocks,
    shapes: Sequence[Sequence[Size]],
    sources: Sequence[int],
    symbols: Sequence[Any],
) -> PrimFunc:
    """Scheduled function of an attention with symbolic extents.

    Arguments as of `attention_function`; sizes are expressions of `symbols`, which are parameters before the
    output. A block of fewer queries than `blocks.queries` has fewer register tiles, and a block of fewer keys
    than `blocks.keys` fewer panels.
    """
    arrays = Arrays(problem, blocks, shapes, sources)
    tiles = tiles_of(problem.queries, blocks.queries)
    views = [
        DeclBuffer(arrays.views[name], data=arrays.params[source].data)
        for name, source in arrays.sources.items()
    ]
    packed = parallel("panel", simple(problem.pairs * arrays.panels), lambda at: _panel(arrays, at))
    attended = parallel("tile", simple(problem.pairs * tiles), lambda at: Tile(arrays, tiles, at).statement())
    body = allocated([arrays.keys, arrays.values], sequence(*views, packed, attended))
    *inputs, output = arrays.params
    return scheduled_function([*inputs, *symbols, output], body).with_attr("tirx.noalias", True)


def _loop(
    arrays: Arrays,
    name: str,
    tiles: int,
    reads: Sequence[str],
    writes: Sequence[str],
    body: Callable[[Any], Any],
) -> Any:
    """A loop over tiles of each pair around a block whose iterations are independent of each other."""
    extent, panels = number(arrays.problem.pairs * tiles), [arrays.keys, arrays.values]
    at, inside = (
        tirx.Var("tile", INDEX),
        IterVar(Range(0, extent), tirx.Var("at", INDEX), IterVar.DataPar),
    )
    of_reads, of_writes = (sorted({arrays.sources[one] for one in names}) for names in (reads, writes))
    regions = [[arrays.params[one] for one in numbers] for numbers in (of_reads, of_writes)]
    regions[0 if writes else 1] += panels
    views = [
        DeclBuffer(arrays.views[one], data=arrays.params[arrays.sources[one]].data)
        for one in (*reads, *writes)
    ]
    block = SBlock([inside], *map(_regions, regions), name, sequence(*views, body(inside.var)))
    return For(at, number(0), extent, ForKind.SERIAL, SBlockRealize([at], True, block))


def _panel(arrays: Arrays, at: Any) -> Any:
    """Brings the keys and values of one panel into place."""
    problem, wide, step = arrays.problem, arrays.blocks.columns, arrays.step
    places = Places()
    pair, panel = at // arrays.panels, at % arrays.panels
    bases = [arrays.base(name, pair, panel * wide) for name in ("key", "value")]
    targets = [panel * (arrays.depth * wide), panel * (wide // step)]
    rest = tirx.min(number(wide), number(problem.keys) - panel * wide)
    computed, kept = places.kept([pair, *bases, *targets, simple(rest)])
    pair, of_key, of_value, to_key, to_value, rest = kept
    exact = bool(problem.keys % wide == 0)

    def key(lane: Any) -> Any:
        row = lane if exact else tirx.min(lane, rest - 1)

        def word(at: Any, count: int = step) -> Any:
            terms = [arrays.element("key", of_key, row, at * step + term) for term in range(count)]
            return store(arrays.keys, arrays.word(*terms), [pair, to_key + (at * wide + lane)])

        whole, remaining = divmod(problem.width, step)
        return sequence(
            loop("depth", whole, word) if whole else None,
            word(number(whole), remaining) if remaining else None,
        )

    def value(line: Any) -> Any:
        # The last panel stores its last word several times: extents of loops are constant.
        own = line if exact else tirx.min(line, (rest - 1) // step)
        return sequence(*(columns(own, *panel) for panel in arrays.value_panels()))

    def columns(line: Any, start: int, width: int) -> Any:
        def word(lane: Any) -> Any:
            inside = start + width <= problem.width
            column = start + lane if inside else tirx.min(start + lane, number(problem.width - 1))
            target = start * arrays.lines + (to_value + line) * width + lane
            terms = [arrays.element("value", of_value, row, column) for row in rows]
            return store(arrays.values, arrays.word(*terms), [pair, target])

        # A row after the last one, whose weight is 0, repeats that one.
        later = [line * step + place for place in range(1, step)]
        rows = [line * step, *(later if exact else [tirx.min(row, rest - 1) for row in later])]
        return vector(width, word)

    body = sequence(*computed, loop("key", wide, key), loop("key", wide // step, value))
    return allocated([places.array], body)


def _regions(arrays: Sequence[Any]) -> list[Any]:
    return [array[tuple(slice(0, extent) for extent in extents(array))] for array in arrays]
