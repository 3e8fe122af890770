"""Processes and worker threads that keep all cores and devices of a run busy, and the early end of a run."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from tvm.target import Target

from ...compiler.host.interruption import interrupts_recorded, restore_interrupt_handler
from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import available_cores
from ...signals import Interrupted
from ..measure import Executor
from ..measure.executors.pipeline import Pipeline
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


Item = TypeVar("Item")

# Any thread may receive a signal; Python handles it in the main thread, as soon as that thread runs again.
_LOOK_EVERY_S = 0.5


def run_device_workers(
    items: Iterable[Item],
    devices: Sequence[int],
    work: Callable[[Item, int, Event], None],
    on_interrupt: Callable[[], None] = lambda: None,
    stop: Event | None = None,
) -> None:
    """Call `work(item, device, stop)` for every item, in one worker thread per entry of `devices`.

    A single worker runs in the caller's thread. The first exception, including Ctrl-C, sets `stop`, which
    `work` should check between steps; it is raised once all workers have ended. A caller may pass its own
    `stop`. `on_interrupt` is called at the first Ctrl-C, and later ones are ignored until then.
    """
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    stop = stop or Event()

    def worker(device: int, stop: Event = stop) -> None:
        while not stop.is_set():
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            work(item, device, stop)

    if len(devices) == 1:
        worker(devices[0])
        return
    # A signal handler's exception would be lost in code that ignores exceptions, such as a finaliser.
    with interrupts_recorded() as came, ThreadPoolExecutor(len(devices), "device-worker") as threads:
        try:
            working = {threads.submit(worker, device) for device in devices}
            while working:
                done, working = wait(working, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                for ended in done:
                    ended.result()
                restore_interrupt_handler()
                if came:
                    on_interrupt()
                    raise Interrupted(came[0])
        finally:
            stop.set()


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
