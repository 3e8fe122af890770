"""Stored schedules: measured records in a folder of MetaSchedule's format, loaded on request.

MetaSchedule's own `JSONDatabase` creates TVM objects for all records when it opens a folder. Each takes seven
milliseconds, so a folder of ten networks takes half a minute. This class creates only the requested objects.
"""

from __future__ import annotations

import json
import statistics
from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tvm.s_tir import meta_schedule as ms

from ...compiler.task import Task
from ...dataset.records.database_lines import parsed_record
from ...dataset.records.schema import latency_of
from .schedule_lines import ScheduleLines, database_of


class _Line(NamedTuple):
    """A record in its written form; records sort in MetaSchedule's order, by mean repeat and then by age."""

    mean_s: float
    number: int
    latency_s: float
    text: str


class StoredSchedules:
    """Measured records of a folder by task, fastest first; failed measurements are left out."""

    def __init__(self, folder: Path) -> None:
        """Reads the folder's files, which need not exist. Raises DatabaseUnreadableError."""
        self._file = ScheduleLines(folder)
        self._lines: defaultdict[str, list[_Line]] = defaultdict(list)
        self._count = 0
        for number, line in enumerate(self._file.read(), 1):
            try:
                record = parsed_record(line, len(self._file))
            except json.JSONDecodeError as error:
                raise self._file.unreadable(number, error) from error
            except ValueError:  # of a failed measurement
                continue
            self._note(self._file.workload_hash(record.workload), record.content[1], line)

    def best_latency_s(self, workload_hash: str) -> float | None:
        """Latency in seconds of a task's best schedule, or None without a schedule."""
        lines = self._lines.get(workload_hash)
        return lines[0].latency_s if lines else None

    def fastest(self, workload_hash: str, most: int | None = None) -> list[ms.database.TuningRecord]:
        """Records of a task, fastest first; `most` limits their number, and None returns all."""
        lines = self._lines.get(workload_hash, [])[:most]
        return self._file.schedules(workload_hash, [line.text for line in lines])

    def best(self, workload_hashes: Collection[str]) -> ms.Database:
        """In-memory database with the best record of each task that has one."""
        return database_of(record for name in workload_hashes for record in self.fastest(name, 1))

    def add(self, task: Task, contents: Sequence[Sequence[Any]], *, replaces: bool = False) -> None:
        """Appends records of a task, each from `record_content`.

        `replaces` drops all records of the task that this object has read or added.
        """
        known = {line.text for line in self._lines.pop(task.workload_hash, ())} if replaces else set()
        lines = self._file.add(task, contents, without=known)
        for content, line in zip(contents, lines, strict=True):
            self._note(task.workload_hash, content[1], line)

    def _note(self, workload_hash: str, repeats_s: Sequence[float], line: str) -> None:
        mean_s, latency_s = statistics.fmean(repeats_s), latency_of(repeats_s)
        insort(self._lines[workload_hash], _Line(mean_s, self._count, latency_s, line))
        self._count += 1
