"""Tuning from Python: a network with its report, or tasks of your own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tvm
from rich.console import Console
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..compiler.codegen.passes import improve_code
from ..compiler.described_task import described_task
from ..compiler.task import Task
from ..compiler.tvm_compat import NoEntryError, entry_function, parse_target
from ..dataset.measure import ExecutorConfig, MeasureConfig, make_executor
from ..models.checkpoints.shipped import AUTO
from .database.tuning_database import TuningDatabase, folder_of
from .database.turns import turn_in
from .dynamic.result import DynamicResult
from .planners.assembly import reuse_of_run
from .run.config import TuneConfig
from .run.result import TaskResult, TuneResult
from .run.untuned_tasks import with_untuned
from .search.checkpoint_fit import fitting_checkpoint
from .search.config import OneShotConfig, OneShotConfigError
from .search.persistence import Ledger
from .search.tuner import Hooks, NetworkTuner
from .starts.configured import asked_starts
from .surrogate.memory import SurrogateMemory
from .tune import run
from .workers.searchers import alone_on, hold_back, start_searchers

_LOG = logging.getLogger(__name__)


def tune_network(
    network: str | Sequence[str],
    *,
    checkpoint: str | None = AUTO,
    output: str | Path | None = None,
    database: str | Path = "outputs/tuning-database",
    export: str | Path | None = None,
    console: Console | None = None,
    **settings: Any,
) -> TuneResult | DynamicResult:
    """Tunes, compiles, checks and times a network, and writes the report, like `foretune tune`.

    Args:
        network: a known name, `package.module:Factory`, or the path of an ONNX file. A list is a set of
            networks that are tuned together. Several batch sizes (`batch=[1, 16]`) or lists of `inputs` are
            such a set, too.
        checkpoint: name of a shipped checkpoint, or the folder of a checkpoint. "auto" uses the shipped
            checkpoint for the kind of target, None searches without a cost model.
        output: folder of the report, by default `outputs/tune/<name>`; an ONNX file's name is its stem.
        database: folder of the schedules found; tasks in it are not tuned again unless `retune=True`.
        export: file for the tuned network as a shared library; None exports nothing.
        console: console that the run prints to; `Console(quiet=True)` prints nothing.
        settings: other fields of TuneConfig, such as `inputs`, `budget_s` or `search=OneShotConfig(...)`.

    A network of dynamic shapes (`dims={"n": "1:512"}`) has a DynamicResult.

    Raises UserError with a message that explains the remedy. Call it under `if __name__ == "__main__":` or
    from a module that may be imported again.
    """
    config = TuneConfig(
        network=network,
        checkpoint=checkpoint,
        output=None if output is None else Path(output),
        database=Path(database),
        export=None if export is None else Path(export),
        **settings,
    )
    return run(config, console)


def tune_tasks(
    tasks: Sequence[tvm.IRModule | ms.ExtractedTask | Task],
    target: str | Mapping[str, Any] | Target,
    work_dir: str | Path,
    *,
    checkpoint: str | None = AUTO,
    search: OneShotConfig | None = None,
    measure: MeasureConfig | None = None,
    executor: ExecutorConfig | None = None,
) -> tuple[ms.database.Database, list[TaskResult]]:
    """Tunes tasks without a network, such as the tasks of `ms.relax_integration.extract_tasks`.

    Args:
        tasks: modules with one PrimFunc, MetaSchedule's extracted tasks, or tasks of foretune.
        target: a target as in `foretune tune`.
        work_dir: folder of the database; each target and device has its own subfolder.

    Returns:
        A database from which stock TVM compiles (`with target, database: ...`), and a result for each task.

    Raises UserError. Afterwards this process compiles with `improve_code`, as the measurements did.
    """
    improve_code()
    found = parse_target(target)
    settings = (search or OneShotConfig()).for_reuse().fitted(found)
    if not settings.measure:
        raise OneShotConfigError("search.measure=False: tune_tasks measures; use tune_network instead")
    fitting = fitting_checkpoint(checkpoint, found)  # reports a bad checkpoint before any work
    wanted = [as_task(task) for task in tasks]
    where = executor or ExecutorConfig()
    with ExitStack() as stack:
        device = stack.enter_context(make_executor(where, found, measure or MeasureConfig()))
        hardware = device.hardware()
        searchers = start_searchers(settings, found, fitting, hardware, most=len(tasks))
        for searcher in searchers:
            stack.callback(searcher.close)
        stack.enter_context(turn_in(folder_of(Path(work_dir), found, hardware), _LOG.warning))
        database = TuningDatabase(Path(work_dir), found, hardware)
        tuner = NetworkTuner(
            settings,
            device,
            searchers,
            Ledger(
                database,
                settings.rounds,
                memory=SurrogateMemory.of(database.folder, fitting, shared=settings.share_surrogate),
            ),
            planner=reuse_of_run(settings, found, database).planner(),
            start_sources=asked_starts(
                settings,
                found,
                hardware,
                database,
                here=where.kind == "local",
                alone=lambda: alone_on(device),
            ),
            hooks=Hooks(around_measuring=hold_back(settings, device, searchers)),
        )
        results = with_untuned(tuner.tune(wanted), tuner.time_untuned(), {})
    return database.best_schedules([task.workload_hash for task in wanted]), results


def as_task(task: tvm.IRModule | ms.ExtractedTask | Task) -> Task:
    """A task of foretune, read from a module with one PrimFunc.

    The task's function is called `main`, as in MetaSchedule's databases, and keeps its symbol. Raises
    NoEntryError for a module that is not a task.
    """
    if isinstance(task, Task):
        return task
    mod, name, weight = task, "", 1
    if isinstance(task, ms.ExtractedTask):
        mod, name, weight = task.dispatched[0], str(task.task_name), int(task.weight)
    if not isinstance(mod, tvm.IRModule):
        raise NoEntryError(
            f"tasks: {type(mod).__name__} is not a task; pass a tvm.IRModule with one PrimFunc, such as "
            'tvm.IRModule({"main": func})'
        )
    func = entry_function(mod)
    if [var.name_hint for var in mod.get_global_vars()] != ["main"]:
        mod = tvm.IRModule({"main": func})
    return described_task(mod, name, weight)
