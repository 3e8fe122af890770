"""Polynomials in symbols from their values at a few sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from foretune.compiler.networks.dynamic.polynomials import Polynomial, fitted, sampled_sizes
from foretune.compiler.templates.cpu.dynamic.nodes import fixed, with_values
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

FACTORS = st.integers(-(10**6), 10**6)


@given(st.lists(FACTORS, min_size=6, max_size=6))
def test_a_polynomial_of_two_symbols_is_found(factors: list[int]) -> None:
    def value(b: int, n: int) -> int:
        return sum(f * m for f, m in zip(factors, (1, b, n, b * b, b * n, n * n), strict=True))

    sizes = sampled_sizes({"b": (1, 16), "n": (1, 512)})
    found = fitted(sizes, [value(**one) for one in sizes])
    assert found is not None and found.at({"b": 16, "n": 512}) == value(16, 512)


@pytest.mark.parametrize("other", [lambda n: n**3, lambda n: n // 2, lambda n: max(n, 8)])
def test_another_function_is_none(other: Callable[[int], int]) -> None:
    sizes = sampled_sizes({"n": (1, 512)})
    assert fitted(sizes, [other(one["n"]) for one in sizes]) is None


def test_a_constant_is_a_number() -> None:
    sizes = sampled_sizes({"n": (1, 512)})
    for value in (0, 7):
        found = fitted(sizes, [value] * len(sizes))
        assert found is not None and found.constant == value and found.expression({}) == value


def test_the_expression_has_the_values_of_the_polynomial() -> None:
    b, n = (tirx.Var(name, "int64") for name in "bn")
    found = Polynomial({(): 5, ("b", "n"): 48, ("n", "n"): 2})
    assert found.constant is None
    value = with_values(found.expression({"b": b, "n": n}), {b: 3, n: 7})
    assert fixed(value) == found.at({"b": 3, "n": 7}) == 5 + 48 * 21 + 2 * 49


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_symbols_differ_at_each_size(count: int) -> None:
    """Extents of images stay positive: no size is below its range."""
    sizes = sampled_sizes({f"s{number}": (1 + 30 * number, 500) for number in range(count)})
    assert all(len(set(one.values())) == count and one["s0"] >= 3 for one in sizes)
    assert all(one[f"s{number}"] >= 30 * number for one in sizes for number in range(count))
