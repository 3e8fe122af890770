"""The default grouping, and groupings that are not from a paper."""

from __future__ import annotations

from ...compiler.task import Task
from ..reuse.conditions import UnreadableOperatorError, operator_of


def by_core_operator(task: Task) -> str:
    """Families by core operator, the reduction with the most operations (FamilySeer's second algorithm)."""
    return task.operator


def by_loop_nest(task: Task) -> str:
    """Families by how the major loops index the buffers, and by which loops have one iteration.

    Extents, strides and epilogues do not matter. Convolutions of 1x1 and of 3x3 are in different families,
    and so are convolutions with packed weights or other data types. A task with unreadable loops is grouped
    by its core operator.
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
