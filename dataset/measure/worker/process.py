"""Worker process as seen by its owner: start, requests, and loss after a crash or time-out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing import Pipe
from typing import Any

from tvm.target import Target

from ....compiler.tvm_compat import target_to_json
from ....errors import UserError
from ...records.schema import FailureKind
from ..job import MeasureConfig

START_TIMEOUT_S = 120.0
START_ATTEMPTS = 3

_WITHOUT_TORCH = "import sys, runpy; sys.modules['torch'] = None; runpy.run_module({!r}, run_name='__main__')"
"""TVM imports torch if available, which accounts for most of the time and half of the memory of its start."""


class WorkerStartError(UserError, RuntimeError):
    """A worker process could not be started, or its device is missing."""


class WorkerLostError(Exception):
    """The worker died or timed out during a request."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


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


class WorkerProcess:
    """Worker process and the connection to it; `ready` after its first message.

    Linux kills the process when the thread that started it ends, so this thread must outlive it.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.connection, theirs = Pipe()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, *_program(spec), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, **spec.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # output of LLVM and of candidates
            stderr=self.errors,
            start_new_session=True,
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
                raise WorkerStartError(self.start_failure_message(str(gone))) from gone

    def receive_ready(self, timeout_s: float) -> None:
        """Receive the message that the process is ready; raises WorkerLostError."""
        reply = self.receive(timeout_s, FailureKind.BUILD_TIMEOUT)
        if reply:
            raise WorkerLostError(
                FailureKind.WORKER_DIED, reply.get("error") or reply.get("lost", "not ready")
            )
        self.ready = True

    def start_failure_message(self, reason: str) -> str:
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
        """Reply to the pending request; raises WorkerLostError if the worker died or timed out."""
        if not self.connection.poll(timeout_s):
            raise WorkerLostError(on_timeout, f"no answer within {timeout_s:g} s")
        try:
            return json.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionResetError, OSError):
            raise WorkerLostError(FailureKind.WORKER_DIED, self._cause_of_death()) from None

    def kill(self) -> None:
        """Kill the process and its children, such as a running compiler."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.connection.close()
        self.errors.close()

    def _cause_of_death(self) -> str:
        code = self.process.wait()
        cause = f"killed by signal {-code}" if code < 0 else f"exited with code {code}"
        self.errors.seek(0)
        tail = self.errors.read().decode(errors="replace").strip()[-500:]
        return f"{cause}: {tail}" if tail else cause


def _program(spec: WorkerSpec) -> list[str]:
    """Arguments that make Python run the worker's module."""
    return ["-m", spec.module] if spec.torch else ["-c", _WITHOUT_TORCH.format(spec.module)]
