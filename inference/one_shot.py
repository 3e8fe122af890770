"""A search with a frozen model and the validation of its best candidates (One-Shot Tuner section 4.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tvm.target import Target

from ..dataset.measure import Executor
from ..dataset.task import Task
from .draft_choice import with_fitting_draft
from .draft_model import drafting_model
from .plugin import PretrainedCostModel
from .search_config import OneShotConfig, OneShotConfigError, StopConfig
from .session import SearchSession
from .validation import Choice, Validation, best_of, settle, validate

__all__ = ["OneShotConfig", "OneShotConfigError", "OneShotResult", "StopConfig", "search_one_shot"]


@dataclass(frozen=True)
class OneShotResult:
    """What the search of one task found; `validations` are in the order of measuring."""

    validations: list[Validation]
    candidates_scored: int
    search_s: float
    measure_s: float

    @property
    def best(self) -> Validation | None:
        """The fastest candidate measured, None where every one failed."""
        return best_of(self.validations)


def search_one_shot(
    task: Task, target: Target, model: PretrainedCostModel, executor: Executor, config: OneShotConfig
) -> OneShotResult:
    """Searches and validates one task in this process, in `config.rounds`, `config.top_k` candidates in all.

    Raises NoDesignSpaceError. A whole network is tuned faster by `tuner.NetworkTuner`, which searches several
    tasks side by side and goes on searching while it measures.
    """
    scored_before = model.candidates_scored
    started = time.monotonic()
    config = with_fitting_draft(config, target)
    session = SearchSession(task, target, model, config, drafting_model(config, model.hardware))
    choice = Choice((), config.stop)
    measure_s = 0.0
    for number in range(config.rounds):
        choice.offer(session.propose())
        measuring, before = time.monotonic(), len(choice.known)
        validate(choice, executor.measure, config.room(number), keep_built=config.finalists > 0)
        settle(choice, executor.measure, config.finalists)
        measured = choice.known[before:]
        measure_s += time.monotonic() - measuring
        if not measured or choice.over:
            break
        session.learn({v.proposal.trace: v.latency_s for v in measured})
    return OneShotResult(
        validations=choice.known,
        candidates_scored=model.candidates_scored - scored_before,
        search_s=time.monotonic() - started - measure_s,
        measure_s=measure_s,
    )
