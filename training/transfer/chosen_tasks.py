"""Dataset of the chosen tasks without records, to be measured on another device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...dataset.records.schema import TaskRow
from ...dataset.records.store import RecordStore
from ...page import Column, Table
from ...wording import counted, verb
from .recorded_transfer import TransferError


@dataclass(frozen=True)
class ChosenTasks:
    """Folder of tasks, in the order in which they were chosen."""

    folder: Path
    tasks: list[TaskRow]

    def table(self) -> Table:
        """Table with one line per task."""
        heads = [
            Column("task", text=True),
            Column("operator", text=True),
            Column("MFLOP"),
            Column("hash", text=True, whole=True),
        ]
        rows = [
            [task.name, task.operator, f"{task.flops / 1e6:,.1f}", task.workload_hash] for task in self.tasks
        ]
        return Table("Chosen tasks", heads, rows)


def write_tasks(dataset: Path, chosen: Sequence[str], folder: Path) -> ChosenTasks:
    """Copies the chosen tasks of a dataset to `folder`, without records; repeating it changes nothing.

    Raises:
      TransferError: the dataset lacks a chosen task, or the folder contains other tasks.
      StoreError: the folder cannot be written to.
    """
    known = {row.workload_hash: row for row in RecordStore(dataset).require().tasks()}
    missing = [name for name in chosen if name not in known]
    if missing:
        raise TransferError(
            f"dataset={dataset} has no task {missing[0]}: foretune dataset inspect tasks=true lists them"
        )
    store = RecordStore(folder)
    with store.writing():
        there = {row.workload_hash for row in store.tasks()}
        if others := there - set(chosen):
            raise TransferError(
                f"tasks_into={folder} contains {counted(len(others), 'task')} that "
                f"{verb(len(others), 'was', 'were')} not chosen: name a new folder"
            )
        if new := [known[name] for name in chosen if name not in there]:
            store.append_tasks(new)
    return ChosenTasks(folder, [known[name] for name in chosen])
