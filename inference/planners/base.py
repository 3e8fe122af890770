"""Interface of task planners: the next task, its number of programs, and its first candidates."""

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
    """Traces of candidates to measure before all others, such as an adapted program of a parent."""
    parents: tuple[ReuseParent, ...] = ()
    """Programs of other tasks that this task reuses, the most promising first."""
    follows: Task | None = None
    """Task that a child follows: the task of the first parent, or else the task that the child waited for."""
    is_child: bool = False
    """Whether the task reuses other tasks. A later round of a child may name no programs."""
    to_be_continued: bool = False
    """Whether the task stays unfinished after this round, regardless of its number of rounds."""
    templates_alone: bool = False
    """Whether the round does not search if the task has templates."""
    most_templates: int | None = None
    """Maximum number of templates that a round without a search measures; None sets no limit."""
    like: TaskSearch | None = None
    """Alternative with the same loops whose templates were measured, for the first round of an alternative;
    else None."""


class TaskPlanner(ABC):
    """Plans the rounds of all tasks of a run.

    A task of weight 0 is measured, but it is not part of the network.
    """

    @property
    def completes_all(self) -> bool:
        """Whether a finished run leaves every task complete, even a task with few rounds."""
        return False

    def surrogate_group(self, task: Task) -> str:
        """Name of the surrogate that the task shares with other tasks; "" for an unshared surrogate."""
        return ""

    def further_tasks(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Tasks of weight 0 to search in addition to the run's tasks. Called once, before `begin`."""
        return ()

    @abstractmethod
    def begin(self, searches: Sequence[TaskSearch]) -> None:
        """Stores all tasks of the run; the planner reads their state from then on."""

    def resized_s(self, search: TaskSearch) -> Mapping[float, float]:
        """Latency in seconds of the same layer at other sizes, from earlier runs.

        The keys are distances from these sizes: sums of the powers of two between the extents of the loops.
        """
        return {}

    @abstractmethod
    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """Next round for a searcher; None if the searcher should wait or nothing is left.

        Args:
            preferred: free tasks that either this searcher knows or no searcher knows.
            others: free tasks that another, busy searcher knows. This searcher would have to read their
                design spaces and replay their measured candidates again.
        """

    @abstractmethod
    def share_done(self) -> float:
        """Share of the planned rounds that are done, in [0, 1]."""
