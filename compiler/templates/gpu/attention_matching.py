"""Functions that are attention: two products with a softmax between them, and rearrangements around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
import tvm
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock

from ...operators.shared.tir import extents
from ..cpu.attention.attention import Layout
from ..cpu.contraction import blocks_of, is_product
from .attention import Attention
from .problem import DTYPES, NOTHING
from .terms import Places, Summand, Tracer, UntraceableError

_TYPES = {tvm_name: name for name, tvm_name in DTYPES.items()}

_DENSE, _DRAWN = 1 << 18, 1 << 15
"""Elements of an array that are all traced at most, and those of a larger one that are drawn."""


@dataclass(frozen=True)
class Points:
    """Elements of an array [pairs, rows, columns], by their indices."""

    shape: tuple[int, int, int]
    at: tuple[Places, Places, Places]

    @classmethod
    def every(cls, *shape: int) -> Points:
        """All elements in order."""
        pairs, rows, columns = shape
        grid = np.indices((pairs, rows, columns), dtype=np.int64).reshape(3, -1)
        return cls((pairs, rows, columns), (grid[0], grid[1], grid[2]))

    @classmethod
    def some(cls, *shape: int) -> Points:
        """All elements of a small array; of a large one, the first of each axis and random ones."""
        if prod(shape) <= _DENSE:
            return cls.every(*shape)
        random = np.random.default_rng(0)
        pairs, rows, columns = shape
        axes = [np.zeros((3, size), np.int64) for size in shape]
        for axis, (along, size) in enumerate(zip(axes, shape, strict=True)):
            along[axis] = np.arange(size)
        drawn = np.stack([random.integers(0, size, _DRAWN) for size in shape])
        at = np.concatenate([*axes, drawn], axis=1)
        return cls((pairs, rows, columns), (at[0], at[1], at[2]))

    @property
    def flat(self) -> Places:
        """Places of the elements in the flat array."""
        return np.asarray(np.ravel_multi_index(self.at, self.shape), np.int64)


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
    except (UntraceableError, StopIteration, ValueError):  # ValueError: such as a window in place of a row
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
        (inner,) = _reduced(self._first)
        if (others, rows, int(inner.dom.extent)) != (pairs, queries, width):
            raise UntraceableError
        of_query, of_key = Points.some(pairs, queries, width), Points.some(pairs, keys, width)
        of_scores = Points.some(pairs, queries, keys)
        query, key = (
            self._single(self._factor(self._first, 0, of_query)),
            self._single(self._factor(self._first, 1, of_key, turned=True)),
        )
        weights = self._single(self._factor(self._second, 0, of_scores))
        value = self._single(self._factor(self._second, 1, of_key))
        scale, mask = self._scores(weights, of_scores)
        output = self._output()
        tensors = [query, key, value, mask, output]
        points = [of_query, of_key, of_key, of_scores, Points.every(pairs, queries, width)]
        every = list(zip(tensors, points, strict=True))
        found = ((heads, [_layout(*one, heads) for one in every]) for heads in _divisors(pairs))
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

    def _factor(self, block: SBlock, side: int, points: Points, *, turned: bool = False) -> list[Summand]:
        """Terms of the left factor [pairs, rows, terms], or of the right one [pairs, terms, columns].

        `turned` reads the right one as [pairs, columns, terms].
        """
        value = block.body.value
        multiplied = value.b if isinstance(value.b, tirx.Mul) else value.a
        load = _load((multiplied.a, multiplied.b)[side])
        *batch, row, column = [loop for loop in block.iter_vars if loop.iter_type != tirx.IterVar.CommReduce]
        (inner,) = _reduced(block)
        last = (row, inner) if side == 0 else (column, inner) if turned else (inner, column)
        pair, *others = points.at
        pairs = np.unravel_index(pair, [int(axis.dom.extent) for axis in batch])
        loops = dict(zip((axis.var for axis in (*batch, *last)), (*pairs, *others), strict=True))
        stops = [other.writes[0].source for other in self._divisions()]
        return self._tracer.read(load, loops, stops)

    def _divisions(self) -> Iterator[SBlock]:
        """Blocks that divide one array by another, as softmax does in the end."""
        for block in self._tracer.blocks:
            value = getattr(block.body, "value", None)
            if block.init is None and isinstance(value, tirx.Div) and isinstance(_bare(value.b), TensorLoad):
                yield block

    def _scores(self, weights: Summand, points: Points) -> tuple[float, Summand | None]:
        """Factor of the first product and the term that is added to it, both before the exponential."""
        division = self._tracer.writer(weights.source)
        if division is None or weights.factor != 1.0 or not isinstance(division.body.value, tirx.Div):
            raise UntraceableError
        exponential = self._tracer.writer(_load(division.body.value.a).source)
        call = None if exponential is None else getattr(exponential.body, "value", None)
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
        in_order = np.array_equal(np.broadcast_to(scores.places, points.flat.shape), points.flat)
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
        return Summand(output, 1.0, places)

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


def _reduced(block: SBlock) -> list[Any]:
    return [loop for loop in block.iter_vars if loop.iter_type == tirx.IterVar.CommReduce]


def _bare(value: Any) -> Any:
    return _bare(value.value) if isinstance(value, tirx.Cast) else value


def _load(value: Any) -> TensorLoad:
    bare = _bare(value)
    if not isinstance(bare, TensorLoad):
        raise UntraceableError
    return bare


def _divisors(number: int) -> list[int]:
    return [each for each in range(number, 0, -1) if number % each == 0]


def _layout(term: Summand | None, points: Points, heads: int) -> Layout | None:
    """Strides of a term at these points, or None if they are not regular."""
    if term is None:
        return Layout(0, 0, 0, 0, 0)
    pair, row, column = points.at
    places = np.broadcast_to(term.places, pair.shape)
    axes = (pair // heads, pair % heads, row, column)
    start = int(places[_first(axes, (0, 0, 0, 0))])
    strides = []
    for axis, values in enumerate(axes):
        unit = tuple(int(axis == other) for other in range(4))
        strides.append(int(places[_first(axes, unit)]) - start if values.any() else 0)
    expected = start + sum(stride * values for stride, values in zip(strides, axes, strict=True))
    if (strides[3] != 1 and column.any()) or not np.array_equal(places, expected):
        return None
    return Layout(prod(extents(term.source)), start, *strides[:3])


def _first(axes: Sequence[Places], wanted: Sequence[int]) -> int:
    """Number of the first point with these indices."""
    same = [values == index for values, index in zip(axes, wanted, strict=True)]
    return int(np.argmax(np.logical_and.reduce(same)))
