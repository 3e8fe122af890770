"""What a generation run did, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..records import FailureKind, Record
from .throughput import per_minute


@dataclass
class GenerateSummary:
    """Counts of a run, at its end or on the way; `total_records` and `total_valid` are of the dataset."""

    tasks_done: int = 0
    tasks_without_space: int = 0
    measured: int = 0
    valid: int = 0
    cut_short: int = 0
    disturbed: int = 0
    simulated: int = 0
    # Records with bytes read from performance counters, and why there are none.
    counted: int = 0
    not_counted_because: str = ""
    # Measurements made once more because the device was disturbed.
    repeated: int = 0
    failures: Counter[FailureKind] = field(default_factory=Counter)
    # Candidates that were no valid program, by what refused them; they are not measured.
    refused: Counter[str] = field(default_factory=Counter)
    total_records: int = 0
    total_valid: int = 0
    seconds: float = 0.0
    stage_s: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False
    out_of_time: bool = False

    def count(self, records: Sequence[Record]) -> None:
        """Adds records that this run has measured."""
        valid = sum(record.failure is None for record in records)
        self.measured += len(records)
        self.valid += valid
        self.total_records += len(records)
        self.total_valid += valid
        self.cut_short += sum(record.cut_short for record in records)
        self.disturbed += sum(record.disturbed for record in records)
        self.simulated += sum(record.simulated for record in records)
        self.counted += sum(record.moved_bytes is not None for record in records)
        self.failures.update(record.failure for record in records if record.failure)

    @property
    def records_per_minute(self) -> float:
        """Over the whole run, its start included."""
        return per_minute(self.measured, self.seconds)


def print_summary(summary: GenerateSummary, dataset: Path, console: Console) -> None:
    """Prints counts, the rate by stage and what to do next."""
    console.print(
        f"measured {summary.measured} candidates ({summary.valid} valid) of {summary.tasks_done} tasks in "
        f"{summary.seconds:.0f} s, {summary.records_per_minute:.0f} a minute"
    )
    if summary.measured:
        console.print(_stage_table(summary))
    for text, counts in (
        ("failed", {kind.value: count for kind, count in summary.failures.items()}),
        ("refused before measurement", summary.refused),
    ):
        if counts:
            listed = ", ".join(f"{count} {name}" for name, count in Counter(counts).most_common())
            console.print(f"{text}: {listed}")
    if summary.failures[FailureKind.WRONG_OUTPUT]:
        console.print(
            "[red]programs computed wrong outputs; their records say which, and TVM's schedules of those "
            "tasks are not to be trusted"
        )
    if summary.repeated or summary.disturbed:
        console.print(
            f"the machine was disturbed: {summary.repeated} measurements repeated, "
            f"{summary.disturbed} records marked"
        )
    if summary.counted:
        console.print(f"performance counters told what {summary.counted} programs fetch from memory")
    elif summary.measured and summary.not_counted_because:
        console.print(
            f"what programs fetch from memory was not counted: {summary.not_counted_because}", highlight=False
        )
    if summary.simulated:
        console.print(f"[yellow]{summary.simulated} records are simulated: no device measured them")
    if summary.tasks_without_space:
        console.print(f"{summary.tasks_without_space} tasks have nothing to tune and were left out")
    console.print(f"{dataset} holds {summary.total_records} records, {summary.total_valid} valid")
    console.print(_next_step(summary, dataset))


def _stage_table(summary: GenerateSummary) -> Table:
    """Seconds and share of each stage, and the rate that it alone would allow."""
    table = Table("stage", "seconds", "share", "records a minute by itself")
    for column in table.columns[1:]:
        column.justify = "right"
    total = sum(summary.stage_s.values())
    for name, seconds in summary.stage_s.items():
        rate = f"{per_minute(summary.measured, seconds):.0f}" if seconds else "-"
        table.add_row(name, f"{seconds:.1f}", f"{seconds / total:.1%}" if total else "-", rate)
    return table


def _next_step(summary: GenerateSummary, dataset: Path) -> str:
    if summary.interrupted:
        return "interrupted: run the same command again to go on"
    if summary.out_of_time:
        return "the time is up: run the same command again to go on"
    if summary.simulated:
        return f"next: foretune-dataset inspect {dataset}"
    return f"next: foretune-train dataset={dataset}"
