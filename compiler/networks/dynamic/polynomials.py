"""Extents and strides as polynomials in the symbols of a network, from their values at a few sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import isqrt, prod
from typing import Any

import numpy as np

from ...templates.cpu.dynamic.nodes import number, simple

_DEGREE = 2

_EXTRA = 2
"""Sizes more than a polynomial has coefficients: its values there have to agree."""

_VALUES = 6
"""Values of each symbol, and one more for each further symbol."""

Ends = tuple[int, int]
"""Smallest and largest size."""

Monomial = tuple[str, ...]
"""Names of the symbols that are multiplied."""


@dataclass(frozen=True)
class Polynomial:
    """Integer polynomial in symbols, of degree 2 at most."""

    terms: Mapping[Monomial, int]
    """Coefficients other than 0."""

    @property
    def constant(self) -> int | None:
        """The number that it is; None if it depends on a symbol."""
        return self.terms.get((), 0) if set(self.terms) <= {()} else None

    def at(self, sizes: Mapping[str, int]) -> int:
        """Value for these sizes of the symbols."""
        return sum(factor * prod(sizes[name] for name in names) for names, factor in self.terms.items())

    def expression(self, symbols: Mapping[str, Any]) -> Any:
        """The polynomial of variables; a number if it depends on none."""
        if (known := self.constant) is not None:
            return known
        total: Any = number(0)
        for names, factor in self.terms.items():
            term: Any = number(factor)
            for name in names:
                term = term * symbols[name]
            total = total + term
        return simple(total)


def sampled_sizes(ranges: Mapping[str, Ends]) -> list[dict[str, int]]:
    """Sizes of these symbols whose values determine a polynomial, and some more.

    They are the first ones of each range, or beyond it if it is small. All values of a size are different
    primes, which keep apart what is equal or 1 at other sizes.
    """
    monomials, random = _monomials(list(ranges)), np.random.default_rng(0)
    values = {name: _primes(low, len(ranges)) for name, (low, _) in ranges.items()}

    def size() -> dict[str, int]:
        while True:
            drawn = {name: int(random.choice(some)) for name, some in values.items()}
            if len(set(drawn.values())) == len(drawn):
                return drawn

    while True:
        drawn = [size() for _ in range(len(monomials) + _EXTRA)]
        if np.linalg.matrix_rank(_matrix(drawn[:-_EXTRA], monomials)) == len(monomials):
            return drawn


def fitted(sizes: Sequence[Mapping[str, int]], values: Sequence[int]) -> Polynomial | None:
    """The polynomial with these values at the sizes of `sampled_sizes`; None if there is none."""
    if len(set(values)) == 1:
        return Polynomial({(): values[0]} if values[0] else {})
    monomials = _monomials(list(sizes[0]))
    solved = np.linalg.lstsq(_matrix(sizes, monomials), np.array(values, float), rcond=None)[0]
    terms = {names: round(factor) for names, factor in zip(monomials, solved, strict=True)}
    found = Polynomial({names: factor for names, factor in terms.items() if factor})
    agrees = all(found.at(one) == value for one, value in zip(sizes, values, strict=True))
    return found if agrees else None


def _primes(low: int, count: int) -> list[int]:
    """The first odd primes from a size on: enough for so many symbols."""
    found: list[int] = []
    number = max(low, 3)
    while len(found) < _VALUES + count - 1:
        if all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            found.append(number)
        number += 1
    return found


def _monomials(names: Sequence[str]) -> list[Monomial]:
    degrees = range(_DEGREE + 1)
    return [one for degree in degrees for one in combinations_with_replacement(sorted(names), degree)]


def _matrix(sizes: Sequence[Mapping[str, int]], monomials: Sequence[Monomial]) -> Any:
    return np.array([[prod(one[name] for name in names) for names in monomials] for one in sizes], float)
