"""Coverage of a run: the fate of its candidates, in total and by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...page import Fact, Table, columns
from ..run.result import TaskResult


def coverage_facts(tasks: Sequence[TaskResult]) -> list[Fact]:
    """The line about the candidates of a run, if anything was searched.

    Older reports lack these counts and give only the candidates scored, measured and failed.
    """
    drafted, tried, proposed, measured, failed = (
        sum(getattr(task, f"candidates_{of}") for task in tasks)
        for of in ("drafted", "tried", "proposed", "measured", "failed")
    )
    rejected = _summed([task.candidates_rejected for task in tasks])
    failures = _summed([task.failures for task in tasks])
    scored = sum(task.candidates_scored for task in tasks)
    if not tried and not measured:
        return []
    counts = {
        "drafted": drafted,
        "tried": tried,
        f"rejected{_causes(rejected)}": sum(rejected.values()),
        "proposed": proposed,
        "scored": scored,
        f"failed{_causes(failures)}": failed,
    }
    known = [f"{count:,} {what}" for what, count in counts.items() if count]
    return [Fact("Candidates", f"{measured:,} measured" if measured else "none measured", ", ".join(known))]


def coverage_table(tasks: Sequence[TaskResult]) -> Table:
    """A row for each searched task."""
    rows = [
        [
            task.name,
            f"{task.candidates_drafted:,}",
            f"{task.candidates_tried:,}",
            f"{sum(task.candidates_rejected.values()):,}{_causes(task.candidates_rejected)}",
            f"{task.candidates_proposed:,}",
            f"{task.candidates_measured:,}",
            f"{task.candidates_failed:,}{_causes(task.failures)}",
        ]
        for task in tasks
        if task.candidates_tried or task.candidates_measured
    ]
    heads = ("Task", "Drafted", "Tried", "Rejected", "Proposed", "Measured", "Failed")
    return Table(
        "Candidates",
        columns(*heads, text=("Rejected", "Failed")),
        rows,
        "The draft model rates drafted candidates by their decisions. The candidates that are tried are "
        "replayed into programs, and are then rejected or proposed. The search selects the proposed programs "
        "that are measured.",
    )


def _summed(counts: Sequence[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for of_task in counts:
        total.update(of_task)
    return total


def _causes(counts: Mapping[str, int]) -> str:
    """The counts in brackets, largest first; empty without counts."""
    listed = ", ".join(f"{n:,} {cause.replace('_', ' ')}" for cause, n in Counter(counts).most_common())
    return f" ({listed})" if listed else ""
