"""Early end of a run: programs in progress are still measured, and waiting programs are dropped."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..measure import Executor
from ..measure.executors.pipeline import Pipeline


class EarlyEnd:
    """Whether a run should end: at its deadline, a time of `time.monotonic`, or as soon as `stop` is set."""

    def __init__(self, deadline: float = math.inf) -> None:
        self.deadline = deadline
        self.stop = threading.Event()

    def is_due(self) -> bool:
        return self.stop.is_set() or time.monotonic() > self.deadline

    @contextmanager
    def applied_to(self, executor: Executor) -> Iterator[None]:
        """Tell the executor at the deadline, if it has a queue of programs that it can drop."""
        timer = None
        if math.isfinite(self.deadline):
            timer = threading.Timer(max(0.0, self.deadline - time.monotonic()), give_up_queue, [executor])
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


def give_up_queue(executor: Executor) -> None:
    """Drop the programs that wait for a compiler; executors without such a queue measure small batches."""
    if isinstance(executor, Pipeline):
        executor.stop_waiting()
