"""Progress bar of long jobs."""

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
    """Progress bar with counts, elapsed and remaining time, and further columns."""
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
