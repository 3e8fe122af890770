"""Measurement of candidates in worker processes that survive failing programs.

Executors accept `MeasureJob` objects and return one `MeasureOutcome` for each.
"""

from __future__ import annotations

from importlib.util import find_spec

from tvm.target import Target

from ...compiler.targets import is_cpu, is_cuda
from ...compiler.tvm_compat import missing_instruction_sets
from .config import ExecutorConfig, ExecutorConfigError
from .executors.base import Executor, KeepsObjects
from .executors.pool import WorkerPool
from .job import MeasureConfig, MeasureJob, MeasureOutcome
from .worker.process import WorkerStartError

__all__ = [
    "Executor",
    "ExecutorConfig",
    "ExecutorConfigError",
    "KeepsObjects",
    "MeasureConfig",
    "MeasureJob",
    "MeasureOutcome",
    "WorkerPool",
    "WorkerStartError",
    "check_runs",
    "make_executor",
]


def make_executor(
    config: ExecutorConfig, target: Target, measure: MeasureConfig, workers: int | None = None
) -> Executor:
    """Create the executor named by `config` for programs of `target`.

    `workers` is the number of build processes, by default one per core. Optional dependencies are imported
    only for the executor that needs them. Raises UserError if this machine or a remote end does not meet the
    requirements.
    """
    check_runs(config, target)
    if config.kind == "local" and is_cpu(target):
        return WorkerPool(target, measure, workers)
    if config.kind == "local" and is_cuda(target):
        from .executors.cuda import make_cuda_executor

        return make_cuda_executor(config, target, measure, workers)
    if config.kind == "rpc":
        _require("tornado", config.kind)
        from .executors.rpc import make_rpc_executor

        return make_rpc_executor(config, target, measure, workers)
    if config.kind == "ray":
        _require("ray", config.kind)
        from .executors.ray_cluster import RayExecutor

        return RayExecutor(config, target, measure, workers, make_executor)
    if config.kind == "dry_run":
        from .executors.dry_run import make_dry_run_executor

        return make_dry_run_executor(config, target, measure, workers)
    if config.kind == "replay":
        from .executors.replay import make_replay_executor

        return make_replay_executor(config)
    if config.kind == "none":
        raise ExecutorConfigError(
            "executor=none: nothing is measured without a device; use foretune tune search=no_measurement, "
            "or another executor"
        )
    raise ExecutorConfigError(
        f"executor=local target={target.kind.name}: measures llvm and cuda targets only; use executor=rpc"
    )


def check_runs(config: ExecutorConfig, target: Target) -> None:
    """Raises ExecutorConfigError if programs for this machine's CPU use instructions that it lacks.

    Such an instruction would kill the process.
    """
    if config.kind != "local" or not is_cpu(target):
        return
    if missing := missing_instruction_sets(target):
        raise ExecutorConfigError(
            f"executor=local target={target.attrs.get('mcpu', target.kind.name)}: this machine's CPU lacks "
            f"{', '.join(missing)}; use target=llvm, or an executor that reaches such a CPU, as executor=rpc"
        )


def _require(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise ExecutorConfigError(
            f"executor={extra} needs the package {package}: run `pip install 'foretune[{extra}]'`"
        )
