"""Planner of a run, as `search.planner` and `search.reuse` ask for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tvm.target import Target

from ...compiler.task import Task
from ..database.tuning_database import TuningDatabase
from ..eto.search.config import BY_MEASURING
from ..reuse.config import AUTO, OFF, PAPER, SELECTIVE
from ..reuse.donors import OF_EACH, Donor, NearestPrograms, ParentsBest
from ..reuse.nearest import nearest_neighbours
from ..reuse.order import ChildBudget, ReuseRules, Selected
from ..reuse.planner import ReusePlanner
from ..reuse.selection import GivenSelection
from ..reuse.similarity import Loops, loops_of
from ..search.config import OneShotConfig
from ..spaces.stock import StockSpace
from ..starts.adapted import ProgramAdapter
from ..starts.configured import has_templates
from .base import TaskPlanner
from .turn_planner import make_planner

if TYPE_CHECKING:
    from ..eto.published import PublishedTrees

KNOWN_PROGRAMS = 16
"""Programs of a task that are read from the database for those that reuse it."""

STARTS = 4
"""Adapted programs of a task that reuses others, where `search.auto.starts` does not say.

None beside templates: of four they made no network faster (benchmarks/results/reuse_networks).
"""


class PlannerFactory:
    """Makes the planners of a run, which share what was read of its tasks."""

    def __init__(
        self, config: OneShotConfig, target: Target, database: TuningDatabase, *, retune: bool = False
    ) -> None:
        """`retune` reuses nothing of the database."""
        self._config = config
        self._target = target
        self._database = database
        self._retune = retune
        self._loops: dict[str, Loops | None] = {}
        self._libraries: dict[frozenset[str], list[Donor]] = {}

    def make(self, *, breadth_first: bool = False) -> TaskPlanner:
        """A planner; `breadth_first` gives each task a quick round first, as a time budget asks for."""
        config = self._config
        if config.reuse_in_use == OFF:
            return make_planner(config, breadth_first=breadth_first)
        make = partial(ReusePlanner, config, breadth_first=breadth_first)
        known_programs = partial(self._database.latencies_s, most=KNOWN_PROGRAMS)
        if config.reuse == AUTO:
            return make(
                select=self._sources,
                starts=NearestPrograms(self._adapter, self._loops_of, self._adapter.fits),
                rules=ReuseRules(
                    self._child_of,
                    self._earlier_child_of,
                    self._resized_by,
                    self._loops_of,
                    source_rounds=config.auto.source_rounds,
                    heavy_share=config.auto.heavy_share,
                    heavy_rounds=config.rounds,
                    known_programs=known_programs,
                ),
            )
        eto, trees = config.eto, self._trees
        least_cost = partial(trees.least_cost, trials=eto.trials, bridges=eto.bridges)
        select = trees.clusters if config.reuse == SELECTIVE else least_cost
        child = ChildBudget(starts=eto.top_k, search=False)  # TopK
        if config.reuse == PAPER:
            child = ChildBudget(config.per_round, starts=0, total=eto.trials, reused=1)
        return make(
            select=select,
            starts=ParentsBest(self._adapter),
            rules=ReuseRules(lambda task: child, known_programs=known_programs, sketch_of=trees.sketch_of),
        )

    @cached_property
    def _trees(self) -> PublishedTrees:
        from ..eto.published import PublishedTrees  # networkx takes 0.3 s, and only these trees need it

        space = StockSpace(self._config.max_code)
        return PublishedTrees(self._target, space, samples=self._config.eto.samples)

    @cached_property
    def _adapter(self) -> ProgramAdapter:
        return ProgramAdapter(self._target, StockSpace(self._config.max_code))

    def _child_of(self, task: Task) -> ChildBudget:
        auto, strategy = self._config.auto, self._config.strategy
        if strategy.name == "reuse" and strategy.rank == BY_MEASURING:  # a round for each step of Algorithm 1
            starts = self._starts(STARTS)
            return ChildBudget(self._config.per_round, starts, total=self._config.top_k, reused=1)
        # Algorithm 1 goes from a parent's program.
        none = strategy.name != "reuse" and self._has_templates
        starts = self._starts(0 if none else STARTS)
        rounds = auto.depthwise_rounds if task.operator == "depthwise_conv2d" else 1
        heavy = ChildBudget(auto.programs, starts, max(rounds, self._config.rounds))
        return replace(heavy, rounds=rounds, small_programs=auto.small_programs, heavy=heavy)

    def _earlier_child_of(self, task: Task, parent: Task) -> ChildBudget | None:
        """Limits of a task that an earlier run has tuned at another size."""
        auto, starts = self._config.auto, self._starts(STARTS)
        if not starts or math.isinf(self._resized_by(task, parent)):
            return None
        heavy = ChildBudget(starts=starts, search=False, beside=max(0, auto.programs - starts))
        return replace(heavy, starts=1, beside=auto.resized_programs - 1, small_programs=1, heavy=heavy)

    @cached_property
    def _has_templates(self) -> bool:
        return has_templates(self._config, self._target)

    def _starts(self, by_default: int) -> int:
        """Adapted programs of a child."""
        asked = self._config.auto.starts
        return by_default if asked is None else asked

    def _resized_by(self, task: Task, other: Task) -> float:
        """Distance of the loops of a task to those of the same layer at another size; inf for others."""
        own, theirs = self._loops_of(task), self._loops_of(other)
        if own is None or theirs is None or not own.is_resized(theirs):
            return math.inf
        return own.distance(theirs)

    def _sources(self, tasks: Sequence[Task]) -> Selected:
        """Selection of `search.reuse=auto`."""
        ordered = sorted(tasks, key=lambda task: -task.weight * task.flops)
        library = self._library([task.workload_hash for task in tasks])
        tuned = [donor.task for donor in library]
        tree = nearest_neighbours(
            [task.workload_hash for task in ordered],
            {task.workload_hash: self._loops_of(task) for task in (*ordered, *tuned)},
            [task.workload_hash for task in tuned],
        )
        return Selected(GivenSelection(tree), library=library)

    def _library(self, names: Sequence[str]) -> list[Donor]:
        """Tasks of earlier runs that are none of these, with their fastest programs."""
        key = frozenset(names)
        if key not in self._libraries:
            found = [] if self._retune else self._database.other_tasks(key)
            most = OF_EACH + self._config.templates  # the fastest may be templates, which nobody can adapt
            self._libraries[key] = [Donor(task, self._database.latencies_s(task, most)) for task in found]
        return self._libraries[key]

    def _loops_of(self, task: Task) -> Loops | None:
        if task.workload_hash not in self._loops:
            self._loops[task.workload_hash] = loops_of(task)
        return self._loops[task.workload_hash]
