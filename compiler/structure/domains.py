"""Domains of a sketch's decisions, as tables of values that candidates index into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from .sketch import Decision

Table = NDArray[np.int64]
"""int64 [n_values, width]: one row for each value of the decision."""


class DomainError(UserError, ValueError):
    """A decision has no value to sample, or a value lies outside of its domain."""


@lru_cache(maxsize=4096)
def perfect_tiles(extent: int, factors: int, largest_innermost: int) -> Table:
    """All ordered factorisations of `extent` into `factors`, the last factor at most `largest_innermost`.

    The result is [n, factors] in lexicographic order: the domain of MetaSchedule's SamplePerfectTile.
    `largest_innermost=0` sets no bound. Raises DomainError if `extent` or `factors` is below 1.
    """
    if extent < 1 or factors < 1:
        raise DomainError(f"tile with extent={extent}, factors={factors}: both must be at least 1")
    bound = largest_innermost if largest_innermost > 0 else extent
    rows = [[extent]] if factors == 1 else _splits(extent, factors)
    table = np.array([row for row in rows if row[-1] <= bound], dtype=np.int64).reshape(-1, factors)
    table.setflags(write=False)  # the cache shares it
    return table


def _splits(extent: int, factors: int) -> list[list[int]]:
    if factors == 1:
        return [[extent]]
    return [[first, *rest] for first in divisors(extent) for rest in _splits(extent // first, factors - 1)]


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """Divisors of a number, ascending."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def domain(decision: Decision, observed: Iterable[Sequence[int]]) -> Table:
    """Domain of a decision; `observed` holds its values in at least one valid candidate.

    One observation determines the domain of a tile or a categorical. The legal compute locations of a block
    depend on the loops around it, so their domain is the observed locations. TVM moves a location that is
    illegal for a candidate outwards.
    """
    values = [tuple(int(v) for v in value) for value in observed]
    if decision.kind == "categorical":
        return np.arange(len(decision.values), dtype=np.int64)[:, None]
    if not values:
        raise DomainError(
            f"decision {decision.instruction} ({decision.kind}): no observed value; pass at least one trace"
        )
    if decision.kind == "location":
        return np.array(sorted(set(values)), dtype=np.int64)
    extent = int(np.prod(values[0]))
    return perfect_tiles(extent, decision.width, decision.largest_innermost)
