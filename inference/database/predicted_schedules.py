"""Schedules that a model predicted and no device measured, in a database separate from measured schedules.

MetaSchedule ignores records without a latency. A predicted record with a latency in the tuning database would
hide that the task has no measured schedule. So each target and device has two folders, and compilation
prefers the measured one.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.task import Task
from ...dataset.records.database_lines import StoredRecord, parsed_schedule
from .folder import drop_unfinished_lines
from .schedule_lines import ScheduleLines, database_of, record_content
from .tuning_notes import NOTES_FILE, TuningNotes

FOLDER = "predicted"
"""Subfolder of the tuning database with the predictions."""

UNMEASURED_S = 5e9
"""Placeholder latency in seconds: stock TVM accepts the record, and Foretune treats a latency over 1e9 as not
measured. The time of writing is subtracted, so that the last record of a task is the best."""


class FurtherSchedules(Protocol):
    """Schedules for tasks without a measured one."""

    def behind(self, measured: ms.Database, workload_hashes: Collection[str]) -> ms.Database:
        """Database for compilation, with schedules of the tasks for which `measured` has none."""


class PredictedSchedules:
    """Predicted schedules of tasks on one target and device."""

    def __init__(self, beside: Path, target: Target, *, read_only: bool = False) -> None:
        """Opens or creates the folder of predictions in `beside`, the folder of a tuning database.

        A folder that is opened `read_only` need not exist. Raises DatabaseUnreadableError.
        """
        self.folder = beside / FOLDER
        if not read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
            drop_unfinished_lines(self.folder, NOTES_FILE)
        self._target = target
        self._file = ScheduleLines(self.folder, read_only=read_only)
        self.notes = TuningNotes(self.folder / NOTES_FILE, read_only=read_only)
        """Notes of runs that measured nothing."""
        self._last: dict[str, str] = {}
        """Line of the last record, by workload hash."""
        for number, line in enumerate(self._file.read(), 1):
            try:
                record = parsed_schedule(line, len(self._file))
            except ValueError as error:
                raise self._file.unreadable(number, error) from error
            self._last[self._file.workload_hash(record.workload)] = line

    def __contains__(self, task: Task) -> bool:
        return task.workload_hash in self._last

    def stored(self) -> dict[str, tuple[str, StoredRecord]]:
        """Each task's line of WORKLOAD_FILE and its last schedule, by workload hash.

        The schedules have no latency.
        """
        found = {}
        for name, line in self._last.items():
            record = parsed_schedule(line, len(self._file))
            trace, _, *rest = record.content
            found[name] = self._file.workload_line(name), replace(record, content=[trace, None, *rest])
        return found

    def commit(self, task: Task, record: str) -> None:
        """Adds the schedule of a task as the JSON of its whole trace; it replaces an earlier one."""
        content = record_content(self._target, task, record, [UNMEASURED_S - time.time()])
        (self._last[task.workload_hash],) = self._file.add(task, [content])

    def behind(self, measured: ms.Database, workload_hashes: Collection[str]) -> ms.Database:
        """Database for compilation: predicted schedules of the tasks for which `measured` has no schedule."""
        lines = {name: self._last[name] for name in workload_hashes if name in self._last}
        predicted = database_of(
            record for name, line in lines.items() for record in self._file.schedules(name, [line])
        )
        return ms.database.OrderedUnionDatabase(measured, predicted)
