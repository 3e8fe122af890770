"""Functions that are attention: two products with a softmax between them, and rearrangements around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, cast

import numpy as np
import tvm
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock

from ...operators.shared.tir import extents
from ..cpu.contraction import blocks_of, is_product
from .attention import Attention, Layout
from .problem import DTYPES, NOTHING
from .terms import Places, Summand, Tracer, UntraceableError

_TYPES = {tvm_name: name for name, tvm_name in DTYPES.items()}


def products(mod: tvm.IRModule) -> list[SBlock]:
    """Blocks of `main` that add up products, in order."""
    return [block for block in blocks_of(mod) if block.init is not None and is_product(block)]


def read_attention(mod: tvm.IRModule) -> tuple[Attention, tuple[int, ...]] | None:
    """The attention that `main` seems to be, and the parameter of each of its arrays, or None.

    A division of exponentials between the products counts as a softmax, so the caller must compare values.
    """
    found = products(mod)
    if len(found) != 2:
        return None
    try:
        return _AttentionReading(mod, *found).problem()
    except (UntraceableError, StopIteration):
        return None


class _AttentionReading:
    """The arrays of one function."""

    def __init__(self, mod: tvm.IRModule, first: SBlock, second: SBlock) -> None:
        self._func, self._first, self._second = mod["main"], first, second
        self._tracer = Tracer(blocks_of(mod))

    def problem(self) -> tuple[Attention, tuple[int, ...]]:
        """Raises UntraceableError if this is not attention."""
        pairs, queries, keys = _shape(self._first)
        others, rows, width = _shape(self._second)
        if (others, rows) != (pairs, queries):
            raise UntraceableError
        left, right = self._factors(self._first)
        weights, values = self._factors(self._second)
        query, key, value = (self._single(terms) for terms in (left, right, values))
        key = replace(key, places=key.places.transpose(0, 2, 1))
        if weights[1:] or query.places.shape[2] != width:
            raise UntraceableError
        scale, mask = self._scores(weights[0])
        output = self._output()
        tensors = [query, key, value, mask, output]
        found = ((heads, [_layout(term, heads) for term in tensors]) for heads in _divisors(pairs))
        heads, layouts = next((heads, layouts) for heads, layouts in found if None not in layouts)
        numbers = [self._number(term) for term in tensors]
        types = [self._type(number) for number in numbers]
        if len(set(types[:3])) != 1 or value.factor != 1.0:
            raise UntraceableError
        problem = Attention(
            batch=pairs // heads,
            heads=heads,
            queries=queries,
            keys=keys,
            width=width,
            scale=scale * query.factor * key.factor,
            layouts=cast(Any, tuple(layouts)),
            dtype=types[0],
            mask=types[3],
            output=types[4],
        )
        return problem, tuple(number for number in numbers if number is not None)

    def _type(self, number: int | None) -> str:
        """Data type of a parameter, NOTHING for none."""
        if number is None:
            return NOTHING
        dtype = str(self._func.params[number].dtype)
        if dtype not in _TYPES:
            raise UntraceableError
        return _TYPES[dtype]

    def _factors(self, block: SBlock) -> tuple[list[Summand], list[Summand]]:
        """Terms of the left factor [pairs, rows, terms] and of the right one [pairs, terms, columns]."""
        loads = [_load(side) for side in (block.body.value.b.a, block.body.value.b.b)]
        *batch, row, column = [loop for loop in block.iter_vars if loop.iter_type != tirx.IterVar.CommReduce]
        (inner,) = [loop for loop in block.iter_vars if loop.iter_type == tirx.IterVar.CommReduce]
        stops = [other.writes[0].source for other in self._divisions()]
        found = []
        for load, own, position in ((loads[0], row, 0), (loads[1], column, 1)):
            axes = [*batch, own, inner] if position == 0 else [*batch, inner, own]
            sizes = [int(axis.dom.extent) for axis in axes]
            grid = np.indices(sizes, dtype=np.int64)
            terms = self._tracer.read(load, dict(zip((axis.var for axis in axes), grid, strict=True)), stops)
            shape = (prod(sizes[:-2]), *sizes[-2:])
            found.append([Summand(t.source, t.factor, _reshaped(t.places, sizes, shape)) for t in terms])
        return found[0], found[1]

    def _divisions(self) -> Iterator[SBlock]:
        """Blocks that divide one array by another, as softmax does in the end."""
        for block in self._tracer.blocks:
            value = getattr(block.body, "value", None)
            if block.init is None and isinstance(value, tirx.Div) and isinstance(_bare(value.b), TensorLoad):
                yield block

    def _scores(self, weights: Summand) -> tuple[float, Summand | None]:
        """Factor of the first product and the term that is added to it, both before the exponential."""
        division = self._tracer.writer(weights.source)
        if division is None or weights.factor != 1.0 or not isinstance(division.body.value, tirx.Div):
            raise UntraceableError
        exponential = self._tracer.writer(_load(division.body.value.a).source)
        call = None if exponential is None else exponential.body.value
        if call is None or not str(getattr(getattr(call, "op", None), "name", "")).endswith("exp"):
            raise UntraceableError
        difference = call.args[0]
        if not isinstance(difference, tirx.Sub):
            raise UntraceableError
        loops = self._tracer.loops(exponential, weights.places)
        sums = self._first.writes[0].source
        terms = self._tracer.read(_load(difference.a), loops, [sums])
        scores = next(term for term in terms if term.source.same_as(sums))
        added = [term for term in terms if term is not scores]
        in_order = np.array_equal(scores.places.ravel(), np.arange(scores.places.size))
        if not in_order or len(added) > 1 or any(term.factor != 1.0 for term in added):
            raise UntraceableError
        return scores.factor, added[0] if added else None

    def _output(self) -> Summand:
        """Places in the output of the second product's elements [pairs, rows, columns]."""
        sums, output = self._second.writes[0].source, self._func.params[-1]
        every = np.arange(prod(extents(output)), dtype=np.int64)
        (term,) = self._tracer.terms(output, every, [sums])
        if not term.source.same_as(sums) or term.factor != 1.0 or prod(extents(sums)) != every.size:
            raise UntraceableError
        places = np.full(every.size, -1, np.int64)
        places[term.places] = every
        if (places < 0).any():
            raise UntraceableError
        return Summand(output, 1.0, places.reshape(_shape(self._second)))

    def _single(self, terms: Sequence[Summand]) -> Summand:
        if len(terms) != 1:
            raise UntraceableError
        return terms[0]

    def _number(self, term: Summand | None) -> int | None:
        """Parameter that a term reads."""
        if term is None:
            return None
        params = self._func.params
        number = next((n for n, param in enumerate(params) if param.same_as(term.source)), None)
        if number is None:
            raise UntraceableError
        return number


def _shape(block: SBlock) -> tuple[int, int, int]:
    *batch, rows, columns = extents(block.writes[0].source)
    return prod(batch), rows, columns


def _reshaped(places: Places, sizes: Sequence[int], shape: Sequence[int]) -> Places:
    return np.broadcast_to(places, sizes).reshape(shape)


def _bare(value: Any) -> Any:
    return _bare(value.value) if isinstance(value, tirx.Cast) else value


def _load(value: Any) -> TensorLoad:
    bare = _bare(value)
    if not isinstance(bare, TensorLoad):
        raise UntraceableError
    return bare


def _divisors(number: int) -> list[int]:
    return [each for each in range(number, 0, -1) if number % each == 0]


def _layout(term: Summand | None, heads: int) -> Layout | None:
    """Strides of the places [pairs, rows, columns] of a term, or None if they are not regular."""
    if term is None:
        return Layout(0, 0, 0, 0, 0)
    places = term.places.reshape(-1, heads, *term.places.shape[1:])
    start = int(places[0, 0, 0, 0])
    strides = [
        int(np.take(places, 1, axis).ravel()[0]) - start if n > 1 else 0
        for axis, n in enumerate(places.shape)
    ]
    grids = np.ogrid[tuple(slice(n) for n in places.shape)]
    expected = start + sum(stride * grid for stride, grid in zip(strides, grids, strict=True))
    if (strides[3] != 1 and places.shape[3] > 1) or not np.array_equal(places, expected):
        return None
    return Layout(prod(extents(term.source)), start, *strides[:3])
