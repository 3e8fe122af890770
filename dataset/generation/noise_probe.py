"""Whether a device was left alone while it measured: a fixed program is timed around every batch.

Whatever else runs on a machine slows what is measured there, and a record does not show it. The probe does:
it always takes the same time on a quiet device.
"""

from __future__ import annotations

import bisect
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, replace

import tvm
from tvm import te
from tvm.s_tir.schedule import Schedule
from tvm.target import Target

from ...errors import UserError
from ..measure import Executor, MeasureJob
from ..tvm_compat import as_task_module, target_cores

# Long enough that waking the threads is a small part of it, short enough to be no part of a batch.
_ELEMENTS_PER_CPU_CORE = 1 << 17
_ELEMENTS_ON_GPU = 1 << 24
_MULTIPLY_ADDS = 64
_THREADS_PER_BLOCK = 256
_VECTOR_LENGTH = 16

_QUIET_QUANTILE = 0.1
_FIRST_PROBES = 5
_MAX_AGE_S = 0.5


class NoiseConfigError(UserError, ValueError):
    """A setting of the noise probe cannot be."""


@dataclass(frozen=True)
class NoiseConfig:
    """When a batch counts as disturbed, and how often it is measured again for that."""

    probe: bool = True
    # Latency of the probe over its latency on the quiet device.
    threshold: float = 1.15
    retries: int = 1

    def __post_init__(self) -> None:
        if self.threshold <= 1:
            raise NoiseConfigError(f"noise.threshold={self.threshold}: must be over 1")
        if self.retries < 0:
            raise NoiseConfigError(f"noise.retries={self.retries}: must not be negative")


class NoiseProbe:
    """Times the reference program on the devices of an executor."""

    def __init__(self, executor: Executor, target: Target) -> None:
        self._executor = executor
        self._job = MeasureJob(tvm.ir.save_json(probe_module(target)), keep_built=True)
        self._history: defaultdict[int, list[float]] = defaultdict(list)
        self._latest: dict[int, tuple[float, float]] = {}

    def ratio(self, device: int) -> float | None:
        """Latency of the reference now over that on the quiet device; None where it could not be timed.

        A probe of less than half a second ago still counts. The quiet latency is a low quantile of this run's
        probes, so that neither a lucky one nor a busy time moves it.
        """
        at, latency_s = self._latest.get(device, (-_MAX_AGE_S, 0.0))
        if time.monotonic() - at > _MAX_AGE_S:
            timed = [self._time(device) for _ in range(1 if self._history[device] else _FIRST_PROBES)][-1]
            if timed is None:
                return None
            latency_s = timed
            self._latest[device] = (time.monotonic(), latency_s)
        history = self._history[device]
        return latency_s / history[int(_QUIET_QUANTILE * (len(history) - 1))]

    def _time(self, device: int) -> float | None:
        """The median of the repeats: it tells of the moment, where the shortest would hide it."""
        (outcome,) = self._executor.measure([replace(self._job, device=device)])
        if outcome.failure is not None:
            return None
        latency_s = statistics.median(outcome.run_secs)
        bisect.insort(self._history[device], latency_s)
        return latency_s


def probe_module(target: Target) -> tvm.IRModule:
    """The reference program: streams through memory and computes in vectors on every core."""
    on_cpu = target.kind.name == "llvm"
    length = _ELEMENTS_PER_CPU_CORE * target_cores(target) if on_cpu else _ELEMENTS_ON_GPU
    data = te.placeholder((length,), "float32", name="data")

    def polynomial(index):
        value = data[index]
        for _ in range(_MULTIPLY_ADDS):
            value = value * data[index] + te.const(0.5, "float32")
        return value

    result = te.compute((length,), polynomial, name="polynomial")
    schedule = Schedule(as_task_module(te.create_prim_func([data, result])))
    (loop,) = schedule.get_loops(schedule.get_sblock("polynomial"))
    if on_cpu:
        cores, _, lanes = schedule.split(loop, [target_cores(target), None, _VECTOR_LENGTH])
        schedule.parallel(cores)
        schedule.vectorize(lanes)
    else:
        blocks, threads = schedule.split(loop, [None, _THREADS_PER_BLOCK])
        schedule.bind(blocks, "blockIdx.x")
        schedule.bind(threads, "threadIdx.x")
    return schedule.mod
