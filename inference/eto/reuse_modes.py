"""Reuse modes of ETO's evaluation: its own, and the baselines TopK and Selective Tuning (section 7).

`search.reuse` has values for the baselines, and the command offers them. They are therefore part of the
product.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ...compiler.task import Task
from ..database.tuning_database import TuningDatabase
from ..planners.base import TaskPlanner
from ..reuse.base import KNOWN_PROGRAMS, ReuseMode
from ..reuse.donors import ParentsBest
from ..reuse.planner import ReusePlanner
from ..reuse.rules import ChildBudget, ReuseRules, Selected
from ..search.config import OneShotConfig
from ..search.selection import StopConfig
from ..spaces.stock import StockSpace
from ..starts.adapted import ProgramAdapter
from ..starts.config import KNOWN
from ..strategies.stock import StockConfig
from .search.config import BY_MEASURING, ReuseConfig

if TYPE_CHECKING:
    from .published import PublishedTrees


class PublishedReuse(ReuseMode):
    """Reuse in stock MetaSchedule's search with a fixed number of trials."""

    @classmethod
    def settings(cls, config: OneShotConfig) -> OneShotConfig:
        """See ReuseMode."""
        return with_backend(config, by_algorithm=False)

    def planner(self, *, breadth_first: bool = False) -> TaskPlanner:
        """See ReuseMode."""
        starts = ParentsBest(ProgramAdapter(self.target, StockSpace(self.config.max_code)))
        rules = PublishedRules(self._child, self.database, self._trees)
        return ReusePlanner(self.config, self._select, starts, rules, breadth_first=breadth_first)

    def _select(self, tasks: Sequence[Task]) -> Selected:
        """ETO's reuse tree, with its bridges."""
        eto = self.config.eto
        return self._trees.least_cost(tasks, trials=eto.trials, bridges=eto.bridges)

    @property
    @abstractmethod
    def _child(self) -> ChildBudget:
        """Limits of a task that has a parent."""

    @cached_property
    def _trees(self) -> PublishedTrees:
        from .published import PublishedTrees  # networkx needs 0.3 s to load, and only these trees use it

        space = StockSpace(self.config.max_code)
        return PublishedTrees(self.target, space, samples=self.config.eto.samples)


class PaperReuse(PublishedReuse):
    """ETO: Algorithm 1 searches a task with a parent, starting from the parent's program."""

    @classmethod
    def settings(cls, config: OneShotConfig) -> OneShotConfig:
        """See ReuseMode."""
        return with_backend(config, by_algorithm=True)

    @property
    def _child(self) -> ChildBudget:
        return ChildBudget(self.config.per_round, starts=0, total=self.config.eto.trials, reused=1)


class TopKReuse(PublishedReuse):
    """TopK: ETO's tree, in which children only measure the parent's fastest programs, without a search."""

    @property
    def _child(self) -> ChildBudget:
        return ChildBudget(starts=self.config.eto.top_k, search=False)


class SelectiveReuse(TopKReuse):
    """Selective Tuning: TopK within clusters of tasks whose search spaces overlap."""

    def _select(self, tasks: Sequence[Task]) -> Selected:
        return self._trees.clusters(tasks)


class PublishedRules(ReuseRules):
    """Rules of the published modes: equal limits for all children, and sketches for the selection."""

    reads_sketches = True

    def __init__(self, child: ChildBudget, database: TuningDatabase, trees: PublishedTrees) -> None:
        super().__init__(child)
        self._database = database
        self._trees = trees

    def known_programs(self, task: Task) -> Mapping[str, float]:
        """See ReuseRules."""
        return self._database.latencies_s(task, most=KNOWN_PROGRAMS)

    def sketch(self, task: Task, trace: str) -> Hashable:
        """See ReuseRules."""
        return self._trees.sketch_of(task, trace)


TRIALS_A_ROUND = 64
"""Candidates that MetaSchedule measures before it refits its model."""


def with_backend(config: OneShotConfig, *, by_algorithm: bool) -> OneShotConfig:
    """The settings of a published search.

    With `by_algorithm`, Algorithm 1 as published searches a task with a parent and measures each of its
    candidates. No part of Foretune influences the search: no pretrained model, surrogate, template or early
    end. Settings of the strategy `stock` do not change.
    """
    stock = config.strategy if isinstance(config.strategy, StockConfig) else StockConfig()
    return replace(
        config,
        strategy=ReuseConfig(rank=BY_MEASURING, backend=stock) if by_algorithm else stock,
        rounds=-(-config.eto.trials // TRIALS_A_ROUND),
        top_k=config.eto.trials,
        replay_factor=1,
        min_latency_share=0.0,
        random_share=0.0,
        max_code=None,
        templates=0,
        starts=KNOWN,
        extra_rounds=0,
        surrogate=False,
        finalists=0,
        stop=StopConfig(expected_improvement=0.0),
    )
