"""Reuse strategy: search from a parent's program, or by a backend without a parent (ETO, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ....compiler.structure.read_spaces import gpu_limits, read_spaces
from ....compiler.targets import traits
from ....dataset.features.reading import task_reading
from ....dataset.hardware import Hardware
from ....dataset.sampling.programs import LiveProgram
from ....dataset.sampling.programs.counts import CandidateCounts
from ...reuse.parent import ReuseParent
from ...search.loop import RoundBudget
from ...strategies.base import Strategy, StrategyConfig, StrategySetting
from ...strategies.draft.model import DraftModel
from ...strategies.draft.pool import DraftPool
from ...strategies.registry import fitted_strategy, strategy_class
from ...strategies.sampled import QUICK_PROPOSALS
from .config import BY_MEASURING, BY_MODEL, ReuseConfig
from .ranking import DraftRanking, MeasuredRanking, Ranking, ScoreRanking
from .search import NoReuseError, ReuseSearch, ReuseTarget, reuse_search

NO_REUSE = "program not reusable"
"""Cause of a skipped parent: no search can begin with its program."""


class ReuseStrategy(Strategy):
    """Algorithm 1 and the simplified searches for a task with a parent, and a backend for a task without one.

    In a round with parents, the candidates come from the first parent whose program can be reused. The
    backend searches if no program can be reused, if the task has no parents, and after the last candidate.
    With ranking by a model, it also fills up a round with too few candidates: on a CPU the ranges may contain
    hardly any.
    """

    Config = ReuseConfig
    needs_parent_program = True

    @classmethod
    def measures_steps(cls, config: Any) -> bool:
        """See Strategy: Algorithm 1 as published measures its steps."""
        by_measuring: bool = config.rank == BY_MEASURING
        return by_measuring

    @classmethod
    def checkpoints(cls, config: Any) -> tuple[str, ...]:
        """See Strategy: the backend's checkpoints, which also rank the candidates of Algorithm 1."""
        return strategy_class(config.backend.name).checkpoints(config.backend)

    def __init__(self, backend: Strategy, config: ReuseConfig, setting: StrategySetting) -> None:
        self._backend = backend
        self._config = config
        self._setting = setting
        self._ranking: Ranking | None = None
        self._reused: ReuseParent | None = None
        self._over = CandidateCounts()
        """Counts of skipped parents and of earlier searches."""
        self._known: set[str] = set()
        self._latencies_s: dict[str, float] = {}
        self._starts_open = 0
        """Number of starts in the next round."""

    @classmethod
    def fitted(cls, config: Any, target: Target) -> StrategyConfig:
        """The settings with a backend that can serve the target."""
        return replace(config, backend=fitted_strategy(config.backend, target))

    @classmethod
    def load(cls, config: Any, hardware: Hardware) -> object:
        """Models of the backend, and a draft model that ranks the candidates of Algorithm 1."""
        return strategy_class(config.backend.name).load(config.backend, hardware)

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy."""
        return cls(strategy_class(config.backend.name).make(config.backend, setting), config, setting)

    @property
    def context(self) -> ms.TuneContext:
        """See Strategy."""
        return self._backend.context

    @property
    def counts(self) -> CandidateCounts | None:
        """See Strategy."""
        own = self._over if self._ranking is None else self._over + self._ranking.counts
        backend = self._backend.counts
        return own if backend is None else own + backend

    def take_starts(self, starts: Sequence[str]) -> list[LiveProgram]:
        """See Strategy."""
        found = self._backend.take_starts(starts)
        self._known.update(trace for trace, _ in found)
        self._starts_open = len(found)
        return found

    def take_parents(self, parents: Sequence[ReuseParent]) -> None:
        """See Strategy: the first program that can be reused determines the search."""
        if self._reused is not None and any(_same(self._reused, parent) for parent in parents):
            return
        self._close()
        for parent in parents:
            try:
                self._ranking, self._reused = self._ranked(self._opened(parent)), parent
                self._ranking.learn(self._latencies_s)
                return
            except NoReuseError:
                self._over += CandidateCounts(tried=1, rejected={NO_REUSE: 1})

    def propose(self, budget: RoundBudget) -> list[LiveProgram]:
        """See Strategy."""
        if self._ranking is None:
            found = self._backend.propose(budget)
        else:
            count = self._room(budget)
            found = self._ranking.propose(count, self._known) if count else []
            self._backend.mark_measured([trace for trace, _ in found])
            if len(found) < count and self._config.rank == BY_MODEL:
                found += self._backend.propose(budget)[: count - len(found)]
            elif count and not found:
                self._close()
        self._starts_open = 0
        self._known.update(trace for trace, _ in found)
        return found

    def _room(self, budget: RoundBudget) -> int:
        """Candidates to propose. By measurement, no more than the round measures, as a step waits for all."""
        most = self._setting.per_round
        if self._config.rank == BY_MEASURING:
            return max(0, min(most, budget.measured - self._starts_open))
        return min(most, QUICK_PROPOSALS) if budget.quick else most

    def mark_measured(self, traces: Iterable[str]) -> None:
        """See Strategy."""
        traces = list(traces)
        self._known.update(traces)
        self._backend.mark_measured(traces)

    def learn(self, measured: Sequence[LiveProgram], latencies_s: Mapping[str, float]) -> None:
        """See Strategy."""
        self._backend.learn(measured, latencies_s)
        self._latencies_s |= latencies_s
        if self._ranking is not None:
            self._ranking.learn(latencies_s)

    def _close(self) -> None:
        if self._ranking is not None:
            self._over += self._ranking.counts
        self._ranking = self._reused = None

    def _opened(self, parent: ReuseParent) -> ReuseSearch:
        task, target = self._setting.task, self._setting.target
        try:
            spaces = read_spaces(self.context, task_reading(self.context.mod).structure, task.name)
        except Exception as error:  # TVM raises InternalError and others for unreadable loops
            raise NoReuseError(f"{task.name}: its sketches cannot be read") from error
        limits = gpu_limits(target)
        bits = None if limits else traits(target).vector_bits
        one_core = task.flops <= self._config.one_core_flops
        return reuse_search(task, spaces, parent, ReuseTarget(limits, (bits or 128) // 8, one_core=one_core))

    def _ranked(self, search: ReuseSearch) -> Ranking:
        if self._config.rank == BY_MEASURING:
            return MeasuredRanking(search, self.context)
        if isinstance(self._setting.resources, DraftModel):
            reading = task_reading(self.context.mod)
            rater = self._setting.resources.rater(search.space.sketch, reading.structure, reading.features)
            return DraftRanking(search, self.context, rater, DraftPool(self._setting.surrogate))
        return ScoreRanking(search, self.context, self._setting.scorer)


def _same(one: ReuseParent, other: ReuseParent) -> bool:
    return one.trace == other.trace and one.task.workload_hash == other.task.workload_hash
