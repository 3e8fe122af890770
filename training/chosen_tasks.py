"""The chosen tasks as a dataset without records, which another device measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from ..dataset.records import TaskRow
from ..dataset.store import RecordStore
from .transfer import TransferError


@dataclass(frozen=True)
class ChosenTasks:
    """A folder of tasks in the order of their choice."""

    folder: Path
    tasks: list[TaskRow]

    def table(self) -> Table:
        """One line a task."""
        table = Table("task", "operator", "MFLOP", "hash", title="chosen tasks")
        table.columns[2].justify = "right"
        for task in self.tasks:
            table.add_row(task.name, task.operator, f"{task.flops / 1e6:,.1f}", task.workload_hash)
        return table


def write_tasks(dataset: Path, chosen: Sequence[str], folder: Path) -> ChosenTasks:
    """Copies the chosen tasks of a dataset, without records, to `folder`, and so often as one likes.

    Raises:
      TransferError: the dataset lacks one of them, or the folder holds other tasks.
      StoreError: the folder cannot be written to.
    """
    known = {row.workload_hash: row for row in RecordStore(dataset).require().tasks()}
    missing = [name for name in chosen if name not in known]
    if missing:
        raise TransferError(
            f"dataset={dataset} has no task {missing[0]}: see foretune-dataset inspect --tasks"
        )
    store = RecordStore(folder)
    with store.writing():
        there = {row.workload_hash for row in store.tasks()}
        if others := there - set(chosen):
            raise TransferError(
                f"tasks_into={folder} holds {len(others)} task(s) that were not chosen: name a new folder"
            )
        if new := [known[name] for name in chosen if name not in there]:
            store.append_tasks(new)
    return ChosenTasks(folder, [known[name] for name in chosen])
