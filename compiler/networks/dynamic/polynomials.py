"""Extents and strides as polynomials in the symbols of a network, from their values at a few sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import numpy as np

from ...templates.cpu.dynamic.nodes import number, simple

_DEGREE = 2

_EXTRA = 2
"""Sizes more than a polynomial has coefficients: its values there have to agree."""

_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
"""Values of symbols. Different primes keep apart what is equal or 1 at other sizes."""

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


def sampled_sizes(names: Sequence[str]) -> list[dict[str, int]]:
    """Sizes of these symbols whose values determine a polynomial, and some more."""
    monomials, random = _monomials(names), np.random.default_rng(0)
    while True:
        drawn = [
            dict(zip(names, random.choice(_PRIMES, len(names), replace=False).tolist(), strict=True))
            for _ in range(len(monomials) + _EXTRA)
        ]
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


def _monomials(names: Sequence[str]) -> list[Monomial]:
    degrees = range(_DEGREE + 1)
    return [one for degree in degrees for one in combinations_with_replacement(sorted(names), degree)]


def _matrix(sizes: Sequence[Mapping[str, int]], monomials: Sequence[Monomial]) -> Any:
    return np.array([[prod(one[name] for name in names) for names in monomials] for one in sizes], float)
