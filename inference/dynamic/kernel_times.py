"""Times of kernels for dynamic shapes: of the tuning database, or measured here within a budget."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import FrameType

import tvm
from rich.console import Console
from tvm.target import Target

from ...compiler.networks.lowering.buildable import Stage
from ...compiler.tvm_compat import runs_here, target_to_json, workload_hash
from ...dataset.hardware.target_hardware import target_hardware
from ...dataset.measure import Executor, MeasureJob, make_executor
from ...signals import as_interrupted
from ...terminal import say
from ...wording import counted
from ..database.folder import DEVICE_FILE, describe_device, hold_open
from ..database.stored_kernel_times import StoredKernelTimes
from ..database.tuning_database import folder_of
from ..database.turns import turn_in
from ..run.config import TuneConfig

MEASURING = "measure kernels"
"""Stage of a run."""


class KernelTimes:
    """Times of kernels that the database has, and of others until the budget has run out, or Ctrl-C.

    Args:
        stored: times of the database, to which new ones are added.
        start: starts the executor, when a kernel has to be measured; None measures nothing.
        budget_s: seconds for measurements; None for no limit.
        stage: a clock's context for the measurements.
    """

    def __init__(
        self,
        stored: StoredKernelTimes,
        start: Callable[[], Executor] | None,
        console: Console,
        budget_s: float | None = None,
        stage: Stage = nullcontext,
    ) -> None:
        self._stored, self._start, self._console, self._stage = stored, start, console, stage
        self._executor: Executor | None = None
        self._ends_at = None if budget_s is None else time.monotonic() + budget_s
        self._measuring = self._interrupted = False
        self.measured = self.failed = self.left_out = self.reused = 0

    def __call__(self, modules: Sequence[tvm.IRModule]) -> list[float | None]:
        """Seconds of each module; None for one that failed, and for unknown ones after the end."""
        kernels = [workload_hash(one) for one in modules]
        missing = {
            kernel: one
            for kernel, one in zip(kernels, modules, strict=True)
            if self._stored.latency_s(kernel) is None
        }
        self.reused += len({*kernels} - missing.keys())
        if missing and self._start is not None:
            self._stored.add(self._measured(missing))
        return [self._stored.latency_s(kernel) for kernel in kernels]

    @contextmanager
    def ending_by_ctrl_c(self) -> Iterator[None]:
        """Lets the first Ctrl-C in the block end the measurements alone, also between two of them.

        Does nothing outside of the main thread.
        """
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def noted(number: int, frame: FrameType | None) -> None:
            if self._measuring or self._interrupted:
                before(number, frame)
            self._interrupted = True

        signal.signal(signal.SIGINT, noted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _measured(self, kernels: Mapping[str, tvm.IRModule]) -> dict[str, float]:
        """Seconds of the kernels that ran, by name."""
        over = self._ends_at is not None and time.monotonic() >= self._ends_at
        if not (self._interrupted or over):
            self._measuring = True
            try:
                status = self._console.status(f"measuring kernels: {self.measured} so far")
                with status, self._stage(MEASURING):
                    jobs = [MeasureJob(tvm.ir.save_json(one)) for one in kernels.values()]
                    outcomes = self._started().measure(jobs)
            except KeyboardInterrupt as error:
                if as_interrupted(error).number != signal.SIGINT:
                    raise
                self._interrupted = True
            else:
                pairs = zip(kernels, outcomes, strict=True)
                seconds = {kernel: one.latency_s for kernel, one in pairs if one.failure is None}
                self.failed += len(kernels) - len(seconds)
                self.measured += len(seconds)
                return seconds
            finally:
                self._measuring = False
        self.left_out += len(kernels)
        return {}

    def _started(self) -> Executor:
        if self._executor is None:
            assert self._start is not None
            self._executor = self._start()
        return self._executor

    def __str__(self) -> str:
        parts = [f"measured {counted(self.measured, 'kernel')}"]
        if self.reused:
            parts.append(f"{self.reused} known from the tuning database")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.left_out:
            reason = "interruption" if self._interrupted else "end of budget_s"
            parts.append(f"{self.left_out} left to predictions after the {reason}")
        return ", ".join(parts)


@contextmanager
def kernel_turn(config: TuneConfig, target: Target, console: Console) -> Iterator[float]:
    """Lets no other run tune into the database during the block, if this one measures kernels.

    Yields the seconds of the wait for another run.
    """
    if not _measures(config, target):
        yield 0.0
        return

    def tell(text: str) -> None:
        say(console, text, "yellow")

    with turn_in(_folder(config, target), tell, "search=no_measurement") as waited_s:
        yield waited_s


@contextmanager
def kernel_times(
    config: TuneConfig, target: Target, console: Console, stage: Stage = nullcontext
) -> Iterator[KernelTimes | None]:
    """Function that has the times of kernels inside the block; `stage` is of `KernelTimes`.

    It is None if the settings or the target rule measurements out and the database has no times.
    """
    if config.executor.kind not in ("local", "none") or not runs_here(target):
        yield None
        return
    measures, folder = _measures(config, target), _folder(config, target)
    stored = StoredKernelTimes(
        folder, tvm.__version__, read_only=not measures, empty=measures and config.retune
    )
    if not (measures or len(stored)):
        yield None
        return
    with ExitStack() as stack:

        def start() -> Executor:
            return stack.enter_context(make_executor(config.executor, target, config.measure, config.workers))

        if measures:
            folder.mkdir(parents=True, exist_ok=True)
        times = KernelTimes(stored, start if measures else None, console, config.budget_s, stage)
        hold_open(times, folder)  # no import changes the folder meanwhile
        with times.ending_by_ctrl_c():
            yield times
        if times.measured and not (folder / DEVICE_FILE).exists():
            with stage(MEASURING):  # which takes seconds
                describe_device(folder, target_to_json(target), target_hardware(target))
    say(console, str(times))


def _measures(config: TuneConfig, target: Target) -> bool:
    return config.search.measure and config.executor.kind == "local" and runs_here(target)


def _folder(config: TuneConfig, target: Target) -> Path:
    """Folder of the database for this target and CPU."""
    return folder_of(config.database, target, target_hardware(target, measured=False))
