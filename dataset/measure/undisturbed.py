"""Keeps other work of the machine out of a timing on its CPU."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_THREADS = Path("/proc/self/task")
_REALTIME_SHARE = Path("/proc/sys/kernel/sched_rt_runtime_us")


@contextmanager
def undisturbed() -> Iterator[None]:
    """The calling thread on a core of its own, and every thread of this process ahead of ordinary ones."""
    with own_core(), _ahead_of_others():
        yield


def goes_ahead_of_others() -> bool:
    """Whether `undisturbed` gives programs priority: whether this system and this user may have it."""
    if not _may_be_realtime():
        return False
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, *before)
    return True


@contextmanager
def own_core() -> Iterator[None]:
    """Keeps this thread on the first core.

    TVM binds the other threads of its pool to the cores after the first and lets this one float: it may land
    on a core of theirs and stay for a scheduler tick of 4 ms, which doubles the latency of short programs.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def _ahead_of_others() -> Iterator[None]:
    """Real-time priority where the system allows it, as it does for root.

    A thread of the pool that wakes on a core where something else runs, even at idle priority, may wait for
    the next tick of the scheduler: 0.4 ms became 2.9 ms beside one idle-priority process a core. A real-time
    thread takes the core at once. Linux leaves other work 5 % of the time, so a program that never
    returns can still be killed; where that share is switched off, nothing is changed.

    Afterwards the threads of the pool are at idle priority: they look for work 300,000 times, giving way each
    time, before they sleep, which took a sixth of the machine from the building of the next programs.
    """
    if not _may_be_realtime():
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    _schedule({0, *_other_threads()}, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        _schedule({0}, policy, parameters)
        _schedule(_other_threads(), os.SCHED_IDLE, os.sched_param(0))


def _may_be_realtime() -> bool:
    try:
        return hasattr(os, "SCHED_FIFO") and int(_REALTIME_SHARE.read_text()) >= 0
    except (OSError, ValueError):
        return False


def _other_threads() -> set[int]:
    return {int(thread.name) for thread in _THREADS.iterdir()} - {threading.get_native_id()}


def _schedule(threads: Iterable[int], policy: int, parameters: os.sched_param) -> None:
    for thread in threads:
        # A thread may end meanwhile, and not every user may have real-time threads.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.sched_setscheduler(thread, policy, parameters)
