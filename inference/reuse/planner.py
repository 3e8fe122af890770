"""Reuse planner: some tasks are searched alone, others start from the programs of earlier tasks.

This is the workflow of ETO (section 4, Figure 4). The backend searches a task without a parent; the planner
of the search decides on the order of these tasks. The children of a task follow when it is settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from ...compiler.task import Task
from ..planners.base import Round, TaskPlanner
from ..planners.precedence import Stage
from ..planners.turn_planner import QUICK_ROOM, make_planner
from ..search.config import OneShotConfig
from ..search.loop import RoundBudget
from ..search.task_search import TaskSearch
from .donors import Donor, StartChoice
from .order import TreeOrder, rounds_had
from .parent import ReuseParent
from .rules import ReuseRules, Selected


class ReusePlanner(TaskPlanner):
    """Plans few programs for each task that has a parent; `config.planner` orders the other tasks.

    A child waits for its parent. It is searched alone in four cases: the parent has no program that ran, none
    of the parent's programs fits, no program of its own rounds ran, or its rounds as a child began in an
    earlier run whose parent this run does not know. A child with the limit `search=False` measures its
    templates if no program fits. Layers whose parent is tuned by templates are of this kind.

    The stake of a task includes the latency of all tasks that wait for it. A bridge, or a small parent of
    large tasks, is therefore searched like the large tasks themselves.
    """

    def __init__(
        self,
        config: OneShotConfig,
        select: Callable[[Sequence[Task]], Selected],
        starts: StartChoice,
        rules: ReuseRules | None = None,
        *,
        breadth_first: bool = False,
    ) -> None:
        """Creates a planner.

        Args:
            config: settings of the search; its `planner` decides whose turn it is.
            select: selection of the reuse tree for the tasks of a run.
            starts: choice of the programs that start the search of a child.
            rules: limits of children and parents.
            breadth_first: see TurnPlanner.
        """
        self._config = config
        self._select = select
        self._starts = starts
        self._rules = rules or ReuseRules()
        self._breadth_first = breadth_first
        self._turns = make_planner(config, breadth_first=breadth_first)
        self._selected: Selected | None = None
        self._order: TreeOrder | None = None
        self._tried: dict[str, int] = {}
        """Number of adapted programs that each child was given, by workload hash."""

    @property
    def completes_all(self) -> bool:
        """See TaskPlanner."""
        return self._turns.completes_all

    def further_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """See TaskPlanner: the bridges are further tasks."""
        self._selected = self._select(tasks)
        return self._selected.bridges

    def begin(self, searches: Sequence[TaskSearch]) -> None:
        """See TaskPlanner."""
        assert self._selected is not None, "a planner is asked for further tasks before it begins"
        self._order = TreeOrder(
            searches,
            self._selected,
            self._rules,
            min_latency_share=self._config.min_latency_share,
            share_left=self._turns.share_left,
        )
        self._turns.begin(searches, self._order)
        self._order.reconsider()

    def resized_s(self, search: TaskSearch) -> dict[float, float]:
        """See TaskPlanner."""
        assert self._order is not None, "a planner begins before it plans"
        return self._order.resized_s(search)

    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """See TaskPlanner."""
        order = self._reconsidered()
        free = ([search for search in of if not self._waits(search, order)] for of in (preferred, others))
        planned = self._turns.next_round(*free)
        if planned is None:
            return None
        stage = order.stage(planned.search)
        if stage is not Stage.STARTING:
            begins = stage is Stage.OWN and not rounds_had(planned.search)
            return replace(
                planned,
                is_child=stage is Stage.STARTED,
                templates_alone=begins and self._rules.limits.templates_first,
                like=order.begun_like(planned.search),
            )
        started = self._child_round(planned.search, order)
        if started is None:
            order.send_back(planned.search)
            return planned
        return started

    def share_done(self) -> float:
        """See TaskPlanner."""
        self._reconsidered()
        return self._turns.share_done()

    def _reconsidered(self) -> TreeOrder:
        assert self._order is not None, "a planner begins before it plans"
        self._order.reconsider()
        return self._order

    def _waits(self, search: TaskSearch, order: TreeOrder) -> bool:
        """Whether an alternative waits for the measurements of the first alternative with the same loops."""
        like = order.begun_like(search)
        return like is not None and like.busy and not like.had.history_s

    def _child_round(self, search: TaskSearch, order: TreeOrder) -> Round | None:
        """The next round of a child; None if no program of another task fits it."""
        name = search.task.workload_hash
        parent = order.donor(order.parent(name))
        child, tried = order.child(search), self._tried.get(name, 0)
        found: list[tuple[str, ReuseParent]] = []
        reused_count = child.reused
        if child.starts and (not rounds_had(search) or not child.search):
            found = list(islice(self._starts_of(search, parent, order), tried, tried + child.starts))
            if not found:
                if child.search or not child.beside or rounds_had(search):
                    return None
                reused_count = 1
            self._tried[name] = tried + len(found)
        reused = tuple(ReuseParent(parent.task, trace) for trace in parent.fastest[:reused_count])
        if child.reused and not reused:
            return None
        programs = order.programs_a_round(search)
        if found and not child.search:
            programs = min(programs, len(found) + child.beside)
        budget = RoundBudget(
            min(programs, QUICK_ROOM) if self._breadth_first else min(programs, self._config.top_k),
            quick=self._breadth_first,
            search=child.search,
        )
        left = None if child.total is None else child.total - len(search.loop.known)
        if left is not None:
            budget = replace(budget, measured=min(budget.measured, left))
        programs_of = reused or tuple(of for _, of in found)
        return Round(
            search,
            budget,
            tuple(trace for trace, _ in found),
            programs_of,
            programs_of[0].task if programs_of else parent.task,
            is_child=True,
            to_be_continued=left is not None and left > budget.measured,
            templates_alone=child.templates_alone,
            most_templates=self._rules.templates(order.share(search)),
        )

    def _starts_of(
        self, search: TaskSearch, parent: Donor, order: TreeOrder
    ) -> Iterator[tuple[str, ReuseParent]]:
        """Programs that may start the search of a child."""
        others = list(order.donors_beside(search.task.workload_hash, parent.task.workload_hash))
        return self._starts(search.task, parent, others)
