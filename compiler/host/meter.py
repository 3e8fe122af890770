"""Counters of the cores of this process, which tell whether other work disturbed a measurement."""

from __future__ import annotations

import os
import time
from pathlib import Path

DISTURBED_CORES = 0.25
"""Cores that other processes used during a measurement, or that threads waited for, above which it is
disturbed. On two cores, this was at most 0.16 when they were quiet, and 0.5 to 1 with another busy process,
even at niceness 10."""

_STAT = Path("/proc/stat")
_THREADS = Path("/proc/self/task")
_BUSY = (1, 2, 3, 6, 7, 8)  # user, nice, system, irq, softirq, steal
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Meter:
    """Counters of the cores that this process may use."""

    def __init__(self) -> None:
        self._cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

    def read(self) -> tuple[float, float, float, float]:
        """Seconds: clock, CPU time of this process and of all processes, waiting time of this process."""
        return time.perf_counter(), time.process_time(), self._busy_s(), _waited_s()

    def _busy_s(self) -> float:
        try:
            lines = [line.split() for line in _STAT.read_text().splitlines()]
        except OSError:
            return 0.0
        names = {f"cpu{core}" for core in self._cores}
        ticks = sum(int(words[field]) for words in lines if words and words[0] in names for field in _BUSY)
        return ticks / _TICKS_PER_S


def _waited_s() -> float:
    """Second field of the kernel's `schedstat` in nanoseconds, summed over threads."""
    waited_ns = 0
    for thread in _THREADS.glob("*/schedstat"):
        try:
            waited_ns += int(thread.read_text().split()[1])
        except (OSError, IndexError):  # the thread ended, or the kernel does not count
            continue
    return waited_ns / 1e9
