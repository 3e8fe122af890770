"""Progress of a generation run: a bar on a terminal, otherwise lines of text."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from rich.console import Console
from typing_extensions import Self

from ...progress import job_progress
from .core_use import IDLE, CoreUse
from .throughput import GenerationClock, per_minute

_UPDATE_EVERY_S = 1.0
_LEAST_SHARE = 0.005


class GenerateProgress:
    """Progress in records, with the rate, the estimated end, and the shares of the stages.

    A thread refreshes the bar, because minutes may pass between two rounds.
    """

    def __init__(
        self,
        console: Console,
        clock: GenerationClock,
        use: CoreUse,
        *,
        total: int,
        devices: int,
        deadline: float,
        most: int | None = None,
    ) -> None:
        """`deadline` is a time of `time.monotonic`; `most` limits the records that the run measures."""
        self._console = console
        self._clock, self._use = clock, use
        self._devices, self._deadline = devices, deadline
        self._most = float("inf") if most is None else most
        self._bar = job_progress(console, "records", self._left_s)
        self._id = self._bar.add_task("", total=total, details=())
        self._started = time.monotonic()
        self._measured = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._bar.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._use.update()
        self._bar.stop()

    def start_task(self, description: str) -> None:
        self._bar.update(self._id, description=description)

    def advance(self, records: int) -> None:
        """Advance without a measurement: for existing records, and for records that a task will not get."""
        self._bar.advance(self._id, records)

    def interrupted(self) -> None:
        """Report Ctrl-C, as the current batch may take a while."""
        self._console.print("interrupted: stopping after the current batch")

    def measured(self, records: int) -> None:
        """Advance by measured records."""
        self._measured += records
        self._bar.advance(self._id, records)

    def _refresh(self) -> None:
        while not self._ended.wait(_UPDATE_EVERY_S):
            self._use.update()
            self._bar.update(self._id, details=self._details())

    def _left_s(self) -> float | None:
        """Seconds to the end, from the rate so far and the limits of the run; None if neither is known."""
        now, left = time.monotonic(), self._bar.tasks[0].remaining or 0.0
        left = min(left, self._most - self._measured)
        at_rate = left * (now - self._started) / self._measured if self._measured else float("inf")
        left_s = min(at_rate, max(0.0, self._deadline - now))
        return None if left_s == float("inf") else left_s

    def _details(self) -> list[str]:
        """Rate, and busy shares of devices and cores."""
        seconds = time.monotonic() - self._started
        device = self._clock.seconds["timing"] / (self._devices * seconds)
        rate = f"{per_minute(self._measured, seconds):.0f}/min"
        return [rate, f"device {min(1.0, device):.0%} busy", cores_text(self._use.shares())]


def cores_text(shares: Mapping[str, float]) -> str:
    """Shares of the cores as text, such as "cores 97% busy (building 61%, sampling 35%)"."""
    busy = sorted((share, name) for name, share in shares.items() if name != IDLE)
    listed = ", ".join(f"{name} {share:.0%}" for share, name in reversed(busy) if share >= _LEAST_SHARE)
    return f"cores {1 - shares.get(IDLE, 1.0):.0%} busy" + (f" ({listed})" if listed else "")
