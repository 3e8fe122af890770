"""Interface of groupings, which divide the tasks of a run into families with a common surrogate or budget."""

from __future__ import annotations

from typing import Protocol

from ...compiler.task import Task


class Grouping(Protocol):
    """Static analysis of one task; no measurement is needed (FamilySeer, section 5.1)."""

    def __call__(self, task: Task) -> str:
        """Name of the task's family. Tasks with equal names belong to one family."""
