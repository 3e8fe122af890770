"""Base of planners that decide the order of rounds, independently of the programs that a task starts from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ..search.config import OneShotConfig
from ..search.loop import RoundBudget
from ..search.task_search import TaskSearch
from .base import Round, TaskPlanner
from .config import PlannerConfig
from .precedence import Precedence
from .registry import planner_class

QUICK_ROOM = 4
"""Number of candidates that a quick round measures."""


class TurnPlanner(TaskPlanner):
    """Chooses the next task among the tasks that its Precedence allows.

    A planner without a precedence allows every task. `reuse.planner.ReusePlanner` passes the precedence of a
    tree, and replaces the rounds of tasks that start from other tasks.
    """

    Config: ClassVar[type[PlannerConfig]]
    """Class of the settings."""

    def __init__(self, config: OneShotConfig, *, breadth_first: bool = False) -> None:
        """`breadth_first` gives each task a quick round first, as a time budget requires."""
        self._config = config
        self._breadth_first = breadth_first
        self._searches: Sequence[TaskSearch] = ()
        self._precedence = Precedence()
        self._done = 0.0

    def begin(self, searches: Sequence[TaskSearch], precedence: Precedence | None = None) -> None:
        """See TaskPlanner. Without `precedence`, no task waits for another task."""
        self._searches = searches
        self._precedence = precedence or Precedence()
        self._done = 0.0

    def share_done(self) -> float:
        """See TaskPlanner. The share never falls, although the plan may grow."""
        self._done = max(self._done, min(self._share_of_plan(), 1.0))
        return self._done

    @abstractmethod
    def _share_of_plan(self) -> float:
        """Share of the current plan that is done."""

    def share_left(self, search: TaskSearch) -> float:
        """Share of a task's own search that is planned and not done; 0 if others can start from the task."""
        if self._breadth_first and search.rounds:
            return 0.0  # quick rounds of other tasks precede a second round
        return 1.0 if self._precedence.stage(search).is_pending else self._own_share_left(search)

    @abstractmethod
    def _own_share_left(self, search: TaskSearch) -> float:
        """`share_left` of a task without pending rounds as a child."""

    def _round_of(self, search: TaskSearch, room: int) -> Round:
        """Round with up to `room` candidates; quick if it is the task's first round under a time budget."""
        quick = self._breadth_first and not search.rounds and search.known_s is None
        measured = min(room, QUICK_ROOM) if quick else room
        return Round(search, RoundBudget(measured, quick, search=self._config.propose))


def make_planner(config: OneShotConfig, *, breadth_first: bool = False) -> TurnPlanner:
    """Planner that `config.planner` selects. `breadth_first` gives each task a quick round first."""
    found: type[TurnPlanner] = planner_class(config.planner.name)
    return found(config, breadth_first=breadth_first)
