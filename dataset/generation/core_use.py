"""Use of this machine's cores by a run: the share of each stage, from the CPU time of its processes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping

import psutil

from ...compiler.tvm_compat import available_cores

OTHER, IDLE = "other", "idle"
"""Shares for the work of this process, such as storing, and for cores without work of the run."""


class CoreUse:
    """CPU seconds by stage since the creation of the object; child processes of a stage count with it.

    `pids` returns the current processes of each stage. Replaced processes keep their count from the last
    `update`. Child processes of the stages in `alone` are other stages, which count themselves.
    """

    def __init__(
        self, pids: Callable[[], Mapping[str, Collection[int]]], alone: Collection[str] = ()
    ) -> None:
        self._alone = {OTHER, *alone}
        self.cores = available_cores()
        self._pids = pids
        self._lock = threading.Lock()
        self._stage_of: dict[int, str] = {}
        self._used: dict[int, float] = {}
        self._before: dict[int, float] = {}
        self._updated = 0.0
        self.update()
        self._before = dict(self._used)
        self._started = self._updated

    def update(self) -> None:
        """Read the CPU times of all processes."""
        stages = {pid: stage for stage, pids in self._pids().items() for pid in pids}
        with self._lock:
            self._stage_of |= {os.getpid(): OTHER, **stages}
            for pid in [os.getpid(), *stages]:
                with contextlib.suppress(psutil.Error):  # it may just have ended
                    seconds = _cpu_seconds(pid, alone=self._stage_of[pid] in self._alone)
                    self._used[pid] = max(self._used.get(pid, 0.0), seconds)
            self._updated = time.monotonic()

    @property
    def seconds(self) -> float:
        """Duration that the shares refer to."""
        return self._updated - self._started

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds by stage."""
        with self._lock:
            used: dict[str, float] = {}
            for pid, seconds in self._used.items():
                stage = self._stage_of[pid]
                used[stage] = used.get(stage, 0.0) + seconds - self._before.get(pid, 0.0)
            return used

    def shares(self) -> dict[str, float]:
        """Share of each stage in the time of all cores, and the share of idle cores; empty at the start."""
        whole = self.cores * self.seconds
        if whole <= 0:
            return {}
        used = {stage: seconds / whole for stage, seconds in self.cpu_s().items()}
        return {**used, IDLE: max(0.0, 1.0 - sum(used.values()))}


def _cpu_seconds(pid: int, *, alone: bool) -> float:
    """CPU seconds of a process and, unless `alone`, of its children that ended and were waited for."""
    times = psutil.Process(pid).cpu_times()
    own = times.user + times.system
    return own if alone else own + times.children_user + times.children_system
