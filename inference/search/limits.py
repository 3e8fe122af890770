"""Limits of a run: when it ends, and which tasks are due a round all the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .task_search import TaskSearch

LATE_ROUNDS = 2
"""Rounds at most that a task without a schedule gets when the time is over: the first may fail as a whole."""

_LONGEST_WAIT_S = 3600.0  # a connection waits for some days at most


@dataclass(frozen=True)
class Limits:
    """Limits that end tuning before all planned rounds are done."""

    in_time: Callable[[], bool] = lambda: True
    """Whether there is time for another round."""
    left_s: Callable[[], float | None] = lambda: None
    """Seconds until there is none, None without an end."""
    breadth_first: bool = False
    """Whether each task gets a quick round before any is searched, as a time budget asks for.

    A task without one when the time is over gets it all the same: without a schedule it may take a thousand
    times as long.
    """
    latency_target_s: float | None = None
    """Estimated latency of the network, in seconds, that is good enough."""

    def wait_s(self) -> float | None:
        """Seconds after which to look at the time again; None where nothing else comes of it."""
        left_s = self.left_s()
        return None if left_s is None or left_s <= 0 else min(left_s, _LONGEST_WAIT_S)

    def may_measure(self, search: TaskSearch) -> bool:
        """Whether another batch of a round may start."""
        return self.in_time() or self.lacks_schedule(search)

    def late(self, searches: Sequence[TaskSearch]) -> list[TaskSearch]:
        """Those that are due a round although the run ends; none where its latency is good enough."""
        if self.in_time():
            return []
        return [one for one in searches if one.rounds < LATE_ROUNDS and self.lacks_schedule(one)]

    def lacks_schedule(self, search: TaskSearch) -> bool:
        """Whether a task of the network has none after LATE_ROUNDS at most, where each should have one.

        One that an alternative stands for needs none once that has run.
        """
        best_s = min(way.best_s for way in (search, *search.role.stand_ins))
        lacks = search.rounds <= LATE_ROUNDS and not search.over and math.isinf(best_s)
        return self.breadth_first and search.task.weight > 0 and lacks
