"""Groupings that no paper has, and the default one."""

from __future__ import annotations

from ...compiler.task import Task
from ..reuse.conditions import UnreadableOperatorError, operator_of


def by_core_operator(task: Task) -> str:
    """Families by core operator, the reduction with the most operations (FamilySeer's second algorithm)."""
    return task.operator


def by_loop_nest(task: Task) -> str:
    """Families by how the major loops index the buffers, and which of them have one iteration.

    Extents, strides and epilogues do not count. Convolutions of 1x1 and of 3x3 are apart, as are those with
    packed weights or other data types. Tasks whose loops cannot be read are grouped by their core operator.
    """
    try:
        operator = operator_of(task)
    except UnreadableOperatorError:
        return by_core_operator(task)
    return f"{operator.type} {''.join('1' if extent == 1 else 'n' for extent in operator.extents)}"


def all_in_one(task: Task) -> str:
    """One family of all tasks."""
    return "all tasks"


def each_alone(task: Task) -> str:
    """A family for each task."""
    return task.workload_hash
