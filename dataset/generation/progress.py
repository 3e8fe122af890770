"""What a generation run shows while it goes on: a bar on a terminal, a line a minute anywhere else."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import TextColumn
from typing_extensions import Self

from ..progress import job_progress
from .throughput import StageClock, per_minute

_LINE_EVERY_S = 60.0


class GenerateProgress:
    """Progress in records, with the rate and the shares of the stages."""

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
        """Moves on without a measurement: for records that exist, or that a task will not have."""
        self._bar.advance(self._id, records)

    def interrupted(self) -> None:
        """Tells that Ctrl-C was heard, since the batch in flight may take its time."""
        self._console.print("interrupted: ends with what is being measured")

    def measured(self, records: int, in_all: int) -> None:
        """Moves on by what was just measured; `in_all` by this run."""
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
