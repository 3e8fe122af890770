"""Times of kernels for dynamic shapes, measured on this machine within a budget."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tvm
from rich.console import Console
from tvm.target import Target

from ...compiler.tvm_compat import runs_here
from ...dataset.measure import Executor, MeasureJob, make_executor
from ...signals import as_interrupted
from ...terminal import say
from ...wording import counted
from ..run.config import TuneConfig


class KernelTimes:
    """Measures kernels until the budget has run out, or Ctrl-C ends the measurements."""

    def __init__(self, executor: Executor, console: Console, budget_s: float | None = None) -> None:
        self._executor, self._console = executor, console
        self._ends_at = None if budget_s is None else time.monotonic() + budget_s
        self._interrupted = False
        self.measured = self.failed = self.left_out = 0

    def __call__(self, modules: Sequence[tvm.IRModule]) -> list[float | None]:
        """Seconds of each module; None for one that failed, and for all of them after the end."""
        over = self._ends_at is not None and time.monotonic() >= self._ends_at
        if not (self._interrupted or over):
            try:
                with self._console.status(f"measuring kernels: {self.measured} so far"):
                    outcomes = self._executor.measure([MeasureJob(tvm.ir.save_json(one)) for one in modules])
            except KeyboardInterrupt as error:
                if as_interrupted(error).number != signal.SIGINT:
                    raise
                self._interrupted = True
            else:
                seconds = [None if one.failure is not None else one.latency_s for one in outcomes]
                failed = seconds.count(None)
                self.failed += failed
                self.measured += len(seconds) - failed
                return seconds
        self.left_out += len(modules)
        return [None] * len(modules)

    def __str__(self) -> str:
        parts = [f"measured {counted(self.measured, 'kernel')}"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.left_out:
            reason = "interruption" if self._interrupted else "end of budget_s"
            parts.append(f"{self.left_out} left to predictions after the {reason}")
        return ", ".join(parts)


@contextmanager
def kernel_times(config: TuneConfig, target: Target, console: Console) -> Iterator[KernelTimes | None]:
    """Function that measures kernels inside the block; None if the settings or the target rule it out."""
    if not config.search.measure or config.executor.kind != "local" or not runs_here(target):
        yield None
        return
    with make_executor(config.executor, target, config.measure, config.workers) as executor:
        times = KernelTimes(executor, console, config.budget_s)
        yield times
    say(console, str(times))
