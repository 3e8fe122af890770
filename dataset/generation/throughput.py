"""Time of a run by stage, and record rates."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..measure import MeasureOutcome

STAGES = ("sampling", "building", "timing", "probing", "storing")


class GenerationClock:
    """Seconds by stage, summed over all threads of a run."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._lock = threading.Lock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the duration of the block to a stage."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._add(name, time.monotonic() - start)

    def measured(self, outcomes: Sequence[MeasureOutcome]) -> None:
        """Add the times that the programs of a batch took to build and to time."""
        self._add("building", sum(outcome.build_s for outcome in outcomes))
        self._add("timing", sum(outcome.run_s for outcome in outcomes))

    def shares(self) -> dict[str, float]:
        """Fraction of each stage in the total time."""
        total = sum(self.seconds.values())
        return {name: seconds / total if total else 0.0 for name, seconds in self.seconds.items()}

    def _add(self, name: str, seconds: float) -> None:
        with self._lock:
            self.seconds[name] += seconds


def per_minute(count: int, seconds: float) -> float:
    """Rate per minute, 0 if `seconds` is 0."""
    return 60.0 * count / seconds if seconds > 0 else 0.0
