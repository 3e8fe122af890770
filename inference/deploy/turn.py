"""One turn of a timing: a primed and repeated call, with counters that reveal a disturbance.

A process that runs a network uses this module, which works without TVM.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRIMED_S = 1.0
"""A call that lasts longer than this, in seconds, counts without a priming call."""

_STAT = Path("/proc/stat")
_THREADS = Path("/proc/self/task")
_BUSY = (1, 2, 3, 6, 7, 8)  # user, nice, system, irq, softirq, steal
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_ASLEEP_S, _ASLEEP_SHARE, _ASLEEP_LIMIT_S = 0.005, 0.2, 1.0


@dataclass(frozen=True)
class Turn:
    """Calls of one turn, and the CPU's other activity during the turn."""

    latency_s: float
    """Median latency of the calls."""
    calls: int
    wall_s: float
    """Time from the first priming call to the end of the last call."""
    own_s: float
    """CPU time of the process, summed over its threads."""
    others_s: float
    """CPU time of other processes and other virtual machines on the cores of this process; 0 if the system
    does not report it."""
    waited_s: float
    """Time that ready threads of the process waited for a core; 0 if the system does not report it."""


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


def timed_turn(
    call: Callable[[], Any],
    seconds: float,
    *,
    meter: Meter | None = None,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Turn:
    """Calls once to bring data back into the caches, then for `seconds`, but at least once.

    The threads of this process are asleep at the beginning and at the end: engines let their threads spin
    for a while after a call, on cores that the next contestant needs. `around` is entered around the calls.
    """
    meter = meter or Meter()
    wait_until_asleep()
    with around():
        before = meter.read()
        samples = [_timed(call)]
        if samples[0] <= PRIMED_S:
            samples.clear()
            start = time.perf_counter()
            while not samples or time.perf_counter() - start < seconds:
                samples.append(_timed(call))
        wall_s, own_s, busy_s, waited_s = (now - then for now, then in zip(meter.read(), before, strict=True))
    wait_until_asleep()
    return Turn(
        latency_s=statistics.median(samples),
        calls=len(samples),
        wall_s=wall_s,
        own_s=own_s,
        others_s=max(busy_s - own_s, 0.0),
        waited_s=max(waited_s, 0.0),
    )


def wait_until_asleep() -> None:
    """Waits until the threads of this process use almost no CPU time, but at most a second."""
    deadline = time.perf_counter() + _ASLEEP_LIMIT_S
    while time.perf_counter() < deadline:
        before = time.process_time()
        time.sleep(_ASLEEP_S)
        if time.process_time() - before < _ASLEEP_SHARE * _ASLEEP_S:
            return


def _timed(call: Callable[[], Any]) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def _waited_s() -> float:
    """Second field of the kernel's `schedstat` in nanoseconds, summed over threads."""
    waited_ns = 0
    for thread in _THREADS.glob("*/schedstat"):
        try:
            waited_ns += int(thread.read_text().split()[1])
        except (OSError, IndexError):  # the thread ended, or the kernel does not count
            continue
    return waited_ns / 1e9
