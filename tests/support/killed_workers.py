"""Worker processes that are killed, as by a lack of memory."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest
from foretune.dataset.measure.worker.process import WorkerProcess


def kill(pid: int) -> None:
    """Kills a process, and waits for its end; it need not be a child of this process."""
    process = psutil.Process(pid)
    process.kill()
    deadline = time.monotonic() + 30
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
