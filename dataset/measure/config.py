"""Which executor measures, as conf group `executor` says."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UserError

KINDS = ("local", "rpc", "ray", "dry_run")


class ExecutorConfigError(UserError, ValueError):
    """A setting of the executor cannot be."""


@dataclass(frozen=True)
class ExecutorConfig:
    """Where candidates are measured.

    `local` is this machine: its CPU, or its CUDA devices by the target. `rpc` is the servers of a TVM RPC
    tracker, `ray` the nodes of a Ray cluster. `dry_run` compiles only and makes latencies up.
    """

    kind: str = "local"
    # local CUDA, rpc and ray: how many devices at most; None is all that there are.
    devices: int | None = None
    # local CUDA: nvcc, nvrtc, or auto for the first of them that is installed.
    cuda_compiler: str = "auto"
    # rpc: the tracker, and the key its servers are registered by.
    host: str = "127.0.0.1"
    port: int = 9190
    key: str = ""
    # rpc and dry_run: which device it is, a name such as a100; for rpc also a JSON file of a description.
    hardware: str = ""
    # rpc: a server ends a session after so long, which frees it of a program that hangs.
    session_timeout_s: float = 60.0
    # rpc and ray: how long to wait for a device when none is there.
    wait_s: float = 60.0
    # ray: address of a running cluster; None starts one on this machine.
    address: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ExecutorConfigError(f"executor={self.kind}: unknown; use one of {', '.join(KINDS)}")
        if self.devices is not None and self.devices < 1:
            raise ExecutorConfigError(f"executor.devices={self.devices}: must be at least 1, or null for all")
        if self.cuda_compiler not in ("auto", "nvcc", "nvrtc"):
            raise ExecutorConfigError(
                f"executor.cuda_compiler={self.cuda_compiler}: unknown; use auto, nvcc or nvrtc"
            )
        for name in ("session_timeout_s", "wait_s"):
            if getattr(self, name) <= 0:
                raise ExecutorConfigError(f"executor.{name}={getattr(self, name)}: must be positive")
        if self.kind == "rpc":
            for name, example in (("key", "rpi4"), ("hardware", "a100")):
                if not getattr(self, name):
                    raise ExecutorConfigError(
                        f"executor.{name} is missing: give it, as in executor.{name}={example}"
                    )
