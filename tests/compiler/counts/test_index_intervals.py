"""Intervals of indices: by hand, and against all values over the loops."""

from itertools import product

import numpy as np
import pytest
from foretune.compiler.counts.index_intervals import Indices
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx
from tvm.tirx import Cast, FloorDiv, FloorMod, IntImm, Max, Min, Var


def loops(count):
    return [Var(f"i{number}", "int64") for number in range(count)]


def number(value):
    return IntImm("int64", value)


def interval(index, variables, low, high):
    """Interval of one index for one set of bounds."""
    indices = Indices(variables)
    row = indices.add(index)
    assert indices.is_known(row)
    bounds = (np.array(part, dtype=np.int64).reshape(-1, 1) for part in (low, high))
    lowest, highest = indices.intervals(*bounds)
    return int(lowest[row, 0]), int(highest[row, 0])


def test_intervals_by_hand():
    i, j = variables = loops(2)
    whole = (variables, [0, 0], [7, 3])
    assert interval(i * 4 + j, *whole) == (0, 31)
    assert interval(i - j, *whole) == (-3, 7)
    assert interval(j * -2 + 5, *whole) == (-1, 5)
    assert interval(FloorDiv(i * 4 + j, number(8)), *whole) == (0, 3)
    assert interval(Max(i - 2, number(0)), *whole) == (0, 5)
    assert interval(Min(i, j), *whole) == (0, 3)
    assert interval(Cast("int32", i), *whole) == (0, 7)
    # i - i is nothing, and 8 i is no part of a remainder by 4
    assert interval(i + j - i, *whole) == (0, 3)
    assert interval(FloorMod(i * 8 + j + 5, number(4)), *whole) == (0, 3)
    assert interval(FloorMod(i * 8 + j + 5, number(4)), variables, [0, 1], [7, 2]) == (2, 3)
    assert interval(FloorDiv(i * 8 + j, number(4)), *whole) == (0, 14)
    assert interval(number(3), *whole) == (3, 3)


def test_several_moments_and_rows_at_once():
    i, j = variables = loops(2)
    indices = Indices(variables)
    rows = [indices.add(index) for index in (i + j, FloorDiv(i, number(2)), i * 3)]
    low = np.array([[0, 2, 4], [0, 0, 1]])
    lowest, highest = indices.intervals(low, low + np.array([[1, 1, 1], [0, 1, 2]]))
    assert rows == [0, 1, 2]
    assert lowest.tolist() == [[0, 2, 5], [0, 1, 2], [0, 6, 12]]
    assert highest.tolist() == [[1, 4, 8], [0, 1, 2], [3, 9, 15]]


def test_what_is_not_arithmetic_on_the_loops_is_unknown():
    i, other = loops(2)
    indices = Indices([i])
    table = tirx.decl_buffer((8,), "int64")
    for index in (other, i * other, i * i, FloorDiv(i, i), FloorMod(i, number(-2)), table[i]):
        assert not indices.is_known(indices.add(index))
    assert indices.is_known(indices.add(i * 2))


def expressions(variables):
    leaves = st.one_of(st.sampled_from(variables), st.integers(-4, 9).map(number))

    def larger(parts):
        by = st.integers(1, 6).map(number)
        return st.one_of(
            st.tuples(parts, parts).map(lambda pair: pair[0] + pair[1]),
            st.tuples(parts, parts).map(lambda pair: pair[0] - pair[1]),
            st.tuples(parts, st.integers(-3, 5)).map(lambda pair: pair[0] * number(pair[1])),
            st.tuples(parts, by).map(lambda pair: FloorDiv(*pair)),
            st.tuples(parts, by).map(lambda pair: FloorMod(*pair)),
            st.tuples(parts, parts).map(lambda pair: Max(*pair)),
            st.tuples(parts, parts).map(lambda pair: Min(*pair)),
        )

    return st.recursive(leaves, larger, max_leaves=6)


VARIABLES = loops(3)


def value(node, at):
    if isinstance(node, Var):
        return at[node]
    if isinstance(node, IntImm):
        return int(node.value)
    left, right = value(node.a, at), value(node.b, at)
    return {
        "Add": lambda: left + right,
        "Sub": lambda: left - right,
        "Mul": lambda: left * right,
        "FloorDiv": lambda: left // right,
        "FloorMod": lambda: left % right,
        "Max": lambda: max(left, right),
        "Min": lambda: min(left, right),
    }[type(node).__name__]()


@settings(max_examples=150, deadline=None)
@given(
    index=expressions(VARIABLES),
    low=st.lists(st.integers(-3, 5), min_size=3, max_size=3),
    extent=st.lists(st.integers(1, 4), min_size=3, max_size=3),
)
def test_no_value_is_outside_of_its_interval(index, low, extent):
    high = [start + steps - 1 for start, steps in zip(low, extent, strict=True)]
    lowest, highest = interval(index, VARIABLES, low, high)
    spans = [range(start, end + 1) for start, end in zip(low, high, strict=True)]
    values = [value(index, dict(zip(VARIABLES, at, strict=True))) for at in product(*spans)]
    assert lowest <= min(values) and max(values) <= highest


@pytest.mark.parametrize("factors", [(1, 4, 0), (2, -3, 5), (0, 0, 0)])
def test_intervals_of_sums_are_exact(factors):
    index = sum((v * f for v, f in zip(VARIABLES, factors, strict=True)), number(7))
    spans = [range(2), range(1, 4), range(3)]
    values = [sum(map(np.multiply, at, factors)) + 7 for at in product(*spans)]
    assert interval(index, VARIABLES, [0, 1, 0], [1, 3, 2]) == (min(values), max(values))
