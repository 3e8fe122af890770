"""Worker process that can be paused and replaced: the replacement of a paused process is paused, too."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .process import WorkerProcess, WorkerStartError


class ReplaceableProcess:
    """Current process of a worker; threads may pause, resume and replace it at the same time."""

    def __init__(self, start: Callable[[], WorkerProcess]) -> None:
        """`start` starts a process."""
        self._start = start
        self._pauses = 0
        self._changing = threading.Lock()
        self.current = start()

    @property
    def pid(self) -> int:
        return self.current.process.pid

    def wait_ready(self) -> WorkerProcess:
        """Current process, once it is ready; a process that dies as it starts is replaced, some times.

        Raises WorkerStartError.
        """
        for attempts_left in reversed(range(self.current.spec.start_attempts)):
            try:
                self.current.wait_ready()
                break
            except WorkerStartError:
                if not attempts_left or self.current.alive:  # one that is alive has told what is wrong
                    raise
                self.replace()
        return self.current

    def replace(self) -> None:
        """Kills the process and starts a new one, which is paused if the old one is."""
        with self._changing:
            self.current.kill()
            self.current = self._start()
            if self._pauses:
                self._signal(signal.SIGSTOP)

    def kill(self) -> None:
        self.current.kill()

    def pause(self) -> None:
        """Stops the process until `resume` is called as often as `pause`."""
        with self._changing:
            self._pauses += 1
            if self._pauses == 1:
                self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends a pause."""
        with self._changing:
            self._pauses -= 1
            if not self._pauses:
                self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.current.alive:
            self.current.process.wait_until_tied()
            with contextlib.suppress(ProcessLookupError):  # it may have ended just now
                os.kill(self.pid, number)


@contextmanager
def paused(processes: Sequence[ReplaceableProcess]) -> Iterator[None]:
    """Pauses the processes and their replacements during the block."""
    for process in processes:
        process.pause()
    try:
        yield
    finally:
        for process in processes:
            process.resume()
