"""The drafts of a task that were not replayed, and what the measurements so far say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .drafting import Draft

if TYPE_CHECKING:
    from .residual import ResidualModel


class DraftPool:
    """Hands out drafts to be replayed: what may gain most, by the predictions and all that was measured.

    That is, for what measuring it takes: half of a tuning run is spent on compiling programs, up to half of
    that on a tenth of them, and these are hardly ever the best (benchmarks/first_drafts.py).
    """

    def __init__(self, learns: bool = True) -> None:
        """One that does not learn goes by the predictions alone."""
        self._learns = learns
        self._left: dict[str, Draft] = {}
        self._measured: dict[str, tuple[Draft, float]] = {}
        self._residual: ResidualModel | None = None

    def __len__(self) -> int:
        return len(self._left)

    @property
    def residual(self) -> ResidualModel | None:
        """What the measurements say, None where nothing ran yet."""
        if not self._learns:
            return None
        latencies_s = [latency_s for _, latency_s in self._measured.values()]
        if self._residual is None and np.isfinite(latencies_s).any():
            from .residual import ResidualModel  # imports parts of SciPy

            self._residual = ResidualModel.of([draft for draft, _ in self._measured.values()], latencies_s)
        return self._residual

    @property
    def fastest(self) -> Sequence[str]:
        """The traces that ran, the fastest first."""
        ran = {trace: s for trace, (_, s) in self._measured.items() if np.isfinite(s)}
        return sorted(ran, key=lambda trace: ran[trace])

    def add(self, drafts: Iterable[Draft]) -> None:
        """Takes drafts in; those with a trace that it has are the same."""
        self._left |= {draft.trace: draft for draft in drafts}

    def learn(self, drafts: Iterable[Draft], latencies_s: Mapping[str, float]) -> None:
        """Takes what drafts measured, in seconds by trace, inf for a failure; the pool has them no more."""
        for draft in drafts:
            self._left.pop(draft.trace, None)
            self._measured[draft.trace] = draft, latencies_s[draft.trace]
        self._residual = None

    def take(self, count: int) -> list[Draft]:
        """Up to `count` drafts, which leave the pool."""
        left = list(self._left.values())
        if not left or count < 1:
            return []
        if self._learns:
            taken = [left[row] for row in self._most_promising(left, count)]
        else:
            taken = sorted(left, key=lambda draft: -draft.score)[:count]
        for draft in taken:
            del self._left[draft.trace]
        return taken

    def _most_promising(self, left: Sequence[Draft], count: int) -> NDArray[np.int64]:
        costs_s = np.array([draft.cost_s for draft in left])
        if self.residual is not None:
            return self.residual.best_of(left, count, costs_s)[0]
        from .residual import first_batch  # imports parts of SciPy

        return first_batch(left, count, costs_s)
