"""Measurement on a Ray cluster: one actor for each device, with a local executor inside."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tvm.target import Target

from ....compiler.targets import is_cuda
from ....compiler.tvm_compat import target_cores, target_to_json
from ...hardware import Hardware, cpu_name, cuda_name
from ..config import ExecutorConfig, ExecutorConfigError
from ..job import MeasureConfig, MeasureJob, MeasureOutcome
from ..machine_errors import DevicesLostError
from ..worker.process import START_TIMEOUT_S, WorkerStartError
from .base import Executor
from .ray_call import RayCall
from .ray_connection import connect, cores_per_gpu, devices_by_node

_POLL_S = 1.0
# Waiting time for an actor before it is logged; starting one takes seconds.
_LOG_AFTER_S = 10.0

log = logging.getLogger(__name__)


class MakeExecutor(Protocol):
    """Function that makes an executor; Ray finds it by its name on the node."""

    def __call__(
        self, config: ExecutorConfig, target: Target, measure: MeasureConfig, workers: int | None = None
    ) -> Executor: ...


class _Device:
    """Ray actor that owns a device; its arguments and results are JSON, as between all processes."""

    def __init__(
        self, make_executor: MakeExecutor, config: str, target: str, measure: str, workers: int | None
    ) -> None:
        built_for = Target(json.loads(target))
        self.on_cuda = is_cuda(built_for)
        self.executor = make_executor(
            ExecutorConfig(**json.loads(config)), built_for, MeasureConfig(**json.loads(measure)), workers
        )

    def describe(self) -> tuple[int, str, int]:
        """Process id, device name and niceness of the actor."""
        name = cuda_name() if self.on_cuda else cpu_name()
        return os.getpid(), name, os.getpriority(os.PRIO_PROCESS, 0)

    def hardware(self) -> str:
        return self.executor.hardware().to_json()

    def measure(self, jobs: str) -> str:
        outcomes = self.executor.measure([MeasureJob(**job) for job in json.loads(jobs)])
        return json.dumps([asdict(outcome) for outcome in outcomes])


@dataclass(eq=False)
class _Slot:
    """Slot of one device: an actor on a node, and the Ray reference that resolves once it has started."""

    index: int
    node: str
    actor: Any
    starting: ray.ObjectRef
    pid: int | None = None


class RayExecutor:
    """Executor over Ray actors, each with a device of its own: a GPU, or the target's cores of a node.

    A dead actor is replaced by a new one on any node with room, and its candidates are measured again. Nodes
    whose device name differs from the first one are excluded, as all records share one hardware description.
    `measure` may be called from several threads.
    """

    batches_overlap = True
    stage_pids: Mapping[str, Sequence[int]] = {}

    def __init__(
        self,
        config: ExecutorConfig,
        target: Target,
        measure: MeasureConfig,
        workers: int | None,
        make_local: MakeExecutor,
    ) -> None:
        """`make_local` makes the executor of a device on its node."""
        self.config = config
        self._kind = target.kind.name
        self._cores = target_cores(target)
        inner = replace(config, kind="local", devices=None)
        self._actor_arguments = (
            make_local,
            json.dumps(asdict(inner)),
            target_to_json(target),
            json.dumps(asdict(measure)),
        )
        self._workers = workers
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            connect(config.address)
        self._lock = threading.Lock()
        self._slots: dict[int, _Slot] = {}
        self._start_error = ""
        self._device_name = ""
        self._excluded_nodes: set[str] = set()
        self._warned_of_niceness = False
        self.devices = min(self._wait_for_devices(), config.devices or sys.maxsize)
        self._start_actors()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for slot in self._slots.values():
            ray.kill(slot.actor)
        self._slots.clear()
        if self._owns_cluster and ray.is_initialized():
            ray.shutdown()

    @property
    def actor_pids(self) -> list[int]:
        """Process ids of the running actors."""
        return [slot.pid for slot in self._slots.values() if slot.pid is not None]

    def hardware(self) -> Hardware:
        """Description of the devices, from a running actor; raises WorkerStartError if none starts."""
        while True:
            slot = self._wait_for_actors()[0]
            try:
                return Hardware.from_json(ray.get(slot.actor.hardware.remote()))
            except RayActorError:
                self._retire(slot)

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """Measure jobs; returns one outcome for each, in order. Raises DevicesLostError without an actor."""
        call = RayCall(jobs)
        try:
            self._complete(call)
        except WorkerStartError as error:
            raise DevicesLostError(str(error), [call.outcomes.get(n) for n in range(len(jobs))]) from error
        return [call.outcomes[number] for number in range(len(jobs))]

    def _complete(self, call: RayCall) -> None:
        in_flight: dict[ray.ObjectRef, tuple[_Slot, list[int]]] = {}
        while not call.done:
            busy = {slot for slot, _ in in_flight.values()}
            up = self._running() if busy else self._wait_for_actors()
            devices_up = {slot.index for slot in up}
            for slot in up:
                if slot not in busy and (batch := call.next_batch(slot.index, devices_up)):
                    in_flight[slot.actor.measure.remote(call.to_json(batch))] = slot, batch
            for reference in ray.wait(list(in_flight), timeout=_POLL_S)[0]:
                self._receive(call, reference, *in_flight.pop(reference))

    def _receive(self, call: RayCall, reference: ray.ObjectRef, slot: _Slot, batch: list[int]) -> None:
        try:
            call.accept(batch, ray.get(reference), slot.index)
        except RayActorError as error:
            log.warning(
                "executor=ray: the actor of device %d died; its %d candidates are measured again",
                slot.index,
                len(batch),
            )
            self._retire(slot)
            call.requeue(batch, str(error), slot.index)
        except RayTaskError as error:
            raise WorkerStartError(f"Ray actor on node {slot.node}: {error}") from error

    def _wait_for_actors(self) -> list[_Slot]:
        """Running actors, after waiting for the first one; raises WorkerStartError after a time-out."""
        started = time.monotonic()
        patience_s, logged = START_TIMEOUT_S + self.config.wait_s, False
        while not (up := self._running()):
            waited_s = time.monotonic() - started
            if waited_s > patience_s:
                raise WorkerStartError(
                    f"executor=ray: no actor started ({self._no_actor_reason()}); check the nodes "
                    "with `ray status`"
                )
            if waited_s > _LOG_AFTER_S and not logged:
                log.info(
                    "executor=ray: waiting for an actor (%s), at most %g s",
                    self._no_actor_reason(),
                    patience_s,
                )
                logged = True
            time.sleep(_POLL_S / 10)
        return up

    def _no_actor_reason(self) -> str:
        """Reason why no actor is running."""
        with self._lock:
            starting = len(self._slots)
        return self._start_error or (f"{starting} starting" if starting else "no node has room for one")

    def _running(self) -> list[_Slot]:
        """Running actors; starts actors in empty slots where nodes have room."""
        self._start_actors()
        with self._lock:
            starting = [slot for slot in self._slots.values() if slot.pid is None]
        for slot in starting:
            if ray.wait([slot.starting], timeout=0)[0]:
                try:
                    self._admit(slot, *ray.get(slot.starting))
                except RayError as error:
                    reason = str(error).strip().splitlines()[-1]
                    if reason != self._start_error:  # log a repeated failure once
                        log.warning("executor=ray: the actor on node %s did not start: %s", slot.node, reason)
                    self._start_error = reason
                    self._retire(slot)
        with self._lock:
            return [slot for _, slot in sorted(self._slots.items()) if slot.pid is not None]

    def _admit(self, slot: _Slot, pid: int, device_name: str, niceness: int) -> None:
        """Accept a started actor, or exclude its node if its device differs."""
        self._device_name = self._device_name or device_name
        if device_name == self._device_name:
            slot.pid = pid
            if niceness > max(0, os.getpriority(os.PRIO_PROCESS, 0)) and not self._warned_of_niceness:
                self._warned_of_niceness = True
                log.warning(
                    "executor=ray: actors run at niceness %d and yield to other processes of their nodes; "
                    "start Ray there with RAY_worker_niceness=0 in its environment",
                    niceness,
                )
            return
        self._start_error = f"node {slot.node} has a {device_name}, the first node a {self._device_name}"
        log.warning("executor=ray: %s; it is excluded, as a run needs devices of one kind", self._start_error)
        self._excluded_nodes.add(slot.node)
        self._retire(slot)

    def _retire(self, slot: _Slot) -> None:
        """Empty a slot and kill its actor, as Ray would continue to queue calls for a dead one."""
        with self._lock:
            if self._slots.get(slot.index) is slot:
                del self._slots[slot.index]
                ray.kill(slot.actor)

    def _start_actors(self) -> None:
        with self._lock:
            empty = [index for index in range(self.devices) if index not in self._slots]
            if not empty:
                return
            free = devices_by_node(self._kind, self._cores)
            free.subtract(slot.node for slot in self._slots.values())
            for node in self._excluded_nodes:
                del free[node]
            for index, node in zip(empty, free.elements(), strict=False):
                self._slots[index] = self._new_slot(index, node)

    def _new_slot(self, index: int, node: str) -> _Slot:
        on_cuda = self._kind == "cuda"
        options = ray.remote(_Device).options(
            num_cpus=1 if on_cuda else self._cores,
            num_gpus=1 if on_cuda else 0,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        workers = self._workers or (cores_per_gpu(node) if on_cuda else None)
        actor: Any = options.remote(*self._actor_arguments, workers)
        return _Slot(index, node, actor, actor.describe.remote())

    def _wait_for_devices(self) -> int:
        """Number of devices in the cluster, after waiting for the first; raises ExecutorConfigError."""
        deadline = time.monotonic() + self.config.wait_s
        while not (devices := sum(devices_by_node(self._kind, self._cores).values())):
            if time.monotonic() > deadline:
                wanted = "a GPU" if self._kind == "cuda" else f"{self._cores} CPU cores"
                raise ExecutorConfigError(
                    f"executor=ray executor.address={self.config.address}: no node with {wanted} within "
                    f"{self.config.wait_s:g} s; check the nodes with `ray status`"
                )
            time.sleep(_POLL_S)
        return devices
