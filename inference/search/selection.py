"""Selection of the candidates to measure, by predicted score or expected improvement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...dataset.measure import MeasureOutcome
from ..surrogate.base import Surrogate
from .candidate import Candidate, MeasuredCandidate
from .settings_checks import OneShotConfigError

FINALIST_WITHIN = 1.5
"""A program within this ratio of the best latency may be the fastest: shared machines disturb by as much."""


@dataclass(frozen=True)
class StopConfig:
    """Stop rule of a task's measurements; conf/search/default.yaml describes the fields.

    An `expected_improvement` of 0 measures every proposed candidate: One-Shot Tuner's fixed K (section 4.2).
    """

    expected_improvement: float = 0.003
    minimum: int = 8
    batch: int = 4
    patience: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.expected_improvement < 1:
            raise OneShotConfigError(
                f"search.stop.expected_improvement={self.expected_improvement}: a share of the latency in "
                "[0, 1); use 0.003 for three in a thousand, or 0 to measure a fixed number"
            )
        for name in ("minimum", "batch", "patience"):
            if getattr(self, name) < 1:
                raise OneShotConfigError(f"search.stop.{name}={getattr(self, name)}: must be at least 1")


class Selector:
    """Selects the next candidates of one task to measure, batch by batch.

    Start candidates come first. The best predicted candidates follow if `stop.expected_improvement` is 0, or
    while fewer than `stop.minimum` candidates are measured. After that, each batch has the highest joint
    expected improvement under the surrogate. The selection ends when `stop.patience` consecutive batches
    promise less than `stop.expected_improvement`. If other tasks inform the surrogate, it chooses from the
    first batch on.
    """

    def __init__(self, stop: StopConfig, surrogate: Surrogate) -> None:
        """`surrogate` learns every measurement and ranks the remaining candidates."""
        self.known: list[MeasuredCandidate] = []
        """All measurements of the task in this run, in order."""
        self._left: list[Candidate] = []
        self._stop = stop
        self._surrogate = surrogate
        self._best_s = math.inf
        self._small_gains = 0  # number of consecutive batches below the threshold
        self._remeasured = 0  # measurements before this index are not remeasured

    @property
    def best_s(self) -> float:
        """Best latency of the task so far in seconds, inf if no candidate ran."""
        return self._best_s

    @property
    def exhausted(self) -> bool:
        """Whether no gain is expected from the remaining candidates. Another offer may change this."""
        return self._small_gains >= self._stop.patience

    def offer(self, candidates: Iterable[Candidate]) -> None:
        """Adds candidates to the remaining ones of earlier offers."""
        self._left = sorted(
            [*self._left, *candidates], key=lambda candidate: (not candidate.is_start, -candidate.score)
        )

    def next_batch(self, room: int) -> list[Candidate]:
        """The next batch, at most `room` candidates; empty if no further gain is expected.

        Call `learn` with the measurements of the previous batch first.
        """
        batch = self._batch(room)
        taken = {id(candidate) for candidate in batch}
        self._left = [candidate for candidate in self._left if id(candidate) not in taken]
        return batch

    def expected_gain(self, count: int) -> float | None:
        """See SearchLoop."""
        if not self._left or not self._surrogate.is_fitted:
            return None
        return self._surrogate.best_batch(self._left, count)[1]

    def learn(self, measured: Sequence[MeasuredCandidate]) -> None:
        """Learns the measurements of a batch."""
        self.known += measured
        self._best_s = min([self._best_s, *(one.latency_s for one in measured)])
        self._surrogate.learn([m.candidate for m in measured], [m.latency_s for m in measured])

    def finalists(self, count: int) -> list[MeasuredCandidate]:
        """Up to `count` of the fastest candidates that were measured once and may be the best of the task.

        Empty if no other candidate is within `FINALIST_WITHIN` of the best.
        """
        once = self.known[self._remeasured :]
        near = [m for m in self.known if m.latency_s <= FINALIST_WITHIN * self.best_s < math.inf]
        return sorted((m for m in near if m in once), key=lambda m: m.latency_s)[
            : count if len(near) > 1 else 0
        ]

    def remeasured(self, outcomes: Mapping[str, MeasureOutcome]) -> None:
        """Adds repeated outcomes of finalists, by trace. Later finalists come from later measurements."""
        self.known = [
            MeasuredCandidate(known.candidate, known.outcome.merged_with(outcomes[known.trace]))
            if known.trace in outcomes
            else known
            for known in self.known
        ]
        self._best_s = min((known.latency_s for known in self.known), default=math.inf)
        again = [known for known in self.known if known.trace in outcomes]
        if again:
            self._surrogate.learn([m.candidate for m in again], [m.latency_s for m in again])
        self._remeasured = len(self.known)

    def _batch(self, room: int) -> list[Candidate]:
        left, stop = self._left, self._stop
        starts = [candidate for candidate in left[:room] if candidate.is_start]
        if not stop.expected_improvement or not left or not room:
            return left[:room]
        primed = self._surrogate.is_primed
        if starts or (not primed and (len(self.known) < stop.minimum or math.isinf(self.best_s))):
            due = 0 if primed else stop.minimum - len(self.known)
            return left[: min(room, max(due, stop.batch, len(starts)))]
        if not self._surrogate.is_fitted:
            return [left[row] for row in self._surrogate.first_batch(left, min(room, stop.batch))]
        rows, gain = self._surrogate.best_batch(left, min(room, stop.batch))
        self._small_gains = self._small_gains + 1 if gain < stop.expected_improvement else 0
        return [] if self.exhausted else [left[row] for row in rows]
