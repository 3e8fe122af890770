"""Reuse planner: some tasks are searched in full, others from the programs of tasks before them.

This is the workflow of ETO (section 4, Figure 4). A task without a parent goes to the backend, which is the
search by latency share here. Its children follow when it is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ....dataset.task import Task
from ...config import OneShotConfig
from ...reuse.donors import Donor, StartChoice
from ...reuse.parent import ReuseParent
from ...reuse.selection import ReuseSelection
from ...reuse.tree import ROOT
from ...strategies.loop import RoundBudget
from ..planner import Round
from ..search import TaskSearch
from ..shares import QUICK_ROOM, LatencySharePlanner


@dataclass(frozen=True)
class ChildBudget:
    """Limits of the rounds of a task that has a parent."""

    programs: int = 8
    """Candidates measured in a round at most, the adapted ones among them."""
    starts: int = 4
    """Adapted programs that it begins with at most; with 0 it waits for its parent and takes nothing over."""
    rounds: int = 1
    """Rounds, of which the first has the adapted programs."""
    total: int | None = None
    """Candidates measured in all, where rounds go on until the search has no more; None counts `rounds`."""
    reused: int = 0
    """Programs of the parent that each round hands to the strategy as they are, as Algorithm 1 needs one."""
    search: bool = True
    """Whether others are searched for. Where not, the next adapted ones follow until one runs: TopK."""
    small_programs: int | None = None
    """Candidates of a task of a small share in place of `programs`; None makes no difference."""


@dataclass(frozen=True)
class Selected:
    """Selection for the tasks of a run."""

    selection: ReuseSelection
    bridges: Sequence[Task] = ()
    """Tasks of weight 0 that the reuse tree may hold."""
    library: Sequence[Donor] = ()
    """Tasks of earlier runs that the reuse tree may hold, with their programs."""


class ReusePlanner(LatencySharePlanner):
    """Plans full searches by latency share, and few programs for each task that has a parent.

    A child waits for its parent. It is searched in full if the parent has no program that ran, if none of the
    parent's programs fits, or if no program of its own round ran.

    A task counts with the latency of all that wait for it, so that a bridge or a small parent of large tasks
    is searched as these would be. Bridges come first.
    """

    def __init__(
        self,
        config: OneShotConfig,
        select: Callable[[Sequence[Task]], Selected],
        starts: StartChoice,
        *,
        child_of: Callable[[Task], ChildBudget] = lambda task: ChildBudget(),
        source_rounds: int | None = None,
        known_programs: Callable[[Task], Mapping[str, float]] = lambda task: {},
        sketch_of: Callable[[Task, str], Hashable] | None = None,
        breadth_first: bool = False,
    ) -> None:
        """Sets a planner up.

        Args:
            select: selection for the tasks of a run.
            starts: programs that a child begins with.
            child_of: limits of a task that has a parent.
            source_rounds: rounds of a task that others reuse, at most; None sets no limit of its own.
            known_programs: latency in seconds by trace of what earlier runs measured of a task.
            sketch_of: sketch of a program of a task; None does not tell the selection which ones are fast.
            breadth_first: see LatencySharePlanner.
        """
        super().__init__(config, breadth_first=breadth_first)
        self._select = select
        self._starts = starts
        self._child_of = child_of
        self._source_rounds = source_rounds
        self._known_programs = known_programs
        self._sketch_of = sketch_of
        self._library: dict[str, Donor] = {}
        self._by_name: dict[str, TaskSearch] = {}
        self._selection: ReuseSelection | None = None
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[TaskSearch]] = {}
        self._sketches: dict[str, Hashable] = {}
        self._earlier: dict[
            str, Mapping[str, float]
        ] = {}  # what earlier runs measured, once it was asked for
        self._back: set[str] = set()  # children that are searched in full after all
        self._tried: dict[str, int] = {}  # adapted programs that children were given

    def further_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """See TaskPlanner: the bridges."""
        selected = self._select(tasks)
        self._selection = selected.selection
        self._library = {donor.task.workload_hash: donor for donor in selected.library}
        return selected.bridges

    def begin(self, searches: Sequence[TaskSearch]) -> None:
        """See TaskPlanner."""
        super().begin(searches)
        self._by_name = {search.task.workload_hash: search for search in searches}
        self._reconsider()

    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """See TaskPlanner."""
        self._reconsider()
        return super().next_round(preferred, others)

    def share_done(self) -> float:
        """See TaskPlanner."""
        self._reconsider()
        return super().share_done()

    # --- The tree -------------------------------------------------------------------------------------------

    def _reconsider(self) -> None:
        """Takes the tree of what is known by now, and sends children back that no parent can help."""
        assert self._selection is not None, "a planner is asked for further tasks before it begins"
        begun = {
            name: self._parent(name) if search.busy or search.rounds else _earlier_parent(search)
            for name, search in self._by_name.items()
            if search.busy or search.rounds or search.full_rounds
        }
        if self._sketch_of is not None:
            for name in begun.keys() - self._sketches.keys():
                if not self._by_name[name].busy and (fastest := self._donor(name).fastest):
                    self._sketches[name] = self._sketch_of(self._by_name[name].task, fastest[0])
        self._parents = {**self._selection.tree(begun, self._sketches).parents, **begun}
        for name, search in self._by_name.items():
            if not search.busy and self._parent(name) != ROOT and self._is_helpless(search):
                self._back.add(name)
        self._children = {}
        for name, search in self._by_name.items():
            self._children.setdefault(self._parent(name), []).append(search)

    def _parent(self, name: str) -> str:
        return ROOT if name in self._back else self._parents.get(name, ROOT)

    def _is_helpless(self, child: TaskSearch) -> bool:
        """Whether a child's round, or its parent's search, is over without a program."""
        if _rounds_had(child):
            return self._child_of(child.task).search and math.isinf(child.best_s)
        parent = self._parent(child.task.workload_hash)
        return self._is_settled(parent) and not self._donor(parent).latencies_s

    def _is_settled(self, name: str) -> bool:
        """Whether a task is searched as far as it is planned, so that others can reuse it."""
        search = self._by_name.get(name)
        return search is None or not (search.busy or self._share_left(search))

    def _is_pending(self, search: TaskSearch) -> bool:
        """Whether a task waits for its parent, or for its round as a child."""
        if self._parent(search.task.workload_hash) == ROOT or search.over:
            return False
        child = self._child_of(search.task)
        if child.total is not None:
            return not search.complete_before and len(search.loop.known) < child.total
        return _rounds_had(search) < child.rounds or (not child.search and math.isinf(search.best_s))

    def _donor(self, name: str) -> Donor:
        search = self._by_name.get(name)
        if search is None:
            return self._library[name]
        if search.known_s is not None and name not in self._earlier:
            self._earlier[name] = self._known_programs(search.task)
        measured = {**self._earlier.get(name, {}), **search.loop.latencies_s()}
        return Donor(search.task, {trace: s for trace, s in measured.items() if math.isfinite(s)})

    def _is_left_out(self, search: TaskSearch) -> bool:
        """Whether a task is a bridge that the tree does without."""
        return not search.task.weight and search.task.workload_hash not in self._parents

    # --- Rounds ---------------------------------------------------------------------------------------------

    def _is_due(self, search: TaskSearch) -> bool:
        if self._is_left_out(search):
            return False
        if self._is_pending(search):
            return self._is_settled(self._parent(search.task.workload_hash))
        return self._parent(search.task.workload_hash) == ROOT and super()._is_due(search)

    def _share_left(self, search: TaskSearch) -> float:
        return 1.0 if self._is_pending(search) else super()._share_left(search)

    def _stake_s(self, search: TaskSearch) -> float:
        """Seconds of the task and of all that wait for its programs."""
        waiting = [search]
        for known in waiting:  # grows while it is read
            waiting += self._children.get(known.task.workload_hash, [])
        return sum(known.network_s for known in waiting)

    def _expected_s(self, search: TaskSearch) -> float:
        """Seconds of a run of the network; a task without a program is as fast an operation as its parent."""
        if math.isfinite(search.best_s):
            return search.network_s
        task = search.task
        return task.weight * task.flops * self._operation_s(self._parent(task.workload_hash))

    def _operation_s(self, name: str) -> float:
        """Seconds an operation of a task, or of the next one above it that has a program; inf for none."""
        if donor := self._library.get(name):
            return min(donor.latencies_s.values(), default=math.inf) / max(donor.task.flops, 1.0)
        if (search := self._by_name.get(name)) is None:
            return math.inf
        if math.isfinite(search.best_s):
            return search.best_s / max(search.task.flops, 1.0)
        return self._operation_s(self._parent(name))

    def _even_s(self) -> float:
        expected_s = [self._expected_s(search) for search in self._searches if search.task.weight]
        known_s = [seconds for seconds in expected_s if math.isfinite(seconds)]
        return sum(known_s) / max(len(known_s), 1)

    def _is_small(self, search: TaskSearch) -> bool:
        """Whether a task has too small a share for a second round."""
        return self._expected_s(search) < self._config.min_latency_share * self._even_s()

    def _own_rounds(self, search: TaskSearch) -> int:
        rounds = super()._own_rounds(search)
        if self._source_rounds is None or not self._children.get(search.task.workload_hash):
            return rounds
        return min(rounds, max(0, self._source_rounds - (search.full_rounds - search.rounds)))

    def _order(self, search: TaskSearch) -> tuple[float, ...]:
        return (float(search.task.weight > 0), *super()._order(search))

    def _most_rounds(self, search: TaskSearch) -> int:
        if self._is_left_out(search) or self._is_pending(search):
            return 0
        return super()._most_rounds(search)

    def _round(self, search: TaskSearch) -> Round:
        name = search.task.workload_hash
        if not self._is_pending(search):
            return replace(super()._round(search), is_child=self._parent(name) != ROOT)
        child, tried = self._child_of(search.task), self._tried.get(name, 0)
        found: list[tuple[str, ReuseParent]] = []
        if child.starts and (not _rounds_had(search) or not child.search):
            found = list(islice(self._starts_of(search), tried, tried + child.starts))
            if not found:
                self._back.add(name)
                return super()._round(search)
            self._tried[name] = tried + len(found)
        reused = self._reused_of(search, child.reused)
        if child.reused and not reused:
            self._back.add(name)
            return super()._round(search)
        programs = child.programs if child.search else len(found)
        if child.small_programs is not None and self._is_small(search):
            programs = min(programs, child.small_programs)
        budget = RoundBudget(
            min(programs, QUICK_ROOM) if self._breadth_first else min(programs, self._config.top_k),
            quick=self._breadth_first,
            search=child.search,
        )
        left = None if child.total is None else child.total - len(search.loop.known)
        if left is not None:
            budget = replace(budget, measured=min(budget.measured, left))
        return Round(
            search,
            budget,
            tuple(trace for trace, _ in found),
            reused or tuple(of for _, of in found),
            is_child=True,
            to_be_continued=left is not None and left > budget.measured,
        )

    def _reused_of(self, search: TaskSearch, count: int) -> tuple[ReuseParent, ...]:
        """The fastest programs of a child's parent."""
        if not count:
            return ()
        parent = self._donor(self._parent(search.task.workload_hash))
        return tuple(ReuseParent(parent.task, trace) for trace in parent.fastest[:count])

    def _starts_of(self, search: TaskSearch) -> Iterator[tuple[str, ReuseParent]]:
        """Programs that a child may begin with."""
        name = search.task.workload_hash
        parent = self._donor(self._parent(name))
        others = [
            self._donor(other)
            for other in [*self._by_name, *self._library]
            if other not in (name, parent.task.workload_hash) and self._is_settled(other)
        ]
        return self._starts(search.task, parent, others)


def _rounds_had(search: TaskSearch) -> int:
    """Rounds of a task, quick ones of this run included."""
    return max(search.full_rounds, search.rounds)


def _earlier_parent(search: TaskSearch) -> str:
    """Parent of a task in an earlier run."""
    return ROOT if search.parent is None else search.parent.workload_hash
