"""Other work of the machine while an advice measures, which slows its programs down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from ...deploy.timing import DISTURBED_CORES
from ...deploy.turn import Meter

LEAST_S = 0.5
"""Shortest time that is judged, in seconds: the counters have a resolution of 10 ms."""


class OtherWork:
    """Compares the CPU time of all processes with that of this process and its children."""

    def __init__(self) -> None:
        self._meter = Meter()
        self.just_now = False
        """Whether other work disturbed the latest time that was watched."""
        self.ever = False
        """Whether other work disturbed any of these times."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches a block in which programs are timed."""
        clock, _, busy, _ = self._meter.read()
        own_s = _tree_s()
        try:
            yield
        finally:
            later, _, busy_later, _ = self._meter.read()
            wall_s, others_s = later - clock, (busy_later - busy) - (_tree_s() - own_s)
            self.just_now = wall_s >= LEAST_S and others_s > DISTURBED_CORES * wall_s
            self.ever |= self.just_now


def _tree_s() -> float:
    """CPU seconds of this process, its descendants, and those of them that ended and were waited for."""
    this = psutil.Process()
    total = 0.0
    for process in [this, *this.children(recursive=True)]:
        with suppress(psutil.Error):  # it may just have ended, and then counts with its parent
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total
