"""Limits of a run: when it ends, and which tasks still get a round afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .task_search import TaskSearch

LATE_ROUNDS = 2
"""Maximum number of rounds of a task that has no schedule when the time is over. All programs of the first
round may fail."""

_LONGEST_WAIT_S = 3600.0  # a connection waits for some days at most


@dataclass(frozen=True)
class Limits:
    """Limits that end tuning before all planned rounds are done."""

    in_time: Callable[[], bool] = lambda: True
    """Whether there is time for another round."""
    left_s: Callable[[], float | None] = lambda: None
    """Seconds until the time is over; None without a limit."""
    breadth_first: bool = False
    """Whether each task gets a quick round before any full search, as a time budget requires.

    A task without a schedule gets this round even if the time is over: without a schedule, a task can be a
    thousand times slower.
    """
    latency_target_s: float | None = None
    """Estimated latency of the network, in seconds, at which tuning stops."""

    def wait_s(self) -> float | None:
        """Seconds until the next check of the time; None without a deadline or after it."""
        left_s = self.left_s()
        return None if left_s is None or left_s <= 0 else min(left_s, _LONGEST_WAIT_S)

    def may_measure(self, search: TaskSearch) -> bool:
        """Whether another batch of a round may start."""
        return self.in_time() or self.lacks_schedule(search)

    def late(self, searches: Sequence[TaskSearch]) -> list[TaskSearch]:
        """Tasks that still need a round when the time is over; empty if the latency target ends the run."""
        if self.in_time():
            return []
        return [one for one in searches if one.rounds < LATE_ROUNDS and self.lacks_schedule(one)]

    def lacks_schedule(self, search: TaskSearch) -> bool:
        """Whether a task of the network needs a schedule and has none after at most LATE_ROUNDS rounds.

        A task does not need a schedule if an alternative that stands for it has run.
        """
        lacks = search.rounds <= LATE_ROUNDS and not search.over and math.isinf(search.fastest_s)
        return self.breadth_first and search.task.weight > 0 and lacks
