"""Intervals of the indices of a loop nest, each a linear form over its loops and over their quotients.

Schedules fuse loops and recover the parts by division, so that most indices are sums of loops, of quotients
and of remainders of loops, each times a constant. An index is read once, and its interval computed for many
bounds of the loops at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tvm.tirx import Add, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var

Interval = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Lowest and highest value of an index at each of n moments."""


class _Form(NamedTuple):
    """Constant plus terms, each an atom's number and its factor other than 0, by ascending number."""

    constant: int
    terms: tuple[tuple[int, int], ...] = ()

    def plus(self, other: _Form, factor: int = 1) -> _Form:
        terms = dict(self.terms)
        for atom, times in other.terms:
            terms[atom] = terms.get(atom, 0) + times * factor
        return _form(self.constant + other.constant * factor, terms)

    def times(self, factor: int) -> _Form:
        return _form(self.constant * factor, {atom: times * factor for atom, times in self.terms})

    def divided(self, by: int) -> tuple[_Form, _Form]:
        """Multiple of `by`, divided, and the rest of the form."""
        whole = {atom: times // by for atom, times in self.terms if times % by == 0}
        rest = {atom: times for atom, times in self.terms if times % by}
        return _form(self.constant // by, whole), _form(self.constant % by, rest)


def _form(constant: int, terms: Mapping[int, int]) -> _Form:
    return _Form(constant, tuple(sorted((atom, times) for atom, times in terms.items() if times)))


class _Atom(NamedTuple):
    """Quotient, remainder, minimum or maximum of two forms, which use atoms of smaller numbers."""

    kind: type
    left: _Form
    right: _Form


class Indices:
    """Indices of a loop nest; `intervals` has a row for each, in the order in which they were added."""

    def __init__(self, loops: Sequence[Var]) -> None:
        """Add all indices before the first call of `intervals`."""
        self._loops = len(loops)
        self._numbers = {variable: number for number, variable in enumerate(loops)}
        self._atoms: list[_Atom] = []
        self._known_atoms: dict[_Atom, int] = {}
        self._forms: list[_Form | None] = []

    def add(self, index: object) -> int:
        """Row of an index."""
        self._forms.append(self._read(index))
        return len(self._forms) - 1

    def is_known(self, row: int) -> bool:
        """Whether the index of a row is arithmetic on the loops; any other one is 0 in `intervals`."""
        return self._forms[row] is not None

    def intervals(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> Interval:
        """Intervals [rows, n] of all indices, of the lowest and highest values of the loops [loops, n]."""
        values = np.empty((2, self._loops + len(self._atoms), low.shape[1]), dtype=np.int64)
        values[:, : self._loops] = low, high
        for number, atom in enumerate(self._atoms, self._loops):
            values[:, number] = _COMBINED[atom.kind](
                _interval_at(atom.left, values), _interval_at(atom.right, values)
            )
        constants, rising, falling = self._factors
        lowest, highest = values
        return (
            constants + rising @ lowest + falling @ highest,
            constants + rising @ highest + falling @ lowest,
        )

    @cached_property
    def _factors(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Constants [rows, 1], positive factors and negative ones [rows, atoms] of the forms."""
        factors = np.zeros((len(self._forms), self._loops + len(self._atoms)), dtype=np.int64)
        constants = np.zeros((len(self._forms), 1), dtype=np.int64)
        for row, form in enumerate(self._forms):
            if form is not None:
                constants[row] = form.constant
                for atom, factor in form.terms:
                    factors[row, atom] = factor
        return constants, np.maximum(factors, 0), np.minimum(factors, 0)

    def _read(self, node: object) -> _Form | None:
        kind = type(node)
        if kind is IntImm:
            return _Form(int(node.value))  # type: ignore[attr-defined]
        if kind is Var:
            number = self._numbers.get(node)
            return None if number is None else _Form(0, ((number, 1),))
        if kind is Cast:
            return self._read(node.value)  # type: ignore[attr-defined]
        if kind not in _BINARY:
            return None
        left, right = self._read(node.a), self._read(node.b)  # type: ignore[attr-defined]
        if left is None or right is None:
            return None
        if kind is Add or kind is Sub:
            return left.plus(right, 1 if kind is Add else -1)
        if kind is Min or kind is Max:
            return self._atom(kind, left, right)
        if kind is Mul and not left.terms:
            left, right = right, left
        if right.terms:
            return None
        if kind is Mul:
            return left.times(right.constant)
        if right.constant <= 0:
            return None
        whole, rest = left.divided(right.constant)
        if kind is FloorDiv:
            return whole.plus(self._atom(kind, rest, right)) if rest.terms else whole
        return self._atom(kind, rest, right) if rest.terms else rest

    def _atom(self, kind: type, left: _Form, right: _Form) -> _Form:
        atom = _Atom(kind, left, right)
        if atom not in self._known_atoms:
            self._known_atoms[atom] = self._loops + len(self._atoms)
            self._atoms.append(atom)
        return _Form(0, ((self._known_atoms[atom], 1),))


def _interval_at(form: _Form, values: NDArray[np.int64]) -> Interval:
    lowest = np.full(values.shape[2], form.constant, dtype=np.int64)
    highest = lowest.copy()
    for number, factor in form.terms:
        low, high = values[:, number] if factor > 0 else values[::-1, number]
        lowest += low * factor
        highest += high * factor
    return lowest, highest


def _quotient(left: Interval, right: Interval) -> Interval:
    return left[0] // right[0], left[1] // right[0]


def _remainder(left: Interval, right: Interval) -> Interval:
    """An interval within one period; an index that passes a multiple may take any value."""
    (low, high), by = left, right[0]
    same = low // by == high // by
    return np.where(same, low % by, 0), np.where(same, high % by, by - 1)


def _least(left: Interval, right: Interval) -> Interval:
    return np.minimum(left[0], right[0]), np.minimum(left[1], right[1])


def _greatest(left: Interval, right: Interval) -> Interval:
    return np.maximum(left[0], right[0]), np.maximum(left[1], right[1])


_COMBINED: Mapping[type, Callable[[Interval, Interval], Interval]] = {
    FloorDiv: _quotient,
    FloorMod: _remainder,
    Min: _least,
    Max: _greatest,
}
_BINARY = frozenset({Add, Sub, Mul, *_COMBINED})
