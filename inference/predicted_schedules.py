"""Schedules that a model predicted and no device measured, in a database of their own beside the measured.

MetaSchedule finds no record without a latency, and one in the tuning database would hide that nothing faster
than plain loops is known. So each target and device has two folders; compilation prefers the measured one.
"""

from __future__ import annotations

from pathlib import Path

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.task import Task
from .tuning_database import opened_database, write_records

FOLDER = "predicted"
"""Folder of the predictions, in that of the tuning database."""

UNMEASURED_S = 5e9
"""Latency in seconds that stands for none: stock TVM takes the record, and Foretune reads one over 1e9 as not
measured. Each further record has a second less, so that the last one of a task is the best."""


class PredictedSchedules:
    """Predicted schedules of tasks on one target and device."""

    def __init__(self, beside: Path, target: Target) -> None:
        """Opens or creates the folder of predictions in `beside`, the folder of a tuning database."""
        self.folder = beside / FOLDER
        self.database, _ = opened_database(self.folder)
        self._target = target

    def __contains__(self, task: Task) -> bool:
        return self.database.query_tuning_record(task.mod, self._target, "main") is not None

    def commit(self, task: Task, record: str) -> None:
        """Adds the schedule of a task, the JSON of its whole trace; it takes the place of an earlier one."""
        latency_s = UNMEASURED_S - len(self.database)
        write_records(self.database, self._target, task, [(record, [latency_s])])

    def behind(self, measured: ms.Database) -> ms.Database:
        """Database for compilation, which has these schedules where `measured` has none."""
        return ms.database.OrderedUnionDatabase(measured, self.database)
