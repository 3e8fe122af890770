"""Clock for the time that a run spends in each stage."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class StageClock:
    """Seconds by stage, in the order of first entry; thread-safe.

    The time of a nested stage does not count for the enclosing stage, so the stages of a thread add up to its
    elapsed time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._inside = threading.local()
        self.current = ""
        """Innermost stage that was entered last and is not over; empty between stages."""

    @property
    def seconds(self) -> dict[str, float]:
        """Copy of the seconds so far."""
        with self._lock:
            return dict(self._seconds)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of the block to a stage, without the time of nested stages."""
        outer: list[float] | None = getattr(self._inside, "frame", None)
        around, self.current = self.current, name
        frame = self._inside.frame = [0.0]
        self.add({name: 0.0})
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self._inside.frame = outer
            self.current = around
            if outer is not None:
                outer[0] += elapsed
            self.add({name: elapsed - frame[0]})

    def add(self, seconds: Mapping[str, float]) -> None:
        """Adds seconds that were measured elsewhere, for example in another process."""
        with self._lock:
            for name, value in seconds.items():
                self._seconds[name] += value

    def take(self) -> dict[str, float]:
        """Returns the seconds so far and resets the clock."""
        with self._lock:
            taken = dict(self._seconds)
            self._seconds.clear()
            return taken
