"""Search loop of one task, without input or output.

The loop accepts the candidates of a round, returns batches to measure, and learns from their outcomes. The
tuner of networks runs it with search processes and measuring threads. The MetaSchedule plug-in runs it with
the stock builder and runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...dataset.measure import MeasureOutcome
from ..surrogate.base import Surrogate
from .candidate import Candidate, MeasuredCandidate
from .selection import Selector, StopConfig


@dataclass(frozen=True)
class RoundBudget:
    """Limits of one round of one task."""

    measured: int
    """Maximum number of candidates to measure."""
    quick: bool = False
    """Whether the round searches only briefly and does not remeasure."""
    search: bool = True
    """Whether the round proposes candidates in addition to its starts."""


@dataclass(frozen=True)
class CandidateBatch:
    """Candidates to measure together."""

    candidates: Sequence[Candidate]
    again: bool = False
    """Whether the candidates are finalists, which were measured before and are timed again one at a time."""
    keep_built: bool = False
    """Whether the candidates may be measured again, so that the executor keeps their libraries."""


class SearchLoop:
    """Rounds of one task, each with One-Shot Tuner's search and top-K measurement (section 4.2).

    A round measures the candidates that its Selector chooses within the budget. Then it measures the fastest
    `finalists` again. Disturbances only add to a latency. The best of many single timings is therefore often
    only the least disturbed one.
    """

    def __init__(self, stop: StopConfig, finalists: int, surrogate: Surrogate) -> None:
        """Each round ends by measuring at most `finalists` candidates again."""
        self.selector = Selector(stop, surrogate)
        self._finalists = finalists
        self._before = 0  # number of measurements at the start of the round
        self._budget = RoundBudget(0)
        self._open = False
        self._finalists_due = False

    @property
    def known(self) -> list[MeasuredCandidate]:
        """All measurements in order."""
        return self.selector.known

    @property
    def best_s(self) -> float:
        """Best latency in seconds, inf if no candidate ran."""
        return self.selector.best_s

    @property
    def measured_in_round(self) -> list[MeasuredCandidate]:
        """Measurements of the current or last round."""
        return self.known[self._before :]

    @property
    def exhausted(self) -> bool:
        """Whether the last completed round ended the search: it measured nothing, or no gain is expected."""
        return not self._open and (self.selector.exhausted or not self.measured_in_round)

    def start_round(self, candidates: Iterable[Candidate], budget: RoundBudget) -> None:
        """Begins a round with its candidates and the unmeasured candidates of earlier rounds."""
        self.selector.offer(candidates)
        self._before = len(self.known)
        self._budget = budget
        self._open = True
        self._finalists_due = self._finalists > 0 and not budget.quick

    def next_batch(self) -> CandidateBatch | None:
        """The next batch of the round; None if the round is complete.

        Call `learn` with the outcomes of the previous batch first.
        """
        if not self._open:
            return None
        room = self._budget.measured - len(self.measured_in_round)
        if room > 0 and (batch := self.selector.next_batch(room)):
            return CandidateBatch(batch, keep_built=self._finalists_due)
        if self._finalists_due:
            self._finalists_due = False
            if best := self.selector.finalists(self._finalists):
                candidates = [measurement.candidate for measurement in best]
                return CandidateBatch(candidates, again=True, keep_built=True)
        if not self._budget.quick:
            self.selector.remeasured({})
        self._open = False
        return None

    def learn(self, batch: CandidateBatch, outcomes: Sequence[MeasureOutcome]) -> None:
        """Learns the outcomes of a batch, in the order of the batch."""
        pairs = list(zip(batch.candidates, outcomes, strict=True))
        if batch.again:
            self.selector.remeasured({candidate.trace: outcome for candidate, outcome in pairs})
        else:
            self.selector.learn([MeasuredCandidate(*pair) for pair in pairs])

    def expected_gain(self, count: int) -> float | None:
        """Share of the latency that the best `count` remaining candidates are expected to save.

        The result is None if no candidate is left or no candidate ran.
        """
        return self.selector.expected_gain(count)

    def latencies_s(self) -> dict[str, float]:
        """Latency in seconds of every measured candidate by trace, inf for a failure."""
        return {measurement.trace: measurement.latency_s for measurement in self.known}
