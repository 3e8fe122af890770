"""Registry of groupings: name to function.

A grouping of one's own is a function from a task to the name of its family, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...compiler.task import Task
from ..reuse.conditions import UnreadableOperatorError, operator_of
from ..search.settings_checks import OneShotConfigError
from .analysis import core_operator, operator_sequence
from .grouping import Grouping


def by_operator_count(task: Task) -> str:
    """Families by the number of operators: FamilySeer's first algorithm."""
    count = len(operator_sequence(task))
    return f"{count} operator" + ("s" if count != 1 else "")


def by_operator_sequence(task: Task) -> str:
    """Families by the sequence of operators: FamilySeer's third algorithm."""
    return " > ".join(operator_sequence(task)) or core_operator(task)


def by_loop_nest(task: Task) -> str:
    """Families by how the major loops index the buffers, and which of them have one iteration.

    Extents, strides and epilogues do not count. Convolutions of 1x1 and of 3x3 are apart, as are those with
    packed weights or other data types. Tasks whose loops cannot be read go by their core operator. FamilySeer
    has no such grouping.
    """
    try:
        operator = operator_of(task)
    except UnreadableOperatorError:
        return core_operator(task)
    return f"{operator.type} {''.join('1' if extent == 1 else 'n' for extent in operator.extents)}"


GROUPINGS: Mapping[str, Grouping] = {
    "operator_count": by_operator_count,
    "core_operator": core_operator,
    "operator_sequence": by_operator_sequence,
    "loop_nest": by_loop_nest,
    "one": lambda task: "all tasks",
    "each": lambda task: task.workload_hash,
}
"""Groupings by name; "one" and "each" are the ends between which the others lie."""


def check_grouping(name: str) -> None:
    """Raises OneShotConfigError for a name that no grouping has."""
    if name not in GROUPINGS:
        raise OneShotConfigError(f"families={name}: unknown; use one of {', '.join(GROUPINGS)}")


def family_of(task: Task, grouping: str) -> str:
    """Name of a task's family; raises OneShotConfigError for an unknown grouping."""
    check_grouping(grouping)
    return GROUPINGS[grouping](task)


def families(tasks: Sequence[Task], grouping: str | Callable[[Task], str]) -> dict[str, list[Task]]:
    """Tasks by family, in their order."""
    found: dict[str, list[Task]] = {}
    for task in tasks:
        name = family_of(task, grouping) if isinstance(grouping, str) else grouping(task)
        found.setdefault(name, []).append(task)
    return found
