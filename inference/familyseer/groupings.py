"""Groupings by the operators of a task: FamilySeer's first and third algorithm (section 5.1)."""

from __future__ import annotations

from ...compiler.structure.operator_sequence import operator_sequence
from ...compiler.task import Task


def by_operator_count(task: Task) -> str:
    """Families by the number of operators: FamilySeer's first algorithm."""
    count = len(operator_sequence(task))
    return f"{count} operator" + ("s" if count != 1 else "")


def by_operator_sequence(task: Task) -> str:
    """Families by the sequence of operators: FamilySeer's third algorithm."""
    return " > ".join(operator_sequence(task)) or task.operator
