"""Conversion between tasks and their rows in a dataset."""

from __future__ import annotations

import json
from pathlib import Path

import tvm

from ...compiler.task import Task
from .schema import TaskRow
from .store import RecordStore


def stored_rows(folder: Path) -> list[TaskRow]:
    """Tasks of a dataset in the order of writing; raises StoreError if a shard cannot be read."""
    return RecordStore(folder).require().require_intact().tasks()


def task_row(task: Task) -> TaskRow:
    """Row of a task in a dataset."""
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
    """Task of a row, the inverse of `task_row` except for the weight, which is 1."""
    return Task(
        name=row.name,
        mod=tvm.ir.load_json(row.tir),
        weight=1,
        source=row.source,
        operator=row.operator,
        settings=json.loads(row.settings),
        flops=row.flops,
    )
