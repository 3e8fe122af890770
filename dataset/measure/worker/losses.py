"""Processes that something outside of their work killed, such as a lack of memory."""

from __future__ import annotations

import threading

from .process import WorkerLostError, WorkerStartError, killed_message

KILLS_ALLOWED = 2
"""Times that a request is repeated after its process was killed. Then the request is the likely cause."""

_KILLS_IN_A_ROW = 3
"""Kills without any answer in between after which processes are not started again."""


class WorkersKilledError(WorkerStartError):
    """Worker processes are killed one after another, whatever they do."""


class Losses:
    """Kills of a run's processes in a row; thread-safe.

    Processes that are killed together count once.
    """

    def __init__(self) -> None:
        self._row = 0
        self._last = 0.0
        self._lock = threading.Lock()

    def killed(self, lost: WorkerLostError) -> None:
        """Counts a process if something killed it; raises WorkersKilledError if it is one too many."""
        if lost.killed is None:
            return
        with self._lock:
            if lost.killed.started_at < self._last:
                return  # started before the last counted kill, so both may have one cause
            self._row += 1
            self._last = lost.at
            if self._row < _KILLS_IN_A_ROW:
                return
            self._row = 0
        cause = f"{lost}, {_KILLS_IN_A_ROW} times in a row"
        raise WorkersKilledError(killed_message(lost.killed.spec, cause))

    def answered(self) -> None:
        """Counts an answer of any process."""
        with self._lock:
            self._row = 0
