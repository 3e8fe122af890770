"""Families of kernels of a dynamic network in words: which kernel runs at which sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...page import Table, columns
from ...wording import counted

Task = Mapping[str, Any]
"""Description of a task, as `FamilyTask.as_json` has it."""

PLAIN = "plain"
"""Kind of a task with a plain schedule in place of a family of kernels."""


def tile(member: Mapping[str, Any]) -> str:
    """Rows and columns of a kernel's register tile."""
    return f"{member['rows']}x{member['panels'] * member['width']}"


def first_uses(table: Mapping[str, Any]) -> list[str]:
    """Register tile of each kernel with the size from which it first runs, such as `4x16 from 9`."""
    found: dict[str, str] = {}
    for start, chosen in zip([None, *table["breakpoints"]], table["chosen"], strict=True):
        name = tile(table["members"][chosen])
        found.setdefault(name, name if start is None else f"{name} from {start}")
    return list(found.values())


def _kernels(task: Task, table: Mapping[str, Any]) -> list[str]:
    """The kernels of a table, and the task's kernel of Winograd's algorithm."""
    use = task.get("winograd")
    if not use:
        return first_uses(table)
    size, member = use["kernel"]["tile"], use["kernel"]["member"]
    return [*first_uses(table), f"Winograd F({size}x{size}, 3x3) {tile(member)}"]


def families_table(tasks: Sequence[Task]) -> Table:
    """A row for each table of each task that chooses a kernel by size."""
    titles = ("Task", "Chosen by", "Columns from", "Kernels", "Breakpoints", "Mean regret", "Worst regret")
    rows = [
        [
            str(task["name"]),
            str(task["size"]),
            str(table["least_columns"]),
            ", ".join(_kernels(task, table)),
            str(len(table["breakpoints"])),
            f"{table['regret_mean']:.1%}",
            f"{table['regret_worst']:.1%}",
        ]
        for task in tasks
        for table in task.get("tables") or ()
    ]
    note = (
        "A kernel is named by the rows and columns that it keeps in registers, with the size from which it "
        "first runs; it may run again after further breakpoints. Regret is the predicted time of the chosen "
        "kernel over the time of the best candidate, minus 1: the mean over sizes on a logarithmic scale, "
        "and the worst. Winograd's algorithm runs in place of the other kernels at sizes with enough tiles, "
        "and the regret leaves it out."
    )
    heads = columns(*titles, text=("Chosen by", "Kernels"))
    return Table("Kernels by size", heads, rows, note, remarks=others(tasks))


def others(tasks: Sequence[Task]) -> list[str]:
    """Sentences about the tasks without a table."""
    plain = [task for task in tasks if task["kind"] == PLAIN]
    rest = [task for task in tasks if not task.get("tables") and task["kind"] != PLAIN]
    found = []
    if rest:
        found.append(f"{counted(len(rest), 'further task')}: one kernel for all sizes.")
    if plain:
        found.append(f"{counted(len(plain), 'further task')}: a plain schedule for all sizes.")
    return found
