"""TVM's thread pool for networks that run in a user's process.

TVM keeps one pool for each thread that calls it. The pool is made at the thread's first parallel program and
never grows: with nothing set it has half of the cores, and each of its threads is bound to a core where the
calling thread may be as well. `PoolOfThread` runs calls on a pool of the wanted size without bound threads.
It leaves the environment as it is, so that processes that start later are not affected.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ...compiler.tvm_compat import available_cores, configure_thread_pool
from ...errors import UserError

_THREADS = Path("/proc/self/task")
_Result = TypeVar("_Result")


class ThreadsError(UserError, ValueError):
    """The process cannot run so many threads at once."""


def process_cores() -> list[int]:
    """Numbers of the cores that this process may use.

    All of its threads are asked: TVM's pool keeps the thread that made it on the cores of the pool.
    """
    if not hasattr(os, "sched_getaffinity") or not _THREADS.exists():
        return list(range(available_cores()))
    cores: set[int] = set()
    for thread in _THREADS.iterdir():
        try:
            cores |= os.sched_getaffinity(int(thread.name))
        except ProcessLookupError:  # it has ended
            continue
    return sorted(cores)


def checked_threads(threads: int | None, tuned: int | None) -> int:
    """Number of threads to run a network with.

    Args:
        threads: as the caller wants; None for as many as the network was tuned for, at most one a core.
        tuned: cores that the network was tuned for, None where that is not known.

    Raises ThreadsError.
    """
    cores = len(process_cores())
    if threads is None:
        return min(tuned or cores, cores)
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= cores:
        raise ThreadsError(
            f"threads={threads!r}: this process may use {cores} cores; give 1 to {cores}, or None for as "
            "many as the network was tuned for"
        )
    return threads


class PoolOfThread:
    """Runs functions where TVM has a pool of `threads` threads that are bound to no core.

    That is the thread that makes this object, if its pool has so many threads or can get them. All other
    threads, and this one if its pool is too small, share one further thread: several pools at a time would
    take the cores from each other.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        at_home = _may_use_all_cores() and _is_configured(threads)
        self._home = threading.get_ident() if at_home else None

    @property
    def in_own_thread(self) -> bool:
        """Whether calls from the thread that made this object run in that thread."""
        return self._home is not None

    def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Calls the function and returns its result."""
        if threading.get_ident() == self._home and _is_configured(self._threads):
            return function(*arguments)
        return _FURTHER_THREAD.submit(_run_configured, self._threads, function, arguments).result()


_state = threading.local()


def _is_configured(threads: int) -> bool:
    """Gives the calling thread's pool `threads` threads; False if it has fewer and so cannot."""
    if getattr(_state, "threads", None) != threads:
        found = configure_thread_pool(threads, process_cores())
        _state.threads = threads if found == threads else None
    return bool(_state.threads == threads)


def _may_use_all_cores() -> bool:
    return not hasattr(os, "sched_getaffinity") or sorted(os.sched_getaffinity(0)) == process_cores()


def _use_all_cores() -> None:
    """Gives the calling thread all cores and a pool that serves any number of threads."""
    cores = process_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)  # of the calling thread alone
    _is_configured(len(cores))


_FURTHER_THREAD = ThreadPoolExecutor(1, "foretune-load", initializer=_use_all_cores)
"""The thread of calls that cannot run where they were made; it starts with the first of them."""


def _run_configured(threads: int, function: Callable[..., _Result], arguments: tuple[Any, ...]) -> _Result:
    _is_configured(threads)
    return function(*arguments)
