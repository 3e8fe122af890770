"""The values that a decision of a sketch can take, as tables that a population indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from .sketch import Decision

Table = NDArray[np.int64]
"""[n_values, width]: one row a value of the decision."""


class DomainError(UserError, ValueError):
    """A decision has no value that could be drawn."""


@lru_cache(maxsize=4096)
def perfect_tiles(extent: int, factors: int, largest_innermost: int) -> Table:
    """All ordered ways to write `extent` as a product of `factors`, the last at most `largest_innermost`.

    [n, factors] in lexicographic order: the domain of MetaSchedule's SamplePerfectTile (0 bounds nothing).
    """
    if extent < 1 or factors < 1:
        raise DomainError(f"extent={extent}, factors={factors} of a tile: both must be at least 1")
    bound = largest_innermost if largest_innermost > 0 else extent
    rows = [[extent]] if factors == 1 else _splits(extent, factors)
    table = np.array([row for row in rows if row[-1] <= bound], dtype=np.int64).reshape(-1, factors)
    table.setflags(write=False)  # it is shared
    return table


def _splits(extent: int, factors: int) -> list[list[int]]:
    if factors == 1:
        return [[extent]]
    return [[first, *rest] for first in _divisors(extent) for rest in _splits(extent // first, factors - 1)]


@lru_cache(maxsize=4096)
def _divisors(number: int) -> tuple[int, ...]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def domain(decision: Decision, seen: Iterable[Sequence[int]]) -> Table:
    """The values of a decision; `seen` are values observed in candidates, of which there is at least one.

    A tile and a categorical follow from one observation. Where a block may be computed depends on the loops
    around, so the locations are those observed: what TVM finds illegal for a candidate it moves outwards.
    """
    observed = [tuple(int(v) for v in value) for value in seen]
    if decision.kind == "categorical":
        return np.arange(len(decision.values), dtype=np.int64)[:, None]
    if not observed:
        raise DomainError(f"decision {decision.instruction} ({decision.kind}) was never observed")
    if decision.kind == "location":
        return np.array(sorted(set(observed)), dtype=np.int64)
    extent = int(np.prod(observed[0]))
    return perfect_tiles(extent, decision.width, decision.largest_innermost)
