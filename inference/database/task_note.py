"""Notes of a tuning database about one task, in the form that bundles carry.

This module does not import TVM, so that a bundle can be shown in an instant.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskNote:
    """Facts about one task that are no schedules."""

    workload_hash: str
    name: str = ""
    """Name of the task; "" in notes of earlier versions."""
    ended: str = ""
    """Reason why its complete search found no schedule, or ""."""
    left: str = ""
    """Reason why the last run left it without a schedule, or ""; a later run may search on."""
    untuned_s: float | None = None
    """Latency in seconds without a schedule; None if nobody measured it or it does not run."""
    untuned_fails: bool = False
    """Whether it was measured without a schedule and does not run."""
    parent: str = ""
    """Workload whose programs its search began with, or ""."""
    parent_name: str = ""

    @property
    def decided(self) -> str:
        """Reason why the network runs the task without a schedule, or ""."""
        return self.ended or self.left
