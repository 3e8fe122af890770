"""Worker process as seen by its owner: start, requests, and loss after a crash or time-out."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing import Pipe
from typing import Any

from tvm.target import Target

from ....compiler.host.memory_kills import out_of_memory_kills, tells_of_no_memory
from ....compiler.host.warm import Child, start_warm
from ....compiler.tvm_compat import target_cores, target_to_json
from ....errors import UserError
from ...records.schema import FailureKind
from ..job import MeasureConfig

START_TIMEOUT_S = 120.0
START_ATTEMPTS = 3

_TORCH = "torch"
"""TVM imports torch if available, which accounts for most of the time and half of the memory of its start."""


class WorkerStartError(UserError, RuntimeError):
    """A worker process could not be started, or its device is missing."""


class WorkerLostError(Exception):
    """The worker died or timed out during a request.

    `killed` is the worker if something outside of the request ended it, such as a lack of memory. `at` is the
    time of this error, of `time.monotonic`.
    """

    def __init__(self, kind: FailureKind, message: str, killed: WorkerProcess | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.killed = killed
        self.at = time.monotonic()


@dataclass(frozen=True)
class WorkerSpec:
    """Description of a worker process: a role of `module` for a target, in an environment."""

    role: str
    target: Target
    config: MeasureConfig
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    start_timeout_s: float = START_TIMEOUT_S
    start_attempts: int = START_ATTEMPTS
    # Module to run, which calls `worker.main`.
    module: str = "foretune.dataset.measure.worker.main"
    # Whether the process may import torch; measuring does not need it.
    torch: bool = False
    # Whether such processes share their imports.
    shares_imports: bool = True
    # Settings with which a run needs less memory for such processes.
    thrift: str = "workers=1"


def host_spec(role: str, target: Target, config: MeasureConfig) -> WorkerSpec:
    """Description of a process that measures on this machine's CPU. All of them share their imports."""
    cores = str(target_cores(target))
    environment = {"TVM_NUM_THREADS": cores, "OMP_NUM_THREADS": cores}
    return WorkerSpec(role, target, config, environment=environment)


class WorkerProcess:
    """Worker process and the connection to it; `ready` after its first message."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.connection, theirs = Pipe()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.started_at = time.monotonic()
        self._killed_before = out_of_memory_kills()
        self.process: Child = start_warm(
            spec.module,
            theirs.fileno(),
            self.errors,
            without="" if spec.torch else _TORCH,
            environment=spec.environment,
            forked=spec.shares_imports,
        )
        theirs.close()
        self.ready = False
        self.send(
            {
                "role": spec.role,
                "target": target_to_json(spec.target),
                "config": asdict(spec.config),
                "settings": dict(spec.settings),
            }
        )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_ready(self) -> None:
        """Wait until the process is ready; raises WorkerStartError if it does not start."""
        if not self.ready:
            try:
                self.receive_ready(self.spec.start_timeout_s)
            except WorkerLostError as gone:
                message = self.start_failure_message(str(gone), killed=gone.killed is not None)
                raise WorkerStartError(message) from gone

    def receive_ready(self, timeout_s: float) -> None:
        """Receive the message that the process is ready; raises WorkerLostError."""
        reply = self.receive(timeout_s, FailureKind.BUILD_TIMEOUT)
        if reply:
            raise WorkerLostError(
                FailureKind.WORKER_DIED, reply.get("error") or reply.get("lost", "not ready")
            )
        self.ready = True

    def start_failure_message(self, reason: str, *, killed: bool = False) -> str:
        if killed:
            return killed_message(self.spec, reason)
        if reason.startswith("no ") and reason.endswith(" device"):
            step = "`nvidia-smi` shows the devices; run the same command again once it is back"
        else:
            step = f"`{sys.executable} -c 'import tvm'` shows whether TVM starts"
        return f"measuring process ({self.spec.role}): {reason}; {step}"

    def send(self, message: Mapping[str, Any]) -> None:
        # The next receive detects a dead worker and reports the cause.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(json.dumps(message).encode())

    def receive(self, timeout_s: float, on_timeout: FailureKind) -> dict[str, Any]:
        """Reply to the pending request.

        Raises WorkerLostError if the worker died, timed out or got no memory; the caller replaces it.
        """
        if not self.connection.poll(timeout_s):
            raise WorkerLostError(on_timeout, f"no answer within {timeout_s:g} s")
        try:
            reply: dict[str, Any] = json.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionResetError, OSError):
            raise self.lost() from None
        if tells_of_no_memory(error := str(reply.get("error", ""))):
            message = f"out of memory ({error.strip().splitlines()[-1]})"
            raise WorkerLostError(FailureKind.WORKER_DIED, message, killed=self)
        return reply

    def kill(self) -> None:
        """Kill the process and its children, such as a running compiler."""
        self.process.kill_group()
        self.connection.close()
        self.errors.close()

    def lost(self) -> WorkerLostError:
        """The way in which the process, which has ended, was lost."""
        code = self.process.wait()
        cause = f"killed by signal {-code}" if code < 0 else f"exited with code {code}"
        self.errors.seek(0)
        tail = self.errors.read().decode(errors="replace").strip()[-500:]
        killed = -code in (signal.SIGKILL, signal.SIGTERM)
        if killed and not tail:
            cause += self._likely_cause(-code)
        killed = killed or tells_of_no_memory(tail)
        message = f"{cause}: {tail}" if tail else cause
        return WorkerLostError(FailureKind.WORKER_DIED, message, killed=self if killed else None)

    def _likely_cause(self, number: int) -> str:
        """Why something killed the process: certain only if the kernel counts a process without memory."""
        now, before = out_of_memory_kills(), self._killed_before
        if number != signal.SIGKILL:
            return ""
        if now is not None and before is not None and now > before:
            return ", out of memory as the kernel says"
        return ", probably out of memory"


def existing_pids(workers: Iterable[WorkerProcess]) -> list[int]:
    """Process ids of the workers that exist; one that is starting may not."""
    return [worker.process.pid for worker in workers if worker.process.exists]


def killed_message(spec: WorkerSpec, cause: str) -> str:
    """Message for the user after something has killed processes again and again."""
    kind = "measuring" if spec.role == "host" else spec.role
    return (
        f"{kind} process: {cause}; free some memory, or add {spec.thrift}, which needs less: the same "
        "command continues from what is stored"
    )
