"""Where the time of a run goes, and how many records a minute each of its stages would allow."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..measure import MeasureOutcome

STAGES = ("sampling", "building", "timing", "probing", "storing")


class StageClock:
    """Seconds by stage, added up over all threads of a run."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._lock = threading.Lock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of the block to a stage."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._add(name, time.monotonic() - start)

    def measured(self, seconds: float, outcomes: Sequence[MeasureOutcome]) -> None:
        """Splits the time of a batch: what programs did not run was spent on building them."""
        timing_s = min(seconds, sum(outcome.run_s for outcome in outcomes))
        self._add("timing", timing_s)
        self._add("building", seconds - timing_s)

    def shares(self) -> dict[str, float]:
        """Share of each stage in the time of all."""
        total = sum(self.seconds.values())
        return {name: seconds / total if total else 0.0 for name, seconds in self.seconds.items()}

    def _add(self, name: str, seconds: float) -> None:
        with self._lock:
            self.seconds[name] += seconds


def per_minute(count: int, seconds: float) -> float:
    """Rate a minute, 0 where no time went by."""
    return 60.0 * count / seconds if seconds > 0 else 0.0
