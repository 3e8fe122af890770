"""Interface of task planners: which task is searched next, how much it may measure, what it begins with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...compiler.task import Task
from ..reuse.parent import ReuseParent
from ..search.loop import RoundBudget
from ..search.task_search import TaskSearch


@dataclass(frozen=True)
class Round:
    """One round of one task."""

    search: TaskSearch
    budget: RoundBudget
    starts: tuple[str, ...] = ()
    """Traces of candidates that are measured before others, such as a parent's adapted program."""
    parents: tuple[ReuseParent, ...] = ()
    """Programs of other tasks that this one reuses, the most promising first."""
    follows: Task | None = None
    """Task that a child follows: that of the first of `parents`, or else the one that it waited for."""
    is_child: bool = False
    """Whether the task reuses others; a later round of a child may name no programs again."""
    to_be_continued: bool = False
    """Whether the task counts as unfinished after it, however many rounds it had."""
    like: TaskSearch | None = None
    """For the first round of an alternative: one with the same loops, whose templates were measured. None for
    none."""


class TaskPlanner(ABC):
    """Plans the rounds of all tasks of a run.

    A task of weight 0 is measured but is no part of the network.
    """

    @property
    def completes_all(self) -> bool:
        """Whether a run that comes to its end leaves every task complete, however few rounds it had."""
        return False

    def surrogate_group(self, task: Task) -> str:
        """Name of the surrogate that a task shares with others; "" for one of its own."""
        return ""

    def further_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Tasks of weight 0 to search beside those of the run; called once, before `begin`."""
        return ()

    @abstractmethod
    def begin(self, searches: Sequence[TaskSearch]) -> None:
        """Takes all tasks of the run, whose state it reads from then on."""

    def resized_s(self, search: TaskSearch) -> Mapping[float, float]:
        """Latency in seconds of the same layer at other sizes that earlier runs tuned.

        Its keys are distances from these sizes: sums of the powers of two between the extents of the loops.
        """
        return {}

    @abstractmethod
    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """The next round for a searcher; None where it should wait or nothing is left.

        Args:
            preferred: tasks that are free, and that this searcher or none knows.
            others: free tasks that another busy searcher knows: this one would read their design spaces and
                replay what was measured anew.
        """

    @abstractmethod
    def share_done(self) -> float:
        """Share of the planned rounds that is done, in [0, 1]."""
