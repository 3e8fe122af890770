"""Measurement on a Ray cluster: one actor a device, each with a local executor inside."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tvm.target import Target

from ..hardware import Hardware, cpu_name, cuda_name
from ..records import FailureKind
from ..tvm_compat import target_cores, target_to_json
from .config import ExecutorConfig, ExecutorConfigError
from .job import MeasureConfig, MeasureJob, MeasureOutcome
from .process import START_TIMEOUT_S, WorkerStartError
from .ray_connection import connect

# Candidates that an actor gets at once: what its death makes another measure again.
_BATCH = 16
# How many actors may die with a candidate in hand before it counts as what killed them.
_DEATHS_ALLOWED = 2
_POLL_S = 1.0
_MESSAGE_CHARS = 500
# How long to wait for an actor without a word; one takes seconds to start.
_SILENT_S = 10.0

log = logging.getLogger(__name__)


class _Device:
    """The actor. Arguments and results are JSON, as everywhere between processes."""

    def __init__(self, config: str, target: str, measure: str, workers: int | None) -> None:
        from . import make_executor

        built_for = Target(json.loads(target))
        self.on_cuda = built_for.kind.name == "cuda"
        self.executor = make_executor(
            ExecutorConfig(**json.loads(config)), built_for, MeasureConfig(**json.loads(measure)), workers
        )

    def introduce(self) -> tuple[int, str, int]:
        """Its process, the name of its device, and how far it gives way to other processes."""
        name = cuda_name() if self.on_cuda else cpu_name()
        return os.getpid(), name, os.getpriority(os.PRIO_PROCESS, 0)

    def hardware(self) -> str:
        return self.executor.hardware().to_json()

    def measure(self, jobs: str) -> str:
        outcomes = self.executor.measure([MeasureJob(**job) for job in json.loads(jobs)])
        return json.dumps([asdict(outcome) for outcome in outcomes])


@dataclass(eq=False)
class _Seat:
    """The place of one device: an actor on a node, and the reference that resolves once it is up."""

    index: int
    node: str
    actor: Any
    starting: ray.ObjectRef
    pid: int | None = None


class _Call:
    """The candidates of one call of `measure`: those that wait, and what came back by their number."""

    def __init__(self, jobs: Sequence[MeasureJob]) -> None:
        self.jobs = jobs
        self.outcomes: dict[int, MeasureOutcome] = {}
        self._waiting = deque(range(len(jobs)))
        self._deaths: Counter[int] = Counter()
        self._best_s: dict[str, float] = {}

    @property
    def done(self) -> bool:
        return len(self.outcomes) == len(self.jobs)

    def next_batch(self, device: int, devices_up: set[int]) -> list[int]:
        """Numbers of the next candidates for a device; one that asks for a device that is away takes any."""
        fitting = [number for number in self._waiting if self._wants(number, devices_up) in (None, device)]
        share = math.ceil(len(fitting) / len(devices_up))
        batch = fitting[: min(_BATCH, share)]
        for number in batch:
            self._waiting.remove(number)
        return batch

    def _wants(self, number: int, devices_up: set[int]) -> int | None:
        wanted = self.jobs[number].device
        return wanted if wanted in devices_up else None

    def to_json(self, batch: Sequence[int]) -> str:
        """The jobs of a batch, with the best latencies that are known by now."""
        jobs = []
        for number in batch:
            job = self.jobs[number]
            best_s = min(job.best_latency_s, self._best_s.get(job.task, math.inf))
            jobs.append(asdict(replace(job, best_latency_s=best_s, device=None)))
        return json.dumps(jobs)

    def accept(self, batch: Sequence[int], reply: str, device: int) -> None:
        """Notes what an actor replied; of two results of a candidate the first counts."""
        for number, fields in zip(batch, json.loads(reply), strict=True):
            failure = fields["failure"] and FailureKind(fields["failure"])
            changed = {"run_secs": tuple(fields["run_secs"]), "failure": failure, "device": device}
            outcome = self.outcomes.setdefault(number, MeasureOutcome(**{**fields, **changed}))
            task = self.jobs[number].task
            self._best_s[task] = min(self._best_s.get(task, math.inf), outcome.latency_s)

    def bereave(self, batch: Sequence[int], reason: str, device: int) -> None:
        """Has the candidates of a dead actor wait again, but for those that outlived too many."""
        self._deaths.update(batch)
        for number in reversed(batch):
            if self._deaths[number] <= _DEATHS_ALLOWED:
                self._waiting.appendleft(number)
            else:
                self.outcomes[number] = MeasureOutcome(
                    failure=FailureKind.WORKER_DIED, message=reason[:_MESSAGE_CHARS], device=device
                )


class RayExecutor:
    """Spreads candidates over actors, each of which owns a device: a GPU, or the target's cores of a node.

    An actor that dies is retired and another one takes its seat, on any node with room; what it held is
    measured elsewhere. Nodes whose device has another name than the first are left out, as all records are
    stored under one description. `measure` may be called from several threads.
    """

    batches_overlap = True

    def __init__(
        self, config: ExecutorConfig, target: Target, measure: MeasureConfig, workers: int | None
    ) -> None:
        self.config = config
        self._kind = target.kind.name
        self._cores = target_cores(target)
        inner = replace(config, kind="local", devices=None)
        self._actor_arguments = (
            json.dumps(asdict(inner)),
            target_to_json(target),
            json.dumps(asdict(measure)),
        )
        self._workers = workers
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            connect(config.address)
        self._lock = threading.Lock()
        self._seats: dict[int, _Seat] = {}
        self._start_error = ""
        self._device_name = ""
        self._left_out: set[str] = set()
        self._told_of_niceness = False
        self.devices = min(self._wait_for_room(), config.devices or sys.maxsize)
        self._fill_seats()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for seat in self._seats.values():
            ray.kill(seat.actor)
        self._seats.clear()
        if self._owns_cluster and ray.is_initialized():
            ray.shutdown()

    @property
    def actor_pids(self) -> list[int]:
        """Processes of the actors that are up."""
        return [seat.pid for seat in self._seats.values() if seat.pid is not None]

    def hardware(self) -> Hardware:
        """Asks an actor; raises WorkerStartError where none comes up."""
        while True:
            seat = self._wait_for_seats()[0]
            try:
                return Hardware.from_json(ray.get(seat.actor.hardware.remote()))
            except RayActorError:
                self._retire(seat)

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """One outcome a job, in order; raises WorkerStartError where no actor is up for too long."""
        call = _Call(jobs)
        in_flight: dict[ray.ObjectRef, tuple[_Seat, list[int]]] = {}
        while not call.done:
            busy = {seat for seat, _ in in_flight.values()}
            up = self._up() if busy else self._wait_for_seats()
            devices_up = {seat.index for seat in up}
            for seat in up:
                if seat not in busy and (batch := call.next_batch(seat.index, devices_up)):
                    in_flight[seat.actor.measure.remote(call.to_json(batch))] = seat, batch
            for reference in ray.wait(list(in_flight), timeout=_POLL_S)[0]:
                self._receive(call, reference, *in_flight.pop(reference))
        return [call.outcomes[number] for number in range(len(jobs))]

    def _receive(self, call: _Call, reference: ray.ObjectRef, seat: _Seat, batch: list[int]) -> None:
        try:
            call.accept(batch, ray.get(reference), seat.index)
        except RayActorError as error:
            log.warning(
                "executor=ray: the actor of device %d died; %d candidates that it held are measured again",
                seat.index,
                len(batch),
            )
            self._retire(seat)
            call.bereave(batch, str(error), seat.index)
        except RayTaskError as error:
            raise WorkerStartError(f"Ray actor on node {seat.node}: {error}") from error

    def _wait_for_seats(self) -> list[_Seat]:
        """The actors that are up, once there is one; raises WorkerStartError."""
        started = time.monotonic()
        patience_s, told = START_TIMEOUT_S + self.config.wait_s, False
        while not (up := self._up()):
            waited_s = time.monotonic() - started
            if waited_s > patience_s:
                raise WorkerStartError(
                    f"executor=ray: no actor came up ({self._why_none()}); `ray status` shows the nodes"
                )
            if waited_s > _SILENT_S and not told:
                log.info(
                    "executor=ray: waiting for an actor (%s), %g s at most", self._why_none(), patience_s
                )
                told = True
            time.sleep(_POLL_S / 10)
        return up

    def _why_none(self) -> str:
        """Why no actor is up."""
        with self._lock:
            starting = len(self._seats)
        return self._start_error or (f"{starting} starting" if starting else "no node has room for one")

    def _up(self) -> list[_Seat]:
        """The actors that are up at this moment; seats that fell empty are filled where there is room."""
        self._fill_seats()
        with self._lock:
            starting = [seat for seat in self._seats.values() if seat.pid is None]
        for seat in starting:
            if ray.wait([seat.starting], timeout=0)[0]:
                try:
                    self._welcome(seat, *ray.get(seat.starting))
                except RayError as error:
                    reason = str(error).strip().splitlines()[-1]
                    if reason != self._start_error:  # it is tried again and again
                        log.warning("executor=ray: the actor on node %s did not start: %s", seat.node, reason)
                    self._start_error = reason
                    self._retire(seat)
        with self._lock:
            return [seat for _, seat in sorted(self._seats.items()) if seat.pid is not None]

    def _welcome(self, seat: _Seat, pid: int, device_name: str, niceness: int) -> None:
        """Gives an actor that is up its jobs, or leaves its node out where its device is another."""
        self._device_name = self._device_name or device_name
        if device_name == self._device_name:
            seat.pid = pid
            if niceness > max(0, os.getpriority(os.PRIO_PROCESS, 0)) and not self._told_of_niceness:
                self._told_of_niceness = True
                log.warning(
                    "executor=ray: actors run at niceness %d and give way to all that runs on their nodes; "
                    "start Ray there with RAY_worker_niceness=0 in its environment",
                    niceness,
                )
            return
        self._start_error = f"node {seat.node} is a {device_name}, not a {self._device_name} as the first"
        log.warning("executor=ray: %s; it is left out, as a run has one kind of device", self._start_error)
        self._left_out.add(seat.node)
        self._retire(seat)

    def _retire(self, seat: _Seat) -> None:
        """Empties a seat for good: Ray would go on queueing for a dead actor."""
        with self._lock:
            if self._seats.get(seat.index) is seat:
                del self._seats[seat.index]
                ray.kill(seat.actor)

    def _fill_seats(self) -> None:
        with self._lock:
            empty = [index for index in range(self.devices) if index not in self._seats]
            if not empty:
                return
            room = _rooms(self._kind, self._cores)
            room.subtract(seat.node for seat in self._seats.values())
            for node in self._left_out:
                del room[node]
            for index, node in zip(empty, room.elements(), strict=False):
                self._seats[index] = self._new_seat(index, node)

    def _new_seat(self, index: int, node: str) -> _Seat:
        on_cuda = self._kind == "cuda"
        options = ray.remote(_Device).options(
            num_cpus=1 if on_cuda else self._cores,
            num_gpus=1 if on_cuda else 0,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        workers = self._workers or (_cores_a_gpu(node) if on_cuda else None)
        actor: Any = options.remote(*self._actor_arguments, workers)
        return _Seat(index, node, actor, actor.introduce.remote())

    def _wait_for_room(self) -> int:
        """How many devices the cluster has, once there is one; raises ExecutorConfigError."""
        deadline = time.monotonic() + self.config.wait_s
        while not (devices := sum(_rooms(self._kind, self._cores).values())):
            if time.monotonic() > deadline:
                wanted = "a GPU" if self._kind == "cuda" else f"{self._cores} CPU cores"
                raise ExecutorConfigError(
                    f"executor=ray executor.address={self.config.address}: no node with {wanted} within "
                    f"{self.config.wait_s:g} s; `ray status` shows the nodes"
                )
            time.sleep(_POLL_S)
        return devices


def _rooms(kind: str, cores: int) -> Counter[str]:
    """How many devices each living node has: its GPUs, or one where the target's cores are."""
    found: Counter[str] = Counter()
    for node in ray.nodes():
        if node["Alive"]:
            resources = node["Resources"]
            gpus = int(resources.get("GPU", 0))
            # Two programs timed on one node would disturb each other, however many cores it has.
            found[node["NodeID"]] = gpus if kind == "cuda" else int(resources.get("CPU", 0) >= cores)
    return found


def _cores_a_gpu(node: str) -> int:
    """A node's CPU cores, shared out to the actors of its GPUs for compiling."""
    resources = next(found["Resources"] for found in ray.nodes() if found["NodeID"] == node)
    return max(1, int(resources.get("CPU", 1) / resources["GPU"]))
