"""Choice of a small family of kernels, and of one of them at each size, from predicted times alone.

Vortex and DietCode choose so between micro-kernels for tensors of any shape; here, regret and code size are
weighed: each kernel and each breakpoint of the table costs a small share of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .expected_sizes import Counts, frequent, size_weights

One = TypeVar("One")

_SMALL = 64
"""All sizes of a range are rated up to its smallest one plus this number."""

MOST_MEMBERS = 6
"""Kernels of a family."""

_WORST = 0.1
"""Weight of the worst regret relative to the mean."""

_MEMBER_SHARE, _BREAKPOINT_SHARE = 0.01, 0.01
"""Mean regret that a further kernel has to save, and regret at one size that a breakpoint has to save."""


@dataclass(frozen=True)
class Family(Generic[One]):
    """Kernels, and the table that chooses one."""

    members: tuple[One, ...]
    breakpoints: tuple[int, ...]
    """Sizes from which the next entry of `chosen` holds; one fewer than entries."""
    chosen: tuple[int, ...]
    """Indices of members by range of sizes."""
    regret_mean: float
    """Predicted time over the best candidate's, minus 1; mean over sizes, see `size_weights`."""
    regret_worst: float

    def at(self, size: int) -> One:
        """The kernel that the table chooses."""
        return self.members[self.chosen[int(np.searchsorted(self.breakpoints, size, side="right"))]]


def sampled_sizes(low: int, high: int, counts: Counts | None = None) -> list[int]:
    """Sizes to rate kernels at: all small ones, a logarithmic grid, and expected ones, in order."""
    steps = max(1, math.ceil(8 * math.log2(high / low)))
    grid = {round(low * (high / low) ** (step / steps)) for step in range(steps + 1)}
    expected = {size for size in frequent(counts or {}) if low <= size <= high}
    return sorted(grid | set(range(low, min(high, low + _SMALL) + 1)) | expected)


def choose(
    candidates: Sequence[One],
    sizes: Sequence[int],
    times: NDArray[np.float64],
    most: int = MOST_MEMBERS,
    counts: Counts | None = None,
) -> Family[One]:
    """Family of at most `most` candidates whose predicted times are close to the best ones at all sizes.

    `times` [candidates, sizes] are infinite where a candidate is not right. Some candidate is right at each
    size, and all are right at larger sizes than one that they are right at. `counts` weighs the sizes, see
    `size_weights`.
    """
    regret = times / times.min(axis=0) - 1
    weights = size_weights(sizes, counts or {})
    picked = _picked(regret, weights, most)
    path = _path(regret[picked], weights)
    used = sorted(set(path))
    switches = [0, *(at for at in range(1, len(path)) if path[at] != path[at - 1])]
    lost = regret[picked][path, np.arange(len(sizes))]
    return Family(
        members=tuple(candidates[picked[one]] for one in used),
        breakpoints=tuple(sizes[at] for at in switches[1:]),
        chosen=tuple(used.index(path[at]) for at in switches),
        regret_mean=float(lost @ weights),
        regret_worst=float(lost.max()),
    )


def cheapest(
    families: Sequence[Family[One]],
    candidates: Sequence[One],
    sizes: Sequence[int],
    times: NDArray[np.float64],
    counts: Counts | None = None,
) -> Family[One]:
    """The family whose predicted times are closest to the best candidate's, with its regret over that one.

    `times` [candidates, sizes] has a row for each member of the families.
    """
    best = times.min(axis=0)
    weights = size_weights(sizes, counts or {})
    rows = {one: row for row, one in enumerate(candidates)}

    def rated(family: Family[One]) -> Family[One]:
        taken = times[[rows[family.at(size)] for size in sizes], np.arange(len(sizes))]
        lost = taken / best - 1
        return replace(family, regret_mean=float(lost @ weights), regret_worst=float(lost.max()))

    return min(map(rated, families), key=lambda one: one.regret_mean + _WORST * one.regret_worst)


def _picked(regret: NDArray[np.float64], weights: NDArray[np.float64], most: int) -> list[int]:
    """Candidates one after another, each the one that lowers the regret most."""
    best = np.full(regret.shape[1], np.inf)
    picked: list[int] = []
    objective = math.inf
    while len(picked) < most:
        scores = _objective(np.minimum(best, regret), weights)
        chosen = int(np.argmin(scores))
        if picked and not scores[chosen] < objective - _MEMBER_SHARE:
            break
        if not picked:  # the first one is right at all sizes
            right = [row for row in range(len(regret)) if np.isfinite(regret[row]).all()]
            chosen = min(right, key=lambda row: (scores[row], row))
        objective = scores[chosen]
        best = np.minimum(best, regret[chosen])
        picked.append(chosen)
    return picked


def _objective(regret: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of regrets [candidates, sizes], one for each candidate."""
    return regret @ weights + _WORST * regret.max(axis=1)


def _path(regret: NDArray[np.float64], weights: NDArray[np.float64]) -> list[int]:
    """KernelParameters at each size with the smallest sum of regret and breakpoints."""
    costs = regret * weights * regret.shape[1]
    total, came = costs[:, 0].copy(), []
    for column in costs.T[1:]:
        cheapest = int(np.argmin(total))
        switched = total[cheapest] + _BREAKPOINT_SHARE < total
        came.append(np.where(switched, cheapest, np.arange(len(total))))
        total = np.where(switched, total[cheapest] + _BREAKPOINT_SHARE, total) + column
    path = [int(np.argmin(total))]
    for before in reversed(came):
        path.append(int(before[path[-1]]))
    return path[::-1]
