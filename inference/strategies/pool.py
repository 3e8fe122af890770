"""Strategy over a pool of measured programs: no other candidates exist.

The command offers it as `search/strategy=pool`, for searches without a device (`executor=replay`) and for
measuring a pool again. It is therefore part of the product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms

from ...compiler.replay import RejectedError, replay_or_reject
from ...compiler.tvm_compat import make_tune_context
from ...dataset.hardware import Hardware
from ...dataset.records.program_pool import ProgramPool
from ...dataset.sampling.programs import LiveProgram, LivePrograms
from ...dataset.sampling.programs.counts import LOWER_SCORE, CandidateCounts
from ..search.loop import RoundBudget
from ..search.settings_checks import OneShotConfigError
from .base import Strategy, StrategyConfig, StrategySetting
from .sampled import QUICK_PROPOSALS


@dataclass(frozen=True)
class PoolConfig(StrategyConfig):
    """Settings of the pool to search in; conf/search/strategy/pool.yaml describes the fields."""

    name: str = "pool"
    pool: str = ""
    hardware: str = ""


def best_rows(
    scores: NDArray[np.floating], count: int, random_share: float, rng: np.random.Generator
) -> list[int]:
    """Rows of up to `count` candidates: the highest `scores` [n], and a random share of the others."""
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    at_random = min(round(random_share * count), max(0, len(order) - count))
    best = order[: count - at_random]
    drawn = rng.choice(order[len(best) :], at_random, replace=False) if at_random else order[:0]
    return [int(row) for row in (*best, *drawn)]


class PoolStrategy(Strategy):
    """Proposes the programs of a pool that the corrected cost model rates highest.

    With a replay, this strategy compares searches without a device. With a device, it measures a pool again.
    A task that is not in the pool gets no candidates.
    """

    Config = PoolConfig
    reuses = False
    draws_from_pool = True

    @classmethod
    def load(cls, config: Any, hardware: Hardware) -> ProgramPool:
        """The pool. Raises OneShotConfigError if no pool is named, and the errors of ProgramPool."""
        if not config.pool:
            raise OneShotConfigError(
                "search.strategy.pool is missing: set it to a dataset with measured programs, as in "
                "search.strategy.pool=data/networks"
            )
        return ProgramPool(config.pool, config.hardware)

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        return cls(setting)

    def __init__(self, setting: StrategySetting) -> None:
        self._setting = setting
        self._context = make_tune_context(
            setting.task.mod, setting.target, seed=setting.seed, name=setting.task.name, space=setting.space
        )
        self._rng = np.random.default_rng(setting.seed)
        self._tried = 0
        self._proposed = 0
        self._rejected: Counter[str] = Counter()
        self._left: LivePrograms = {}
        for trace in setting.resources.programs(setting.task.workload_hash):
            self._tried += 1
            try:
                self._left[trace] = replay_or_reject(self._context, trace)
            except RejectedError as error:
                self._rejected[str(error)] += 1

    @property
    def context(self) -> ms.TuneContext:
        """See Strategy."""
        return self._context

    @property
    def counts(self) -> CandidateCounts:
        """See Strategy. Programs of the pool that were not proposed count as programs of a lower score."""
        rejected = {**self._rejected, LOWER_SCORE: len(self._left)}
        return CandidateCounts(tried=self._tried, proposed=self._proposed, rejected=rejected)

    def take_starts(self, starts: Sequence[str]) -> list[LiveProgram]:
        """See Strategy. Start candidates outside the pool are left out."""
        return self._taken([start for start in dict.fromkeys(starts) if start in self._left])

    def propose(self, budget: RoundBudget) -> list[LiveProgram]:
        """See Strategy."""
        if not self._left:
            return []
        scores = self._setting.scorer.predict(self._context, list(self._left.values()))
        count = QUICK_PROPOSALS if budget.quick else self._setting.per_round
        traces = list(self._left)
        return self._taken(
            [traces[row] for row in best_rows(scores, count, self._setting.random_share, self._rng)]
        )

    def mark_measured(self, traces: Iterable[str]) -> None:
        """See Strategy."""
        known = [trace for trace in traces if self._left.pop(trace, None) is not None]
        self._tried -= len(known)

    def learn(self, measured: Sequence[LiveProgram], latencies_s: Mapping[str, float]) -> None:
        """See Strategy. Teaches the corrected cost model."""
        self._setting.scorer.update(
            self._context,
            [program for _, program in measured],
            [
                ms.runner.RunnerResult([latencies_s[trace]], None)
                if np.isfinite(latencies_s[trace])
                else ms.runner.RunnerResult(None, "failed")
                for trace, _ in measured
            ],
        )

    def _taken(self, traces: Sequence[str]) -> list[LiveProgram]:
        self._proposed += len(traces)
        return [LiveProgram(trace, self._left.pop(trace)) for trace in traces]
