"""Measurement on the servers of a TVM RPC tracker: compiled locally, uploaded and timed remotely."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from ....compiler.codegen.linker import linker
from ....compiler.targets import is_cpu
from ....compiler.tvm_compat import available_cores
from ...hardware import described_hardware
from ..config import ExecutorConfig, ExecutorConfigError
from ..job import MeasureConfig
from ..worker.bench import Bench
from ..worker.process import START_TIMEOUT_S, WorkerSpec
from ..worker.roles import DeviceLostError, Role, StaleSessionError
from ..worker.toolchain import compiler_environment
from .pipeline import Pipeline

_POLL_S = 0.5
_CONNECT_TIMEOUT_S = 5.0


class RpcDevice(Role):
    """Role that times libraries on one server; settings are host, port, key and session_timeout_s.

    A session serves many candidates. It is renewed before its time-out, at which the server would kill a
    running program; this time-out also frees a server from a program that hangs.
    """

    def prepare(self) -> None:
        """Wait for a free server and open a session."""
        settings = self.settings
        tracker = tvm.rpc.connect_tracker(settings["host"], settings["port"])
        self._session = tracker.request(
            settings["key"], session_timeout=settings["session_timeout_s"], max_retry=1
        )
        self._renew_at = time.monotonic() + settings["session_timeout_s"] - self.config.run_timeout_s
        kind = self.target.kind.name
        device = self._session.device("cpu" if is_cpu(self.target) else kind, 0)
        if not device.exist:
            raise RuntimeError(f"the server of key {settings['key']} has no {kind} device")
        self.bench = Bench(device, self.config, remote=True)
        self._bench_is_new = True

    def time(
        self, artefact: dict[str, Any], best_latency_s: float, expected: str | None, keep: bool
    ) -> dict[str, Any]:
        """Upload a library and time it; `keep` has no effect, as sessions are renewed."""
        if time.monotonic() > self._renew_at and not self._bench_is_new:
            self._end_session()
            raise StaleSessionError
        self._bench_is_new = False
        path = Path(artefact["library"])
        try:
            self._session.upload(str(path), path.name)
            library = self._session.load_module(path.name)
            try:
                return self.bench.measure(library, artefact["buffers"], best_latency_s, expected)
            finally:
                del library
                self._session.remove(path.name)
        except Exception as error:
            if not self._connected():
                raise DeviceLostError(f"the RPC server went away: {error}") from error
            raise

    def _connected(self) -> bool:
        try:
            return bool(self.bench.device.exist) and self._session.listdir("") is not None
        except Exception:
            return False

    def _end_session(self) -> None:
        # The server accepts no other client while this process holds references to the session.
        del self.bench, self._session


def make_rpc_executor(
    config: ExecutorConfig, target: Target, measure: MeasureConfig, workers: int | None
) -> Pipeline:
    """Create an executor over the servers registered by a key; raises UserError."""
    linker(target)  # an architecture that this machine links no libraries for is refused
    if config.session_timeout_s <= measure.run_timeout_s:
        raise ExecutorConfigError(
            f"executor.session_timeout_s={config.session_timeout_s:g}: must be greater than "
            f"measure.run_timeout_s={measure.run_timeout_s:g}"
        )
    description = described_hardware(config.hardware, target)
    servers = _wait_for_servers(config)
    device = WorkerSpec(
        "rpc_device",
        target,
        measure,
        settings={
            "host": config.host,
            "port": config.port,
            "key": config.key,
            "session_timeout_s": config.session_timeout_s,
        },
        start_timeout_s=START_TIMEOUT_S + max(config.wait_s, config.session_timeout_s),
        start_attempts=1,
    )
    compiler = WorkerSpec("compiler", target, measure, compiler_environment(target, config.cuda_compiler))
    return Pipeline(
        measure,
        [compiler] * (workers or available_cores()),
        [device] * min(servers, config.devices or servers),
        lambda: description,
    )


def _wait_for_servers(config: ExecutorConfig) -> int:
    """Number of servers with the key, after waiting for the first; raises ExecutorConfigError."""
    deadline = time.monotonic() + config.wait_s
    while not (servers := _servers(config)):
        if time.monotonic() > deadline:
            missing = "no tracker" if servers is None else f"no server of executor.key={config.key}"
            raise ExecutorConfigError(
                f"executor.host={config.host} executor.port={config.port}: {missing} found within "
                f"{config.wait_s:g} s; start one, as in `python -m tvm.exec.rpc_server --tracker "
                f"{config.host}:{config.port} --key {config.key}`"
            )
        time.sleep(_POLL_S)
    return servers


def _servers(config: ExecutorConfig) -> int | None:
    """Number of servers with the key, None if no tracker answers."""
    try:
        # TVM's client would retry for a minute before it fails.
        socket.create_connection((config.host, config.port), timeout=_CONNECT_TIMEOUT_S).close()
        summary = tvm.rpc.connect_tracker(config.host, config.port).summary()
    except (OSError, RuntimeError):
        return None
    return sum(info["key"] == f"server:{config.key}" for info in summary["server_info"])
