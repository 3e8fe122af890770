"""Interface by which one task decides over another: which wait, which start from others' programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ..search.task_search import TaskSearch


class Stage(Enum):
    """Stage of a task that may have a parent."""

    OWN = auto()
    """It is searched by itself."""
    WAITING = auto()
    """It waits for its parent."""
    STARTING = auto()
    """Its parent is settled, and it has not had all of its rounds as a child."""
    STARTED = auto()
    """It has had its rounds as a child."""
    UNUSED = auto()
    """Neither the network nor another task needs it."""

    @property
    def is_pending(self) -> bool:
        """Whether rounds as a child are before it."""
        return self in (Stage.WAITING, Stage.STARTING)


@dataclass(frozen=True)
class Spent:
    """Rounds of this run, and the programs that they measured."""

    rounds: int = 0
    programs: int = 0


class Precedence:
    """State of tasks as far as others decide it; this one has tasks that know nothing of each other."""

    def stage(self, search: TaskSearch) -> Stage:
        """Stage of a task."""
        return Stage.OWN

    def comes_first(self, search: TaskSearch) -> bool:
        """Whether a task is searched before all others that do not come first."""
        return False

    def stake_s(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that a task counts with, those that wait for it included."""
        return search.stake_s

    def expected_s(self, search: TaskSearch) -> float:
        """Seconds of the network's latency in a task, also before it has a program; inf if not known."""
        return search.network_s if math.isfinite(search.best_s) else math.inf

    def even_s(self, searches: Sequence[TaskSearch]) -> float:
        """Seconds of the network's latency that each task would have if all had the same."""
        expected_s = [self.expected_s(search) for search in searches if search.task.weight]
        known_s = [seconds for seconds in expected_s if math.isfinite(seconds)]
        return sum(known_s) / max(len(known_s), 1)

    def rounds(self, search: TaskSearch) -> float:
        """Rounds of this run that a task gets at most before extra ones; inf for no limit of its own.

        They include those that were spent in vain.
        """
        return math.inf

    def spent_in_vain(self, search: TaskSearch) -> Spent:
        """Rounds that a task had as a child, of which nothing ran: they are no part of its own search."""
        return Spent()

    def programs(self, search: TaskSearch) -> int | None:
        """Programs that a task measures at most as a child, 0 for an unused one; None for one on its own."""
        return None

    def programs_to_come(self, search: TaskSearch) -> int:
        """Programs among these that are before a task."""
        return 0
