"""The validation of what a search proposes: all of it, or as much as the model's uncertainty says pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


def validate(
    proposals: Sequence[Proposal],
    measure: Measure,
    stop: StopConfig,
    earlier: Sequence[Validation] = (),
    in_time: Callable[[], bool] = lambda: True,
) -> list[Validation]:
    """Measures proposals of a task, the best predicted first; `earlier` are those of its rounds before.

    With `stop.expected_improvement` 0, or while fewer than `stop.minimum` of the task are measured, the order
    is that of the scores. From then on it is that of what each may gain, and ends where the next
    `stop.batch` would not lower the best latency by that share. It also ends once `in_time` says no.
    """
    done: list[Validation] = []
    left = sorted(proposals, key=lambda proposal: -proposal.score)
    while left and in_time():
        known = [*earlier, *done]
        batch = _next_batch(left, known, stop)
        if not batch:
            break
        # What turns out slower by far than the best is cut short.
        best_s = min((validation.latency_s for validation in known), default=math.inf)
        outcomes = measure([MeasureJob(proposal.module, best_s) for proposal in batch])
        done += [Validation(*pair) for pair in zip(batch, outcomes, strict=True)]
        taken = {id(proposal) for proposal in batch}
        left = [proposal for proposal in left if id(proposal) not in taken]
    return done


def _next_batch(
    left: Sequence[Proposal], known: Sequence[Validation], stop: StopConfig
) -> Sequence[Proposal]:
    """What to measure next, best first; nothing where it would not pay."""
    if not stop.expected_improvement:
        return left
    best = best_of(known)
    if len(known) < stop.minimum or best is None:
        return left[: max(stop.minimum - len(known), stop.batch)]
    from .residual import ResidualModel  # imports scikit-learn, which a fixed K does without

    model = ResidualModel.fit(
        np.stack([validation.proposal.knobs for validation in known]),
        np.array([validation.proposal.score for validation in known]),
        np.array([validation.latency_s for validation in known]),
    )
    posterior = model.posterior(
        np.stack([proposal.knobs for proposal in left]), np.array([proposal.score for proposal in left])
    )
    order = np.argsort(-posterior.improvement(best.latency_s), kind="stable")[: stop.batch]
    if posterior.batch_improvement(order, best.latency_s) < stop.expected_improvement:
        return []
    return [left[row] for row in order]
