"""Tasks as a dataset keeps them, and back."""

from __future__ import annotations

import json
from pathlib import Path

import tvm

from .records import TaskRow
from .store import RecordStore
from .task import Task


def stored_rows(folder: Path) -> list[TaskRow]:
    """Every task of a dataset, in the order of writing; raises StoreError where one cannot be read."""
    return RecordStore(folder).require().require_whole().tasks()


def task_row(task: Task) -> TaskRow:
    """A task as a dataset keeps it."""
    return TaskRow(
        workload_hash=task.workload_hash,
        name=task.name,
        operator=task.operator,
        settings=json.dumps(dict(task.settings), sort_keys=True),
        source=task.source,
        flops=task.flops,
        tir=tvm.ir.save_json(task.mod),
    )


def stored_task(row: TaskRow) -> Task:
    """Inverse of `task_row`, save for the weight that a network gave to the task."""
    return Task(
        name=row.name,
        mod=tvm.ir.load_json(row.tir),
        weight=1,
        source=row.source,
        operator=row.operator,
        settings=json.loads(row.settings),
        flops=row.flops,
    )
