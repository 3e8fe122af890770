"""Number of processes and of tasks in progress that keep all cores and devices of a run busy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm.target import Target

from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import available_cores
from ..measure.worker.isolation import realtime_priority_allowed
from .config import GenerateConfig

_ROUNDS_AHEAD = 3
"""Most programs that wait for each compiler: the last ones of a round leave compilers without work."""
_LEAST_SAMPLERS = 2
_BESIDE_TIMING = 2
"""Most sampler processes on a CPU that also times: more of them would only wait for its cores."""


@dataclass(frozen=True)
class Crew:
    """Sampler processes of a run, and tasks in progress on each device.

    `pauses` means that samplers pause while a program is timed.
    """

    samplers: int
    tasks: int
    pauses: bool = False


def plan_crew(config: GenerateConfig, target: Target, devices: int) -> Crew:
    """Choose the numbers for a run; `config.samplers` overrides the number of sampler processes.

    Sampling, building and timing of different tasks overlap. Each sampler needs one task in progress, another
    task has programs being timed, and enough further tasks keep a queue of programs before the compilers. At
    the start of a run all compilers wait for programs, so there are as many samplers as cores if the cores
    are few; later, half as many propose programs faster than the others build them.

    On the CPU that is timed, sampling continues during a timing only if the timing has real-time priority. On
    a Ray cluster of CPUs, which may contain this machine, a task samples between its own measurements.
    """
    cores = available_cores()
    samplers = config.samplers
    if samplers is None:
        samplers = max(min(cores, _LEAST_SAMPLERS), cores // 2)
    kind, on_cpu = config.executor.kind, is_cpu(target)
    if on_cpu and kind == "ray":
        return Crew(min(samplers, devices), 1)
    if on_cpu and kind == "local":
        samplers = min(samplers, _BESIDE_TIMING)
        overlaps = samplers > 0 or realtime_priority_allowed()
        return Crew(samplers, max(samplers, 1) + overlaps, pauses=not realtime_priority_allowed())
    waiting = math.ceil(_ROUNDS_AHEAD * (config.workers or cores) / config.per_round)
    return Crew(samplers, max(2, math.ceil((max(samplers, 1) + waiting + 1) / max(devices, 1))))
