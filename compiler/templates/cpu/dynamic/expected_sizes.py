"""Sizes that are expected, and how much each rated size counts in the choice of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import log, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contraction import variables_of
from .nodes import fixed, number, with_values

Counts = Mapping[int, float]
"""How often each size is expected, in any unit; empty if nothing is known."""

Ends = Callable[[Any], tuple[int, int]]
"""Smallest and largest value of an expression."""

_EVERYWHERE = 0.2
"""Share of the weight that is on all sizes in range, so that an unexpected one gets no slow kernel."""

_FREQUENT = 32
"""Expected sizes that are rated themselves, at most."""

_VALUES = 576
"""Combinations of values of variables, at most."""


def expected_values(expression: Any, counts: Mapping[str, Counts], ends: Ends) -> dict[int, float]:
    """Expected frequency of each value of an expression; empty if nothing is known.

    Its variables are independent. `counts` has how often a variable takes each value, by the variable's name;
    values of another one are spread evenly on a logarithmic scale.
    """
    variables = sorted(variables_of([number(expression)]), key=lambda var: var.name)
    if not any(counts.get(var.name) for var in variables):
        return {}
    most = int(_VALUES ** (1 / len(variables)))
    each = [_few(counts.get(var.name) or _spread(*ends(var), most), most) for var in variables]
    found: dict[int, float] = {}
    for sizes in product(*each):
        value = fixed(with_values(number(expression), dict(zip(variables, sizes, strict=True))))
        assert value is not None
        share = prod(one[size] for one, size in zip(each, sizes, strict=True))
        found[value] = found.get(value, 0.0) + share
    return found


def _spread(low: int, high: int, most: int) -> Counts:
    return dict.fromkeys(np.geomspace(low, high, most).round().astype(int).tolist(), 1.0)


def _few(counts: Counts, most: int) -> Counts:
    """At most so many sizes: neighbours of equal shares count as the most frequent one of them."""
    if len(counts) <= most:
        return counts
    sizes = sorted(counts)
    shares = np.array([counts[size] for size in sizes])
    before = np.cumsum(shares) - shares / 2
    groups: dict[int, list[int]] = {}
    for size, group in zip(sizes, (before * most // shares.sum()).astype(int), strict=True):
        groups.setdefault(int(group), []).append(size)
    return {
        max(group, key=lambda size: counts[size]): sum(map(counts.__getitem__, group))
        for group in groups.values()
    }


def frequent(counts: Counts) -> list[int]:
    """The sizes that are expected most."""
    return sorted(counts, key=lambda size: (-counts[size], size))[:_FREQUENT]


def size_weights(sizes: Sequence[int], counts: Counts) -> NDArray[np.float64]:
    """Weight of each of the sizes, which are in order; 1 in sum.

    Most of it is on expected sizes, and each counts for the nearest one of `sizes` on a logarithmic scale.
    The rest, or all of it if no size of the range is expected, is spread evenly on that scale.
    """
    logs = np.log(np.array([sizes[0], *sizes, sizes[-1] + 1], dtype=float))
    spread = (logs[2:] - logs[:-2]) / 2
    spread /= spread.sum()
    expected = np.zeros(len(sizes))
    for size, count in counts.items():
        if sizes[0] <= size <= sizes[-1]:
            expected[np.argmin(np.abs(logs[1:-1] - log(size)))] += count
    if not expected.any():
        return np.asarray(spread)
    return np.asarray(_EVERYWHERE * spread + (1 - _EVERYWHERE) * expected / expected.sum())
