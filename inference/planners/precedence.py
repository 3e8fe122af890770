"""Interface for precedence between tasks: a task may wait for another task or start from its programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ..search.task_search import TaskSearch


class Stage(Enum):
    """Stage of a task that may have a parent."""

    OWN = auto()
    """The task is searched independently of other tasks."""
    WAITING = auto()
    """The task waits for its parent."""
    STARTING = auto()
    """The parent is settled, and the task has rounds as a child left."""
    STARTED = auto()
    """The task had its rounds as a child."""
    UNUSED = auto()
    """Neither the network nor another task needs the task."""

    @property
    def is_pending(self) -> bool:
        """Whether the task still has to have its rounds as a child."""
        return self in (Stage.WAITING, Stage.STARTING)


@dataclass(frozen=True)
class Spent:
    """Rounds of this run, and the programs that they measured."""

    rounds: int = 0
    programs: int = 0


class Precedence:
    """State of a task as far as other tasks determine it. In this base class all tasks are independent."""

    def stage(self, search: TaskSearch) -> Stage:
        """Stage of a task."""
        return Stage.OWN

    def comes_first(self, search: TaskSearch) -> bool:
        """Whether a task is searched before all tasks without this precedence."""
        return False

    def stake_s(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that depend on a task; tasks that wait for it are included."""
        return search.stake_s

    def expected_s(self, search: TaskSearch) -> float:
        """Seconds of the network's latency in a task, also before a program of it ran; inf if unknown."""
        return search.network_s if math.isfinite(search.best_s) else math.inf

    def even_s(self, searches: Sequence[TaskSearch]) -> float:
        """Seconds of the network's latency in each task if all tasks had an equal share."""
        expected_s = [self.expected_s(search) for search in searches if search.task.weight]
        known_s = [seconds for seconds in expected_s if math.isfinite(seconds)]
        return sum(known_s) / max(len(known_s), 1)

    def rounds(self, search: TaskSearch) -> float:
        """Maximum number of rounds of a task in this run before extra rounds; inf without a limit.

        The number includes rounds spent in vain.
        """
        return math.inf

    def deserves_more(self, search: TaskSearch) -> bool:
        """Whether another round of a task that had one is worth its time to the network."""
        return True

    def spent_in_vain(self, search: TaskSearch) -> Spent:
        """Rounds as a child in which no program ran. They do not count towards the task's own search."""
        return Spent()

    def programs(self, search: TaskSearch) -> int | None:
        """Maximum number of programs of a child; 0 for an unused task, None for an independent one."""
        return None

    def programs_to_come(self, search: TaskSearch) -> int:
        """Number of these programs that the task has not measured yet."""
        return 0
