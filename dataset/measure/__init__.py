"""Measurement: `MeasureJob` in, `MeasureOutcome` out, by workers that outlive what they measure."""

from __future__ import annotations

from tvm.target import Target

from .config import ExecutorConfig, ExecutorConfigError
from .executor import Executor
from .job import MeasureConfig, MeasureJob, MeasureOutcome
from .pool import WorkerPool, WorkerStartError

__all__ = [
    "Executor",
    "ExecutorConfig",
    "ExecutorConfigError",
    "MeasureConfig",
    "MeasureJob",
    "MeasureOutcome",
    "WorkerPool",
    "WorkerStartError",
    "make_executor",
]


def make_executor(
    config: ExecutorConfig, target: Target, measure: MeasureConfig, workers: int | None = None
) -> Executor:
    """The executor that `config` names, for programs of `target`; `workers` build processes, None one a core.

    Raises UserError where this machine or the other end cannot do it.
    """
    if config.kind == "local" and target.kind.name == "llvm":
        return WorkerPool(target, measure, workers)
    raise ExecutorConfigError(f"executor={config.kind} target={target.kind.name}: not supported")
