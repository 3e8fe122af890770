"""Noise probe: a fixed program, timed around every batch to detect disturbances of a device.

Other work on a machine slows down measurements, and the records do not show it. The probe's latency is
constant whenever its device is quiet.
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

from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import as_task_module, target_cores
from ...errors import UserError
from ..measure import Executor, MeasureJob

# Long enough that waking threads is a small part of the latency, and short compared with a batch.
_ELEMENTS_PER_CPU_CORE = 1 << 17
_ELEMENTS_ON_GPU = 1 << 24
_MULTIPLY_ADDS = 64
_THREADS_PER_BLOCK = 256
_VECTOR_LENGTH = 16

_QUIET_QUANTILE = 0.1
_FIRST_PROBES = 5
_MAX_AGE_S = 0.5


class NoiseConfigError(UserError, ValueError):
    """A setting of the noise probe is invalid."""


@dataclass(frozen=True)
class NoiseConfig:
    """Settings of the noise probe and of repeated measurements; conf/generate.yaml describes the fields."""

    probe: bool = True
    threshold: float = 1.15
    retries: int = 1

    def __post_init__(self) -> None:
        if self.threshold <= 1:
            raise NoiseConfigError(f"noise.threshold={self.threshold}: must be greater than 1")
        if self.retries < 0:
            raise NoiseConfigError(f"noise.retries={self.retries}: must not be negative")


class NoiseProbe:
    """Probe that times a reference program on the devices of an executor."""

    def __init__(self, executor: Executor, target: Target) -> None:
        self._executor = executor
        self._job = MeasureJob(tvm.ir.save_json(probe_module(target)), keep_built=True)
        self._history: defaultdict[int, list[float]] = defaultdict(list)
        self._latest: dict[int, tuple[float, float]] = {}

    def ratio(self, device: int) -> float | None:
        """Current latency of the reference over its quiet latency; None if it could not be timed.

        A result younger than half a second is reused. The quiet latency is a low quantile of all probes of
        the run, which is robust against single fast probes and busy phases.
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
        """Median of the repeats, which shows a disturbance that the minimum would hide."""
        (outcome,) = self._executor.measure([replace(self._job, device=device)])
        if outcome.failure is not None:
            return None
        latency_s = statistics.median(outcome.run_secs)
        bisect.insort(self._history[device], latency_s)
        return latency_s


def probe_module(target: Target) -> tvm.IRModule:
    """Reference program that streams through memory and computes with vectors on every core."""
    on_cpu = is_cpu(target)
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
