"""How a long job shows where it is: what it works on, how much is done, how long it will take."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_DESCRIPTION_CHARS = 32


def job_progress(console: Console, *details: ProgressColumn) -> Progress:
    """A bar with counts, elapsed and remaining time, and further columns after them."""
    return Progress(
        TextColumn(f"{{task.description:<{_DESCRIPTION_CHARS}.{_DESCRIPTION_CHARS}}}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        *details,
        console=console,
    )
