"""Measurement on emulated CUDA devices, run in a process that has them itself."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import tvm
from foretune.dataset.measure import (
    Executor,
    ExecutorConfig,
    MeasureConfig,
    MeasureJob,
    MeasureOutcome,
    make_executor,
)

from .cuda_emulation.target import TARGET
from .cuda_emulation.workers import worker_environment

CONFIG = MeasureConfig(build_timeout_s=60.0, run_timeout_s=60.0, repeats=1, groups=1)


def cuda_exists(index: int) -> bool:
    """Whether this process has a CUDA device of the number."""
    return bool(tvm.cuda(index).exist)


def device_environment(folder: Path, libraries: Path, devices: int) -> Mapping[str, str]:
    """Variables by which the processes of an executor have devices; what these load is noted in `folder`.

    What they compile stays in `libraries`. The CUDA toolkit is an empty file, as nothing compiles with it.
    """
    toolkit = folder / "toolkit"
    (toolkit / "bin").mkdir(parents=True, exist_ok=True)
    (toolkit / "bin" / "nvcc").touch()
    environment = worker_environment(libraries, devices, folder / "loaded")
    return {**environment, "CUDA_PATH": str(toolkit)}


def loaded(folder: Path) -> list[tuple[int, str]]:
    """Process and program of each load of a program by a device, in order."""
    log = folder / "loaded"
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    pairs = (line.split() for line in lines if line.endswith("\n"))
    return [(int(process), program) for process, program in pairs]


def loads(folder: Path) -> list[int]:
    """Numbers of loads of the programs, ascending."""
    return sorted(Counter(program for _, program in loaded(folder)).values())


@contextmanager
def killed_at_first_load(folder: Path, victim: Callable[[], int]) -> Iterator[None]:
    """Kills a process as soon as a device has loaded a program."""

    over = threading.Event()

    def kill() -> None:
        while not loaded(folder):
            if over.wait(0.01):
                return
        os.kill(victim(), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


@contextmanager
def _executor(folder: Path, libraries: Path, devices: int) -> Iterator[Executor]:
    with (
        patch.dict(os.environ, device_environment(folder, libraries, devices)),
        make_executor(ExecutorConfig(devices=devices), TARGET, CONFIG, workers=1) as executor,
    ):
        yield executor


def measure(
    folder: Path, libraries: Path, devices: int, batches: Sequence[Sequence[MeasureJob]]
) -> list[MeasureOutcome]:
    """Outcomes of batches on so many devices, each measured by a thread, as the tuner measures tasks."""
    with _executor(folder, libraries, devices) as executor, ThreadPoolExecutor(devices) as threads:
        return [outcome for outcomes in threads.map(executor.measure, batches) for outcome in outcomes]


def measure_and_lose_a_device(
    folder: Path, libraries: Path, devices: int, jobs: Sequence[MeasureJob]
) -> list[MeasureOutcome]:
    """Outcomes of jobs while the process of the device that loads the first program is killed."""
    with (
        _executor(folder, libraries, devices) as executor,
        killed_at_first_load(folder, lambda: loaded(folder)[0][0]),
    ):
        return executor.measure(jobs)
