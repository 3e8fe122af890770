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
    """Kills in a row of the processes of one stage; thread-safe.

    Processes that are killed together count once. A single request that has its processes killed does not end
    a run that has had answers, because it may be the cause.
    """

    def __init__(self) -> None:
        self._row: list[object] = []
        """Requests of the kills since the last answer."""
        self._answered = False
        self._last = 0.0
        self._lock = threading.Lock()

    def killed(self, lost: WorkerLostError, request: object = None) -> None:
        """Counts a process if something killed it; raises WorkersKilledError if it is one too many.

        `request` identifies what the process did; None is another request each time.
        """
        if lost.killed is None:
            return
        with self._lock:
            if lost.killed.started_at < self._last:
                return  # started before the last counted kill, so both may have one cause
            self._row.append(object() if request is None else request)
            self._last = lost.at
            if len(self._row) < _KILLS_IN_A_ROW or (self._answered and len(set(self._row)) == 1):
                return
            self._row = []
        cause = f"{lost}, {_KILLS_IN_A_ROW} times in a row"
        raise WorkersKilledError(killed_message(lost.killed.spec, cause))

    def answered(self) -> None:
        """Counts an answer of any process."""
        with self._lock:
            self._row, self._answered = [], True
