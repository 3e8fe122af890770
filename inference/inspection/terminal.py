"""An outlook in the terminal."""

from __future__ import annotations

from collections import Counter

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...page import significant
from ..report.quantities import duration
from .content import NetworkOutlook, TaskOutlook


def print_outlook(outlook: NetworkOutlook, console: Console) -> None:
    """Prints the task table, the largest share of the operations first, and the sums below it."""
    tasks = sorted(outlook.tasks, key=lambda task: -task.share_of_operations)
    table = Table(title=Text(f"{outlook.network} on {outlook.hardware}"), box=box.SIMPLE)
    table.add_column("Task", no_wrap=True, overflow="ellipsis", max_width=36)
    for title, justify in (("Operator", "left"), ("Weight", "right"), ("Operations", "right")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    table.add_column("Database")
    for title in ("Tuned ms", "Predicted ms"):
        table.add_column(title, justify="right")
    for task in tasks:
        table.add_row(*(Text(cell) for cell in _cells(task)))
    console.print(table)
    for line in summary(outlook):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def summary(outlook: NetworkOutlook) -> list[str]:
    """Sentences about the network as a whole."""
    total = len(outlook.tasks)
    known = sum(task.tuned_latency_s is not None for task in outlook.tasks)
    families = Counter(task.family for task in outlook.tasks)
    shared = ", ".join(f"{name} {count}" for name, count in families.most_common() if count > 1)
    lines = [f"{total} tasks of {len(families)} families" + (f": {shared}" if shared else "")]
    lines += [f"{known} of {total} tasks have a schedule in {outlook.database or 'no database yet'}"]
    if outlook.checkpoint:
        lines.append(
            f"predicted: the best of {outlook.programs} programs of a task drawn at random, by "
            f"{outlook.checkpoint}; a search finds faster ones"
        )
    if not outlook.due:
        lines.append("nothing is left to tune")
    elif outlook.estimate is None:
        lines.append(
            f"{outlook.due} tasks to tune; how long that takes is not known for this search and device"
        )
    else:
        found = outlook.estimate
        lines.append(
            f"{outlook.due} tasks to tune: about {duration(found.middle_s)} of search and measurement, "
            f"{duration(found.least_s)} to {duration(found.most_s)} ({found.basis}); compiling and timing "
            "come on top"
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
    return "-" if seconds is None else significant(1e3 * seconds)
