"""Samplers of a run: processes that propose programs of several tasks, or this process itself.

A process that dies or hangs loses the samplers of its tasks. It is restarted, and each sampler is recreated
from the measurements so far. A task that loses its sampler twice in a round is given up. If something kills
one process after another, the run ends.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from tvm.target import Target
from typing_extensions import Self

from ...compiler.tvm_compat import NoDesignSpaceError
from ..measure import MeasureConfig
from ..measure.worker.losses import KILLS_ALLOWED, Losses
from ..measure.worker.process import WorkerLostError, WorkerProcess, WorkerSpec, existing_pids
from ..measure.worker.replaceable import ReplaceableProcess, paused
from ..records.schema import FailureKind
from ..sampling.programs.config import ProgramSamplingConfig
from .config import GenerateConfig
from .sampling import SampledRound, SamplingRequest, TaskSampling
from .throughput import GenerationClock

_MODULE = "foretune.dataset.generation.sampling_process"
_ATTEMPTS = 2
_LOOK_EVERY_S = 0.5


class SamplingFailedError(Exception):
    """The sampler of a task failed, or its process was lost as often as allowed."""


class SamplingStoppedError(Exception):
    """The run is ending and does not wait for further rounds."""


class Sampling(Protocol):
    """Sampler of a task."""

    def next_round(self, outcomes: Sequence[Sequence[Any]] = ()) -> SampledRound:
        """See `TaskSampling.next_round`. Raises NoDesignSpaceError, and the errors of this module."""

    def close(self) -> None:
        """Forget the task."""


class Samplers(Protocol):
    """Source of samplers; several threads may use it, one for each task."""

    @property
    def pids(self) -> list[int]:
        """Processes that sample; empty if this process samples."""

    def wait_ready(self) -> None:
        """Wait for the processes to start; raises WorkerStartError."""

    def open(self, request: SamplingRequest) -> Sampling:
        """Sampler of a task, created at its first round."""

    def paused(self) -> contextlib.AbstractContextManager[object]:
        """Context in which no process samples, to keep a timing undisturbed."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def make_samplers(
    processes: int,
    config: GenerateConfig,
    target: Target,
    clock: GenerationClock,
    stopped: Callable[[], bool],
) -> Samplers:
    """Start sampler processes, or sample in this process if `processes` is 0.

    Once `stopped` returns true, nothing waits for further rounds.
    """
    if not processes:
        return InlineSamplers(config.program_sampling, target, clock)
    spec = sampler_spec(config.program_sampling, target)
    return SamplerProcesses(processes, spec, clock, config.sampling_timeout_s, stopped)


def sampler_spec(config: ProgramSamplingConfig, target: Target) -> WorkerSpec:
    """Description of a sampler process; a pretrained scorer imports torch, the process itself does not."""
    return WorkerSpec(
        "sampler",
        target,
        MeasureConfig(),
        environment={"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        settings={"sampling": json.loads(json.dumps(asdict(config), default=str))},
        module=_MODULE,
        torch=config.uses_checkpoint,
        thrift="samplers=1 workers=1",
    )


class InlineSamplers:
    """Samplers in this process."""

    def __init__(self, config: ProgramSamplingConfig, target: Target, clock: GenerationClock) -> None:
        self.pids: list[int] = []
        self._config, self._target, self._clock = config, target, clock

    def wait_ready(self) -> None:
        """Does nothing."""

    def open(self, request: SamplingRequest) -> Sampling:
        return _InlineSampling(self._config, self._target, self._clock, request)

    def paused(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing."""


class _InlineSampling:
    def __init__(
        self, config: ProgramSamplingConfig, target: Target, clock: GenerationClock, request: SamplingRequest
    ) -> None:
        self._made: TaskSampling | None = None
        self._make = lambda: TaskSampling(config, target, request)
        self._clock = clock

    def next_round(self, outcomes: Sequence[Sequence[Any]] = ()) -> SampledRound:
        with self._clock.stage("sampling"):
            self._made = self._made or self._make()
            return self._made.next_round(outcomes)

    def close(self) -> None:
        self._made = None


class SamplerProcesses:
    """Sampler processes; each serves its tasks sequentially."""

    def __init__(
        self,
        processes: int,
        spec: WorkerSpec,
        clock: GenerationClock,
        timeout_s: float,
        stopped: Callable[[], bool],
    ) -> None:
        self._lock = threading.Lock()
        self._numbers = iter(range(2**62))
        losses = Losses()
        self._processes = [_SamplerProcess(spec, losses, clock, timeout_s, stopped) for _ in range(processes)]

    @property
    def pids(self) -> list[int]:
        return existing_pids(process.worker.current for process in self._processes)

    def wait_ready(self) -> None:
        for process in self._processes:
            process.wait_ready()

    def open(self, request: SamplingRequest) -> Sampling:
        """Sampler in the process with the fewest tasks."""
        with self._lock:
            process = min(self._processes, key=lambda process: len(process.tasks))
            key = str(next(self._numbers))
            process.tasks.add(key)
        return _ProcessSampling(process, key, request)

    def paused(self) -> contextlib.AbstractContextManager[object]:
        return paused([process.worker for process in self._processes])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()


class _ProcessSampling:
    """Sampler of a task in a process, with the task's measurements for recreating a lost sampler."""

    def __init__(self, process: _SamplerProcess, key: str, request: SamplingRequest) -> None:
        self._process, self._key, self._request = process, key, request
        self._traces: list[str] = []

    def next_round(self, outcomes: Sequence[Sequence[Any]] = ()) -> SampledRound:
        if outcomes:
            measured = [[trace, *outcome] for trace, outcome in zip(self._traces, outcomes, strict=True)]
            self._request = replace(self._request, earlier=[*self._request.earlier, *measured])
        drawn = self._process.next_round(self._key, self._request, outcomes)
        self._traces = [trace for trace, _ in drawn.proposed]
        return drawn

    def close(self) -> None:
        self._process.close(self._key)


class _SamplerProcess:
    """Process that serves the threads of its tasks in turns."""

    def __init__(
        self,
        spec: WorkerSpec,
        losses: Losses,
        clock: GenerationClock,
        timeout_s: float,
        stopped: Callable[[], bool],
    ) -> None:
        self.tasks: set[str] = set()
        self._losses, self._clock = losses, clock
        self._timeout_s, self._stopped = timeout_s, stopped
        self._turn = threading.Lock()
        self._opened: set[str] = set()
        self.worker = ReplaceableProcess(lambda: WorkerProcess(spec))

    def next_round(
        self, key: str, request: SamplingRequest, outcomes: Sequence[Sequence[Any]]
    ) -> SampledRound:
        """Round of a task; creates the task's sampler if the process has none. Raises WorkersKilledError."""
        losses = kills = 0
        with self._turn:
            while True:
                try:
                    found = SampledRound.from_json(self._round(key, request, outcomes))
                    self._losses.answered()
                    return found
                except WorkerLostError as lost:
                    self._replace()
                    self._losses.killed(lost)
                    losses, kills = losses + (not lost.killed), kills + bool(lost.killed)
                    if losses == _ATTEMPTS or kills > KILLS_ALLOWED:
                        raise SamplingFailedError(f"sampler process: {lost}") from lost

    def _round(self, key: str, request: SamplingRequest, outcomes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        self.wait_ready()
        with self._clock.stage("sampling"):
            if key in self._opened:
                return self._ask({"op": "next_round", "key": key, "outcomes": outcomes})
            self._ask({"op": "open", "key": key, "request": request.to_json()})
            self._opened.add(key)
            return self._ask({"op": "next_round", "key": key, "outcomes": []})

    def close(self, key: str) -> None:
        """Forget a task; does not wait if the run is ending."""
        self.tasks.discard(key)
        if self._stopped():
            return
        with self._turn:
            if key in self._opened:
                self._opened.discard(key)
                with contextlib.suppress(WorkerLostError, SamplingFailedError, SamplingStoppedError):
                    self._ask({"op": "close", "key": key})

    def kill(self) -> None:
        self.worker.kill()

    def wait_ready(self) -> None:
        """Wait for the process to start, several times if it dies; raises WorkerStartError."""
        self.worker.wait_ready()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._check_running()
        process = self.worker.current
        process.send(message)
        deadline = time.monotonic() + self._timeout_s
        while not process.connection.poll(_LOOK_EVERY_S):
            self._check_running()
            if time.monotonic() > deadline:
                raise WorkerLostError(FailureKind.BUILD_TIMEOUT, f"no answer within {self._timeout_s:g} s")
        reply = process.receive(0.0, FailureKind.BUILD_TIMEOUT)
        if "no_space" in reply:
            raise NoDesignSpaceError(reply["no_space"])
        if "error" in reply:
            raise SamplingFailedError(reply["error"])
        return reply

    def _check_running(self) -> None:
        if self._stopped():
            raise SamplingStoppedError

    def _replace(self) -> None:
        self._opened.clear()
        self.worker.replace()
