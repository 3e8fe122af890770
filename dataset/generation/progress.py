"""Progress of a generation run: a bar on a terminal, otherwise one line a minute."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import TextColumn
from typing_extensions import Self

from ..progress import job_progress
from .throughput import StageClock, per_minute

_LINE_EVERY_S = 60.0


class GenerateProgress:
    """Progress in records, with the rate and the time shares of the stages."""

    def __init__(self, console: Console, clock: StageClock, total: int) -> None:
        self._console = console
        self._clock = clock
        self._bar = job_progress(console, TextColumn("{task.fields[rate]}"))
        self._id = self._bar.add_task("", total=total, rate="")
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start_task(self, description: str) -> None:
        self._bar.update(self._id, description=description)

    def advance(self, records: int) -> None:
        """Advance without a measurement: for existing records, or those that a task will not have."""
        self._bar.advance(self._id, records)

    def interrupted(self) -> None:
        """Report Ctrl-C, as the current batch may take a while."""
        self._console.print("interrupted: stopping after the current batch")

    def measured(self, records: int, in_all: int) -> None:
        """Advance by measured records; `in_all` is the total of this run."""
        now = time.monotonic()
        shares = sorted(self._clock.shares().items(), key=lambda share: -share[1])
        rate = f"{per_minute(in_all, now - self._started):.0f}/min " + ", ".join(
            f"{name} {share:.0%}" for name, share in shares[:3]
        )
        self._bar.update(self._id, advance=records, rate=rate)
        if not self._console.is_terminal and now - self._last_line >= _LINE_EVERY_S:
            self._last_line = now
            shown = self._bar.tasks[0]
            self._console.print(
                f"{shown.description}: {shown.completed:.0f}/{shown.total:.0f} records, {rate}"
            )
