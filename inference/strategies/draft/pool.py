"""Pool of a task's drafts that were not replayed yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from ...surrogate.base import Surrogate
from .drafts import Draft


class DraftPool:
    """Returns drafts to replay, in descending order of expected improvement per measuring cost.

    Compiling programs is half of a tuning run. Up to half of the compile time goes into a tenth of the
    programs, and these are hardly ever the best. The pool therefore considers the cost.
    """

    def __init__(self, surrogate: Surrogate | None = None) -> None:
        """Without a `surrogate`, the drafts with the highest predicted scores come first."""
        self._surrogate = surrogate
        self._left: dict[str, Draft] = {}
        self._traces: set[str] = set()
        self._latencies_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._left)

    @property
    def traces(self) -> AbstractSet[str]:
        """Traces of all drafts that were ever in the pool, so that they are not drafted again."""
        return self._traces

    @property
    def fastest(self) -> Sequence[str]:
        """Traces of candidates that ran, the fastest first."""
        ran = {trace: s for trace, s in self._latencies_s.items() if np.isfinite(s)}
        return sorted(ran, key=lambda trace: ran[trace])

    def add(self, drafts: Iterable[Draft]) -> None:
        """Adds drafts. A draft with a known trace replaces the older one."""
        taken_in = {draft.trace: draft for draft in drafts}
        self._left |= taken_in
        self._traces |= taken_in.keys()

    def learn(self, drafts: Sequence[Draft], latencies_s: Mapping[str, float]) -> None:
        """Learns latencies of drafts in seconds by trace, inf for a failure. The drafts leave the pool."""
        for draft in drafts:
            self._left.pop(draft.trace, None)
            self._latencies_s[draft.trace] = latencies_s[draft.trace]
        if self._surrogate is not None:
            self._surrogate.learn(drafts, [latencies_s[draft.trace] for draft in drafts])

    def take(self, count: int) -> list[Draft]:
        """Removes up to `count` drafts from the pool and returns them."""
        left = list(self._left.values())
        if not left or count < 1:
            return []
        if self._surrogate is None:
            taken = sorted(left, key=lambda draft: -draft.score)[:count]
        else:
            taken = [left[row] for row in _best_rows(self._surrogate, left, count)]
        for draft in taken:
            del self._left[draft.trace]
        return taken


def _best_rows(surrogate: Surrogate, left: Sequence[Draft], count: int) -> NDArray[np.int64]:
    costs_s = np.array([draft.cost_s for draft in left])
    if surrogate.is_fitted:
        return surrogate.best_batch(left, count, costs_s)[0]
    return surrogate.first_batch(left, count, costs_s)
