"""Processes that end, or are killed as by a lack of memory."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import psutil
import pytest
from foretune.dataset.measure.worker.process import WorkerProcess


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has ended; its parent may collect it at any moment."""
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def ends(process: psutil.Process, within_s: float = 30) -> bool:
    """Whether a process, which need not be a child of this one, ends in time."""
    deadline = time.monotonic() + within_s
    while not has_ended(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return has_ended(process)


def disappears(pid: int, within_s: float = 30) -> bool:
    """Whether a process ends in time, and its parent collects it."""
    deadline = time.monotonic() + within_s
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not psutil.pid_exists(pid)


def arguments_of(process: psutil.Process) -> list[str]:
    """The command of a process; empty once it has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def kill(pid: int) -> None:
    """Kills a process, and waits for its end."""
    process = psutil.Process(pid)
    process.kill()
    assert ends(process)


def kill_at(monkeypatch: pytest.MonkeyPatch, *operations: str) -> list[str]:
    """Kills the next worker that gets one of these operations, once each; returns the operations to come."""
    left = list(operations)
    send = WorkerProcess.send

    def killing(worker, message):
        if message.get("op") in left:
            left.remove(message["op"])
            os.kill(worker.process.pid, signal.SIGKILL)
        send(worker, message)

    monkeypatch.setattr(WorkerProcess, "send", killing)
    return left
