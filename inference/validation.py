"""The validation of what a search proposes: all of it, or as much as the model's uncertainty says pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dataset.measure import MeasureJob, MeasureOutcome
from .search_config import StopConfig

Measure = Callable[[Sequence[MeasureJob]], list[MeasureOutcome]]


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
    knobs: NDArray[np.float32]  # [KNOB_DIM]
    """What tells how alike two candidates of a task are."""


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
    """Chooses among the proposals of a round what to measure, batch by batch.

    With `stop.expected_improvement` 0, or while fewer than `stop.minimum` of the task are measured, the best
    predicted come next. From then on it is those that may gain most together by all that was measured, and
    none where the next `stop.batch` would not lower the best latency by that share.
    """

    def __init__(
        self,
        proposals: Sequence[Proposal],
        stop: StopConfig,
        earlier: Sequence[Validation] = (),
        most: int | None = None,
    ) -> None:
        """Up to `most` are chosen, all of them by default; `earlier` are those of the rounds before."""
        self._left = sorted(proposals, key=lambda proposal: -proposal.score)
        self._stop = stop
        self._earlier = earlier
        self._most = len(proposals) if most is None else most
        self.done: list[Validation] = []

    @property
    def best_s(self) -> float:
        """Best latency of the task so far in seconds, inf where nothing ran."""
        return min((validation.latency_s for validation in self.known), default=math.inf)

    @property
    def known(self) -> Sequence[Validation]:
        """All that was measured of the task, earlier rounds included."""
        return [*self._earlier, *self.done]

    def next_batch(self) -> Sequence[Proposal]:
        """What to measure next; nothing where it would not pay. The batch before must have been learned."""
        batch = self._batch(self._most - len(self.done))
        taken = {id(proposal) for proposal in batch}
        self._left = [proposal for proposal in self._left if id(proposal) not in taken]
        return batch

    def learn(self, measured: Iterable[Validation]) -> None:
        """Takes what a batch measured."""
        self.done += measured

    def _batch(self, room: int) -> Sequence[Proposal]:
        left, known, stop = self._left, self.known, self._stop
        if not stop.expected_improvement or not left or not room:
            return left[:room]
        if len(known) < stop.minimum or math.isinf(self.best_s):
            return left[: min(room, max(stop.minimum - len(known), stop.batch))]
        from .residual import ResidualModel  # imports scikit-learn, which a fixed K does without

        model = ResidualModel.fit(
            np.stack([validation.proposal.knobs for validation in known]),
            np.array([validation.proposal.score for validation in known]),
            np.array([validation.latency_s for validation in known]),
        )
        posterior = model.posterior(
            np.stack([proposal.knobs for proposal in left]), np.array([proposal.score for proposal in left])
        )
        rows, gain = posterior.best_batch(min(room, stop.batch), self.best_s)
        return [left[row] for row in rows] if gain >= stop.expected_improvement else []


def validate(
    choice: Choice, measure: Measure, in_time: Callable[[], bool] = lambda: True
) -> list[Validation]:
    """Measures what is chosen until that is nothing more, or `in_time` says no."""
    while in_time() and (batch := choice.next_batch()):
        # What turns out slower by far than the best is cut short.
        best_s = choice.best_s
        outcomes = measure([MeasureJob(proposal.module, best_s) for proposal in batch])
        choice.learn(Validation(*pair) for pair in zip(batch, outcomes, strict=True))
    return choice.done
