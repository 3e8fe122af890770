"""The validation of what a search proposes: all of it, or as much as the model's uncertainty says pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dataset.measure import MeasureJob, MeasureOutcome
from .search_config import StopConfig

Measure = Callable[[Sequence[MeasureJob]], list[MeasureOutcome]]

FINALIST_WITHIN = 1.5
"""What was measured at so many times the best may be the best: a shared machine disturbs by as much."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A candidate as the search hands it over; plain data, so that it may come from another process."""

    trace: str
    """Its canonical trace, by which the search knows it."""
    record: str
    """JSON of its whole trace, postprocessing included: what a MetaSchedule database keeps."""
    module: str
    """Its scheduled module as TVM's JSON."""
    score: float
    """The cost model's prediction."""
    place: NDArray[np.float32]
    """Near those of candidates that are alike: see `Likeness`."""


@dataclass(frozen=True, eq=False)
class Validation:
    """One validated candidate."""

    proposal: Proposal
    outcome: MeasureOutcome

    @property
    def predicted_score(self) -> float:
        """The cost model's prediction."""
        return self.proposal.score

    @property
    def latency_s(self) -> float:
        """Measured latency in seconds, inf where the candidate failed."""
        return self.outcome.latency_s


def best_of(validations: Sequence[Validation]) -> Validation | None:
    """The fastest candidate measured, None where every one failed."""
    fastest = min(validations, key=lambda validation: validation.latency_s, default=None)
    return fastest if fastest is not None and math.isfinite(fastest.latency_s) else None


class Choice:
    """Chooses among the proposals for a task what to measure, batch by batch.

    With `stop.expected_improvement` 0, or while fewer than `stop.minimum` of the task are measured, the best
    predicted come next. From then on it is those that may gain most together by all that was measured, and
    none once `stop.patience` batches in a row would not lower the best latency by that share.
    """

    def __init__(
        self, proposals: Iterable[Proposal], stop: StopConfig, known: Iterable[Validation] = ()
    ) -> None:
        """`known` was measured before."""
        self.known = list(known)
        """All that was measured of the task, in the order of measuring."""
        self._left: list[Proposal] = []
        self._stop = stop
        self._promised_little = 0  # batches in a row
        self._settled = len(self.known)  # of `known`, those of which none is to be timed again
        self.offer(proposals)

    @property
    def best_s(self) -> float:
        """Best latency of the task so far in seconds, inf where nothing ran."""
        return min((validation.latency_s for validation in self.known), default=math.inf)

    @property
    def over(self) -> bool:
        """Whether what is left would not pay; another offer may."""
        return self._promised_little >= self._stop.patience

    def offer(self, proposals: Iterable[Proposal]) -> None:
        """Adds candidates to those that are left of earlier offers."""
        self._left = sorted([*self._left, *proposals], key=lambda proposal: -proposal.score)

    def next_batch(self, room: int) -> Sequence[Proposal]:
        """What to measure next, `room` at most; nothing where it would not pay.

        The batch before must have been learned.
        """
        batch = self._batch(room)
        taken = {id(proposal) for proposal in batch}
        self._left = [proposal for proposal in self._left if id(proposal) not in taken]
        return batch

    def learn(self, measured: Iterable[Validation]) -> None:
        """Takes what a batch measured."""
        self.known += measured

    def finalists(self, count: int) -> Sequence[Validation]:
        """The best that were timed once, `count` at most, that are near enough to the best of all to be it.

        None where there is no choice: where the best of all stands alone.
        """
        once = self.known[self._settled :]
        near = [v for v in self.known if v.latency_s <= FINALIST_WITHIN * self.best_s < math.inf]
        return sorted((v for v in near if v in once), key=lambda v: v.latency_s)[
            : count if len(near) > 1 else 0
        ]

    def settle(self, outcomes: Mapping[str, MeasureOutcome]) -> None:
        """Takes further outcomes of finalists by trace; the next ones are of what is measured from now on."""
        self.known = [
            Validation(known.proposal, known.outcome.with_repeats_of(outcomes[known.proposal.trace]))
            if known.proposal.trace in outcomes
            else known
            for known in self.known
        ]
        self._settled = len(self.known)

    def _batch(self, room: int) -> Sequence[Proposal]:
        left, known, stop = self._left, self.known, self._stop
        if not stop.expected_improvement or not left or not room:
            return left[:room]
        if len(known) < stop.minimum or math.isinf(self.best_s):
            return left[: min(room, max(stop.minimum - len(known), stop.batch))]
        from .residual import ResidualModel  # imports parts of SciPy, which a fixed K does without

        model = ResidualModel.of([v.proposal for v in known], [v.latency_s for v in known])
        rows, gain = model.best_of(left, min(room, stop.batch))
        self._promised_little = self._promised_little + 1 if gain < stop.expected_improvement else 0
        return [] if self.over else [left[row] for row in rows]


def validate(
    choice: Choice,
    measure: Measure,
    most: int,
    in_time: Callable[[], bool] = lambda: True,
    *,
    keep_built: bool = False,
) -> list[Validation]:
    """Measures what is chosen, `most` at most, until that is nothing more or `in_time` says no.

    `keep_built` is for what `settle` may time again.
    """
    before = len(choice.known)
    while in_time() and (batch := choice.next_batch(most - len(choice.known) + before)):
        choice.learn(_measured(choice, batch, measure, keep_built))
    return choice.known[before:]


def settle(choice: Choice, measure: Measure, finalists: int) -> None:
    """Times up to `finalists` of the best again, one right after the other.

    What disturbs a run adds to its time: of many programs that were timed once, what looks best is often what
    was disturbed least.
    """
    best = [validation.proposal for validation in choice.finalists(finalists)]
    again = _measured(choice, best, measure, keep_built=True) if best else []
    choice.settle({validation.proposal.trace: validation.outcome for validation in again})


def _measured(
    choice: Choice, proposals: Sequence[Proposal], measure: Measure, keep_built: bool
) -> list[Validation]:
    # What turns out slower by far than the best is cut short.
    jobs = [MeasureJob(proposal.module, choice.best_s, keep_built=keep_built) for proposal in proposals]
    return [Validation(*pair) for pair in zip(proposals, measure(jobs), strict=True)]
