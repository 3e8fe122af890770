"""Registry of groupings: name to function.

To add a grouping, write a function from a task to the name of its family, and add one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...compiler.task import Task
from ..search.registry import Registry


class Grouping(Protocol):
    """Static analysis of one task; no measurement is needed (FamilySeer, section 5.1)."""

    def __call__(self, task: Task) -> str:
        """Name of the task's family. Tasks with equal names belong to one family."""


GROUPINGS = {
    "operator_count": "..familyseer.groupings:by_operator_count",
    "core_operator": ".groupings:by_core_operator",
    "operator_sequence": "..familyseer.groupings:by_operator_sequence",
    "loop_nest": ".groupings:by_loop_nest",
    "one": ".groupings:all_in_one",
    "each": ".groupings:each_alone",
}
"""Module and function of each grouping; "one" and "each" are the two extremes."""

_REGISTRY = Registry("families", __package__, GROUPINGS, "unknown; use")


def check_grouping(name: str) -> None:
    """Raises OneShotConfigError for a name that no grouping has."""
    _REGISTRY.check(name)


def family_of(task: Task, grouping: str) -> str:
    """Name of a task's family; raises OneShotConfigError for an unknown grouping."""
    found: Grouping = _REGISTRY.find(grouping)
    return found(task)


def families(tasks: Sequence[Task], grouping: str | Callable[[Task], str]) -> dict[str, list[Task]]:
    """Tasks by family, in their order."""
    found: dict[str, list[Task]] = {}
    for task in tasks:
        name = family_of(task, grouping) if isinstance(grouping, str) else grouping(task)
        found.setdefault(name, []).append(task)
    return found
