"""Summary of a generation run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from ...page import Table, columns
from ...terminal import print_table, say
from ...wording import MISSING, counted, duration, shell_command, verb
from ..records.schema import FailureKind, Record
from .core_use import CoreUse
from .progress import cores_text
from .throughput import GenerationClock, per_minute


@dataclass
class GenerateSummary:
    """Counts of a run; `total_records` and `total_valid` refer to the whole dataset."""

    tasks_done: int = 0
    measured: int = 0
    valid: int = 0
    cut_short: int = 0
    disturbed: int = 0
    simulated: int = 0
    # Records with memory traffic from performance counters, and the reason if traffic was not counted.
    counted: int = 0
    uncounted_reason: str = ""
    # Measurements repeated because the device was disturbed.
    repeated: int = 0
    failures: Counter[FailureKind] = field(default_factory=Counter)
    # Candidates rejected before measurement, by cause.
    rejected: Counter[str] = field(default_factory=Counter)
    # Rows of decisions outside the limits of a GPU, by cause.
    dropped: Counter[str] = field(default_factory=Counter)
    # Names of the tasks with nothing to tune, of those without a valid program, and of those whose sampler
    # failed, with the cause.
    without_space: list[str] = field(default_factory=list)
    without_program: list[str] = field(default_factory=list)
    given_up: dict[str, str] = field(default_factory=dict)
    total_records: int = 0
    total_valid: int = 0
    # Seconds of the whole run, and without its start-up.
    seconds: float = 0.0
    working_s: float = 0.0
    # Seconds of the processes of each stage, and CPU seconds of this machine's processes.
    stage_s: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    core_shares: dict[str, float] = field(default_factory=dict)
    # Share of the time in which devices ran programs.
    device_share: float = 0.0
    interrupted: int = 0
    """Number of the signal that interrupted the run, 0 without one."""
    out_of_time: bool = False
    full: bool = False
    """Whether the run measured as many records as `max_records` allows."""

    def count(self, records: Sequence[Record]) -> None:
        """Add records measured in this run."""
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

    def used(self, clock: GenerationClock, use: CoreUse, devices: int) -> None:
        """Take over the times of the run without its start-up."""
        self.stage_s = dict(clock.seconds)
        self.cpu_s, self.core_shares, self.working_s = use.cpu_s(), use.shares(), use.seconds
        if self.working_s > 0 and devices:
            self.device_share = min(1.0, self.stage_s["timing"] / (devices * self.working_s))

    @property
    def records_per_minute(self) -> float:
        """Rate over the whole run, including its start."""
        return per_minute(self.measured, self.seconds)


def print_summary(summary: GenerateSummary, dataset: Path, console: Console) -> None:
    """Print counts, rates by stage and the next step."""
    say(
        console,
        f"measured {counted(summary.measured, 'candidate')} ({summary.valid:,} valid) of "
        f"{counted(summary.tasks_done, 'task')} in {duration(summary.seconds)}, "
        f"{summary.records_per_minute:.0f} per minute",
    )
    if summary.measured:
        print_table(_stage_table(summary), console)
        if summary.core_shares:
            say(
                console,
                f"{cores_text(summary.core_shares)}; devices {summary.device_share:.0%} busy; "
                f"{sum(summary.cpu_s.values()) / summary.measured:.2f} CPU seconds per record",
            )
    _print_troubles(summary, console)
    valid = f"{summary.total_valid:,} valid"
    say(console, f"{dataset} holds {counted(summary.total_records, 'record')}, {valid}")
    say(console, _next_step(summary, dataset))


def _print_troubles(summary: GenerateSummary, console: Console) -> None:
    """Print what failed, was left out, or was disturbed."""
    for text, counts in (
        ("failed", {kind.value: count for kind, count in summary.failures.items()}),
        ("rejected before measurement", summary.rejected),
        ("decisions outside the limits of the GPU", summary.dropped),
    ):
        if counts:
            listed = ", ".join(f"{count:,} {name}" for name, count in Counter(counts).most_common())
            say(console, f"{text}: {listed}")
    if summary.failures[FailureKind.WRONG_OUTPUT]:
        say(
            console,
            "programs computed wrong outputs; see their records, and do not trust TVM's schedules of "
            "these tasks",
            "red",
        )
    if summary.repeated or summary.disturbed:
        say(
            console,
            f"the machine was disturbed: {counted(summary.repeated, 'measurement')} repeated, "
            f"{counted(summary.disturbed, 'record')} marked",
        )
    if summary.counted:
        programs = counted(summary.counted, "program")
        say(console, f"performance counters measured the memory traffic of {programs}")
    elif summary.measured and summary.uncounted_reason:
        say(console, f"memory traffic was not counted: {summary.uncounted_reason}")
    if summary.simulated:
        which = f"{counted(summary.simulated, 'record')} {verb(summary.simulated, 'is', 'are')}"
        say(console, f"{which} simulated: no device measured them", "yellow")
    if summary.without_space:
        without = len(summary.without_space)
        which = f"{counted(without, 'task')} without a design space {verb(without, 'was', 'were')}"
        say(console, f"{which} skipped")
    if summary.without_program:
        say(
            console,
            f"{_named(summary.without_program)} without a valid program: no draw passed TVM's checks "
            "for the target; leave them out, or draw more with a larger "
            "program_sampling.evolutionary.population_size",
            "yellow",
        )
    for cause, names in _names_by_cause(summary.given_up).items():
        again = f"run the same command again to try {verb(len(names), 'it', 'them')} once more"
        say(console, f"{_named(names)} given up ({cause}): {again}", "yellow")


def _named(names: Sequence[str]) -> str:
    """Number of tasks with the name of the first."""
    return f"task {names[0]}" if len(names) == 1 else f"{len(names)} tasks ({names[0]}, ...)"


def _names_by_cause(given_up: Mapping[str, str]) -> dict[str, list[str]]:
    causes: dict[str, list[str]] = {}
    for name, cause in given_up.items():
        causes.setdefault(cause.splitlines()[-1], []).append(name)
    return causes


def _stage_table(summary: GenerateSummary) -> Table:
    """Seconds and share of each stage, and the record rate that it alone would allow."""
    total = sum(summary.stage_s.values())
    rows = [
        [
            *(name, f"{seconds:.1f}", f"{seconds / total:.1%}" if total else MISSING),
            f"{per_minute(summary.measured, seconds):.0f}" if seconds else MISSING,
        ]
        for name, seconds in summary.stage_s.items()
    ]
    return Table("", columns("stage", "seconds", "share", "records per minute alone"), rows)


def _next_step(summary: GenerateSummary, dataset: Path) -> str:
    if summary.interrupted:
        return "interrupted: run the same command again to continue"
    if summary.out_of_time:
        return "the time is up: run the same command again to continue"
    if summary.full:
        return "max_records is reached: run the same command again to continue"
    if summary.simulated:
        return f"next: {shell_command('foretune', 'dataset', 'inspect', dataset)}"
    return f"next: {shell_command('foretune', 'train', f'dataset={dataset}')}"
