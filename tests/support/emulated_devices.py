"""Measurement on emulated CUDA devices, run in a process that has them itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from foretune.dataset.measure import ExecutorConfig, MeasureConfig, MeasureJob, MeasureOutcome, make_executor

from .cuda_emulation.workers import worker_environment
from .cuda_programs import TARGET

_WAIT_S = 120.0
CONFIG = MeasureConfig(build_timeout_s=60.0, run_timeout_s=60.0, repeats=1, groups=1)


@contextmanager
def _executor(folder: Path, devices: int) -> Iterator[object]:
    """Executor over emulated devices; its CUDA toolkit is an empty file, as nothing compiles with it."""
    toolkit = folder / "toolkit"
    (toolkit / "bin").mkdir(parents=True, exist_ok=True)
    (toolkit / "bin" / "nvcc").touch()
    environment = worker_environment(folder / "libraries", devices, folder / "loaded")
    with (
        patch.dict(os.environ, {**environment, "CUDA_PATH": str(toolkit)}),
        make_executor(ExecutorConfig(devices=devices), TARGET, CONFIG, workers=1) as executor,
    ):
        yield executor


def measure(folder: Path, devices: int, jobs: Sequence[MeasureJob]) -> tuple[list[MeasureOutcome], list[str]]:
    """Outcomes of jobs on so many devices, and a line for each program that a device loaded."""
    with _executor(folder, devices) as executor:
        return executor.measure(jobs), (folder / "loaded").read_text().splitlines()


def measure_and_lose_a_device(
    folder: Path, devices: int, jobs: Sequence[MeasureJob]
) -> tuple[list[MeasureOutcome], list[MeasureOutcome]]:
    """Outcomes of jobs while the device that loads the first program is killed, and all of them again."""
    log = folder / "loaded"
    with _executor(folder, devices) as executor:

        def kill() -> None:
            until = time.monotonic() + _WAIT_S
            while not log.exists() or "\n" not in log.read_text():
                if time.monotonic() > until:
                    return
                time.sleep(0.01)
            os.kill(int(log.read_text().split()[0]), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        first = executor.measure(jobs)
        killer.join()
        return first, executor.measure(jobs)
