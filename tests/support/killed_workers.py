"""Worker processes that are killed when they get their work, as by a lack of memory."""

from __future__ import annotations

import os
import signal

import pytest
from foretune.dataset.measure.worker.process import WorkerProcess


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
