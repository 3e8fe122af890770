"""An outlook in the terminal."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from ...page import Column, Table
from ...terminal import print_table
from ...wording import MISSING, counted, duration, part_of, significant, verb
from .content import NetworkOutlook, TaskOutlook


def print_outlook(outlook: NetworkOutlook, console: Console) -> None:
    """Prints the task table, sorted by share of operations, then sentences about the network."""
    print_table(tasks_table(outlook), console)
    for line in summary(outlook):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def tasks_table(outlook: NetworkOutlook) -> Table:
    """A row for each task."""
    tasks = sorted(outlook.tasks, key=lambda task: -task.share_of_operations)
    heads = (
        Column("Task", text=True),
        Column("Operator", text=True, drop=2),
        Column("Weight", drop=1),
        Column("Operations"),
        Column("Database", text=True),
        Column("Tuned ms"),
        Column("Predicted ms"),
    )
    return Table(f"{outlook.network} on {outlook.hardware}", heads, [_cells(task) for task in tasks])


def summary(outlook: NetworkOutlook) -> list[str]:
    """Sentences about the network as a whole."""
    total = len(outlook.tasks)
    known = sum(task.tuned_latency_s is not None for task in outlook.tasks)
    families = Counter(task.family for task in outlook.tasks)
    shared = ", ".join(f"{name} {count}" for name, count in families.most_common() if count > 1)
    kinds = f"{counted(total, 'task')} of {counted(len(families), 'family', 'families')}"
    have = f"{part_of(known, total, 'task')} {verb(known or total, 'has', 'have')} a schedule"
    lines = [kinds + (f": {shared}" if shared else "")]
    lines += [f"{have} in {outlook.database}" if outlook.database else f"{have}: there is no database yet"]
    if outlook.checkpoint:
        lines.append(
            f"predicted: the best of {counted(outlook.programs, 'program')} of a task drawn at random, by "
            f"{outlook.checkpoint}; a search finds faster ones"
        )
    if not outlook.due:
        lines.append("nothing is left to tune")
    elif outlook.estimate is None:
        lines.append(
            f"{counted(outlook.due, 'task')} to tune; the time is not known for this search and device"
        )
    else:
        found = outlook.estimate
        lines.append(
            f"{counted(outlook.due, 'task')} to tune: about {duration(found.middle_s)} of search and "
            f"measurement, {duration(found.least_s)} to {duration(found.most_s)} ({found.basis}), in "
            "addition to compiling and timing"
        )
    return lines


def _cells(task: TaskOutlook) -> list[str]:
    return [
        task.name,
        task.operator,
        f"{task.weight}",
        f"{task.share_of_operations:.1%}",
        task.state,
        _milliseconds(task.tuned_latency_s),
        _milliseconds(task.predicted_latency_s),
    ]


def _milliseconds(seconds: float | None) -> str:
    return MISSING if seconds is None else significant(1e3 * seconds)
