"""Choice and settings of an executor (config group `executor`)."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UserError

KINDS = ("local", "rpc", "ray", "dry_run", "replay", "none")


class ExecutorConfigError(UserError, ValueError):
    """A setting of the executor is invalid."""


@dataclass(frozen=True)
class ExecutorConfig:
    """Settings of an executor; conf/executor/*.yaml describes each field.

    `local` measures on this machine's CPU or CUDA devices, `rpc` on the servers of a TVM RPC tracker, `ray`
    on the nodes of a Ray cluster. `dry_run` compiles only and simulates latencies. `replay`
    answers with the latencies of a pool. `none` measures nothing.
    """

    kind: str = "local"
    devices: int | None = None
    cuda_compiler: str = "auto"
    host: str = "127.0.0.1"
    port: int = 9190
    key: str = ""
    hardware: str = ""
    session_timeout_s: float = 60.0
    wait_s: float = 60.0
    address: str | None = None
    pool: str = ""

    @property
    def has_device(self) -> bool:
        """Whether latencies come from a device, rather than from simulation or replay."""
        return self.kind in ("local", "rpc", "ray")

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ExecutorConfigError(f"executor={self.kind}: unknown; use one of {', '.join(KINDS)}")
        if self.devices is not None and self.devices < 1:
            raise ExecutorConfigError(f"executor.devices={self.devices}: must be at least 1, or null for all")
        if self.cuda_compiler not in ("auto", "nvcc", "nvrtc"):
            raise ExecutorConfigError(
                f"executor.cuda_compiler={self.cuda_compiler}: unknown compiler; use auto, nvcc or nvrtc"
            )
        for name in ("session_timeout_s", "wait_s"):
            if getattr(self, name) <= 0:
                raise ExecutorConfigError(f"executor.{name}={getattr(self, name)}: must be positive")
        if self.kind == "rpc":
            for name, example in (("key", "rpi4"), ("hardware", "a100")):
                if not getattr(self, name):
                    raise ExecutorConfigError(
                        f"executor.{name} is missing: set it, as in executor.{name}={example}"
                    )
        if self.kind == "replay" and not self.pool:
            raise ExecutorConfigError(
                "executor.pool is missing: set it to a dataset with measured programs, as in "
                "executor.pool=data/networks"
            )
