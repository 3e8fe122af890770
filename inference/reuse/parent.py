"""Parent of a task: another task whose fast program is reused (ETO: β with S*_β)."""

from __future__ import annotations

from dataclasses import dataclass

from ...compiler.task import Task


@dataclass(frozen=True)
class ReuseParent:
    """Tuned task with a program that guides the search of another task."""

    task: Task
    trace: str
    """Canonical trace (JSON) of a fast program of the task."""
