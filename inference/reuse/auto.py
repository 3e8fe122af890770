"""Default reuse: the run searches one task of each kind, and the nearest tasks start from its programs.

ETO estimates the cost of each reuse pair. Here every child measures a fixed number of programs, so the costs
of two parents do not differ. The distance between their loops does. The tree of a kind of tasks is therefore
its minimum spanning tree, and the run searches one task of the kind. Reuse condition (2) of Definition 2, the
dominance of one loop nest over the other, does not apply: it serves the ranges of Algorithm 1, whereas
decisions can be adapted to any extents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tvm.target import Target

from ...compiler.task import Task
from ..database.tuning_database import TuningDatabase
from ..planners.base import TaskPlanner
from ..search.config import OneShotConfig
from ..spaces.stock import StockSpace
from ..starts.adapted import ProgramAdapter
from ..starts.configured import has_templates
from .base import KNOWN_PROGRAMS, ReuseMode
from .donors import OF_EACH, Donor, NearestPrograms
from .planner import ReusePlanner
from .rules import ChildBudget, ReuseRules, Selected, SourceLimits
from .selection import GivenSelection
from .similarity import Loops, loops_of
from .tree import ROOT, ReuseTree

STARTS = 4
"""Adapted programs of a task that reuses others, unless `search.auto.starts` sets a number.

A task with templates has none by default: four adapted programs in addition to its templates made no network
faster (benchmarks/results/reuse_networks).
"""


TEMPLATE_GAINS = 0.11, 0.011, 0.009
"""Share of its latency that a task is expected to save by its second, third and fourth template.

Geometric means over 46 tasks of ResNet-18 and MobileNetV2 on a busy Zen 3. The largest tasks of three
networks on a Zen 4 save less (benchmarks/results/template_ratings).
"""


class AutoReuse(ReuseMode):
    """Mode of `search.reuse=auto`. Its planners share the tasks' loops and the tasks of earlier runs."""

    def __init__(
        self, config: OneShotConfig, target: Target, database: TuningDatabase, *, retune: bool = False
    ) -> None:
        super().__init__(config, target, database, retune=retune)
        self.rules = AutoRules(config, target, database)
        self._libraries: dict[frozenset[str], list[Donor]] = {}

    def planner(self, *, breadth_first: bool = False) -> TaskPlanner:
        """See ReuseMode."""
        adapter = self._adapter
        starts = NearestPrograms(adapter, self.rules.loops, adapter.fits)
        return ReusePlanner(self.config, self.select, starts, self.rules, breadth_first=breadth_first)

    @cached_property
    def _adapter(self) -> ProgramAdapter:
        return ProgramAdapter(self.target, StockSpace(self.config.max_code))

    def select(self, tasks: Sequence[Task]) -> Selected:
        """The tree of nearest neighbours over these tasks and the tasks of earlier runs."""
        ordered = sorted(tasks, key=lambda task: -task.weight * task.flops)
        library = self._library([task.workload_hash for task in tasks])
        tuned = [donor.task for donor in library]
        tree = nearest_neighbours(
            [task.workload_hash for task in ordered],
            {task.workload_hash: self.rules.loops(task) for task in (*ordered, *tuned)},
            [task.workload_hash for task in tuned],
        )
        return Selected(GivenSelection(tree), library=library)

    def _library(self, names: Sequence[str]) -> list[Donor]:
        """Tasks of earlier runs that are not among these, with their fastest programs."""
        key = frozenset(names)
        if key not in self._libraries:
            found = [] if self.retune else self.database.other_tasks(key)
            most = OF_EACH + self.config.templates  # the fastest may be templates, which cannot be adapted
            self._libraries[key] = [Donor(task, self.database.latencies_s(task, most)) for task in found]
        return self._libraries[key]


class AutoRules(ReuseRules):
    """Rules of `search.auto`: children have short searches, and a layer tuned at another size has none."""

    def __init__(self, config: OneShotConfig, target: Target, database: TuningDatabase) -> None:
        auto = config.auto
        # A task with a single round would never be searched.
        first = auto.templates_first and min(auto.source_rounds, config.rounds) > 1
        self._config = config
        self._target = target
        self._database = database
        # Tasks that start from a source's programs gain by its further rounds.
        own_share = 0.0 if self.child_starts else auto.own_share
        super().__init__(
            limits=SourceLimits(auto.source_rounds, auto.heavy_share, config.rounds, first, own_share)
        )
        self._loops: dict[str, Loops | None] = {}
        self._children: dict[str, ChildBudget] = {}

    def child(self, task: Task) -> ChildBudget:
        """See ReuseRules."""
        if task.operator not in self._children:
            self._children[task.operator] = self._child_of(task.operator)
        return self._children[task.operator]

    def _child_of(self, operator: str) -> ChildBudget:
        auto, strategy = self._config.auto, self._config.strategy_class
        if strategy.needs_parent_program and strategy.measures_steps(self._config.strategy):
            starts = self._starts(STARTS)
            return ChildBudget(self._config.per_round, starts, total=self._config.top_k, reused=1)
        starts = self.child_starts
        rounds = auto.depthwise_rounds if operator == "depthwise_conv2d" else 1
        heavy = ChildBudget(auto.programs, starts, max(rounds, self._config.rounds))
        light = replace(heavy, rounds=rounds, small_programs=auto.small_programs, heavy=heavy)
        return replace(light, templates_alone=auto.templates_alone)

    def earlier_child(self, task: Task, parent: Task) -> ChildBudget | None:
        """See ReuseRules: limits of a task that an earlier run tuned at another size."""
        auto, starts = self._config.auto, self._starts(STARTS)
        if not starts or math.isinf(self.resized_by(task, parent)):
            return None
        heavy = ChildBudget(starts=starts, search=False, beside=max(0, auto.programs - starts))
        return replace(heavy, starts=1, beside=auto.resized_programs - 1, small_programs=1, heavy=heavy)

    def resized_by(self, task: Task, other: Task) -> float:
        """See ReuseRules."""
        own, theirs = self.loops(task), self.loops(other)
        if own is None or theirs is None or not own.is_resized(theirs):
            return math.inf
        return own.distance(theirs)

    def loops(self, task: Task) -> Loops | None:
        """See ReuseRules."""
        if task.workload_hash not in self._loops:
            self._loops[task.workload_hash] = loops_of(task)
        return self._loops[task.workload_hash]

    def templates(self, share: float | None) -> int | None:
        """See ReuseRules; leaves out templates that save the network less than `least_gain`."""
        if share is None:
            return None
        worth = sum(share * gain >= self._config.auto.least_gain for gain in TEMPLATE_GAINS)
        return None if worth == len(TEMPLATE_GAINS) else 1 + worth

    def known_programs(self, task: Task) -> Mapping[str, float]:
        """See ReuseRules."""
        return self._database.latencies_s(task, most=KNOWN_PROGRAMS)

    @cached_property
    def _has_templates(self) -> bool:
        return has_templates(self._config, self._target)

    @property
    def child_starts(self) -> int:
        """Number of adapted programs of a child that no earlier run tuned."""
        needs_parent = self._config.strategy_class.needs_parent_program
        return self._starts(0 if self._has_templates and not needs_parent else STARTS)

    def _starts(self, by_default: int) -> int:
        """Number of adapted programs of a child."""
        asked = self._config.auto.starts
        return by_default if asked is None else asked


def nearest_neighbours(
    tasks: Sequence[str], loops: Mapping[str, Loops | None], tuned: Sequence[str] = ()
) -> ReuseTree:
    """Reuse tree of tasks, including tasks that earlier runs tuned.

    The first task of each kind is searched, unless a task of the kind is already tuned. A task that is tuned
    at another size has the tuned task as its parent. The other tasks join one by one. The task nearest to the
    tree joins next (Prim's algorithm), and the first of several tasks at equal distance.

    Args:
        tasks: names; the task to search first comes first.
        loops: loops of all tasks by name; a task without loops is searched alone.
        tuned: names of tasks that earlier runs tuned and that are not in `tasks`.
    """
    parents: dict[str, str] = {}
    kinds: dict[str, dict[str, Loops]] = {}
    for name in tasks:
        if (own := loops[name]) is None:
            parents[name] = ROOT
        else:
            kinds.setdefault(own.kind, {})[name] = own
    for kind, left in kinds.items():
        before = [name for name in tuned if (own := loops[name]) is not None and own.kind == kind]
        nearest = dict.fromkeys(left, (float("inf"), ROOT))
        roots = before or [next(iter(left))]
        resized = {
            name: parent for name, own in left.items() if (parent := _at_another_size(own, before, loops))
        }
        parents |= {**dict.fromkeys(roots, ROOT), **resized}
        joined = [*roots, *resized]
        for name in joined:  # grows during the iteration
            left.pop(name, None)
            own = loops[name]
            assert own is not None
            for other, their in left.items():
                if (distance := own.distance(their)) < nearest[other][0]:
                    nearest[other] = distance, name
            if left and name == joined[-1]:
                following = min(left, key=lambda other: nearest[other][0])
                parents[following] = nearest[following][1]
                joined.append(following)
    return ReuseTree(parents, {})


def _at_another_size(own: Loops, tuned: Sequence[str], loops: Mapping[str, Loops | None]) -> str | None:
    """The nearest tuned task with these loops at another size; None if no such task exists."""
    sizes = {name: theirs for name in tuned if (theirs := loops[name]) is not None and own.is_resized(theirs)}
    return min(sizes, key=lambda name: own.distance(sizes[name]), default=None)
