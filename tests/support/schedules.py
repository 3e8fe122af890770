"""Databases that hold a schedule without a search."""

from __future__ import annotations

from collections.abc import Iterable

from foretune.compiler.replay import instantiate
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import design_spaces, make_tune_context
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target


def database_of(tasks: Iterable[Task], target: Target) -> ms.Database:
    """A database with a record for each task, see `add_schedules`."""
    database = ms.database.MemoryDatabase()
    add_schedules(database, tasks, target, 1e-3)
    return database


def add_schedules(database: ms.Database, tasks: Iterable[Task], target: Target, latency_s: float) -> None:
    """Adds a record for each task: the first schedule of its design space, with the decisions drawn there."""
    for task in tasks:
        context = make_tune_context(task.mod, target, seed=0)
        (space, *_) = design_spaces(context, task.name)
        candidate = instantiate(context, space.trace, seed=1)
        workload = database.commit_workload(task.mod)
        record = ms.database.TuningRecord(
            candidate.sch.trace, workload, [latency_s], target, candidate.args_info
        )
        database.commit_tuning_record(record)
