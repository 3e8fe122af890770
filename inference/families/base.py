"""Interface of groupings, which put the tasks of a run into families that share a surrogate or a budget."""

from __future__ import annotations

from typing import Protocol

from ...compiler.task import Task


class Grouping(Protocol):
    """Static analysis of one task; no measurement is needed (FamilySeer, section 5.1)."""

    def __call__(self, task: Task) -> str:
        """Name of the family: tasks with equal names are of one family."""
