"""Base of planners that say whose turn it is, whatever a task starts from."""

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
"""Candidates measured in a quick round."""


class TurnPlanner(TaskPlanner):
    """Plans whose turn it is among the tasks that its Precedence leaves open.

    By itself it lets every task be searched. `reuse.planner.ReusePlanner` gives it the precedence of a tree,
    and replaces the rounds of the tasks that start from others.
    """

    Config: ClassVar[type[PlannerConfig]]
    """Class of its settings."""

    def __init__(self, config: OneShotConfig, *, breadth_first: bool = False) -> None:
        """`breadth_first` gives each task a quick round first, as a time budget asks for."""
        self._config = config
        self._breadth_first = breadth_first
        self._searches: Sequence[TaskSearch] = ()
        self._precedence = Precedence()
        self._done = 0.0

    def begin(self, searches: Sequence[TaskSearch], precedence: Precedence | None = None) -> None:
        """See TaskPlanner; without `precedence` no task waits for another."""
        self._searches = searches
        self._precedence = precedence or Precedence()
        self._done = 0.0

    def share_done(self) -> float:
        """See TaskPlanner; it never falls, although what is planned may grow."""
        self._done = max(self._done, min(self._share_of_plan(), 1.0))
        return self._done

    @abstractmethod
    def _share_of_plan(self) -> float:
        """Share of what is planned by now that is done."""

    def share_left(self, search: TaskSearch) -> float:
        """Share of a task's own search that is planned and not done; 0 where others can start from it."""
        if self._breadth_first and search.rounds:
            return 0.0  # the quick rounds of others come before a second one
        return 1.0 if self._precedence.stage(search).is_pending else self._own_share_left(search)

    @abstractmethod
    def _own_share_left(self, search: TaskSearch) -> float:
        """`share_left` of a task that has no rounds as a child before it."""

    def _round_of(self, search: TaskSearch, room: int) -> Round:
        """A round of up to `room` candidates, quick where it is the first of a task under a time budget."""
        quick = self._breadth_first and not search.rounds and search.known_s is None
        measured = min(room, QUICK_ROOM) if quick else room
        return Round(search, RoundBudget(measured, quick, search=self._config.propose))


def make_planner(config: OneShotConfig, *, breadth_first: bool = False) -> TurnPlanner:
    """The planner that `config.planner` chooses; `breadth_first` gives each task a quick round first."""
    found: type[TurnPlanner] = planner_class(config.planner.name)
    return found(config, breadth_first=breadth_first)
