"""Stored schedules: the measured records in a folder of MetaSchedule's format, read one by one.

MetaSchedule's own `JSONDatabase` makes TVM objects of all records when it opens a folder, seven milliseconds
each: a folder of ten networks takes half a minute. This one makes those that are asked for.
"""

from __future__ import annotations

import json
import statistics
from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.database_lines import (
    RECORD_FILE,
    WORKLOAD_FILE,
    StoredRecord,
    parsed_record,
    parsed_workload,
)
from ..dataset.task import Task
from ..dataset.templates.registry import register_intrinsics
from ..dataset.tvm_compat import target_to_json
from ..errors import UserError
from .database_folder import append_lines, held_briefly, whole_lines, write_whole


class DatabaseUnreadableError(UserError, ValueError):
    """A line of a database is no JSON, or not MetaSchedule's."""


class _Line(NamedTuple):
    """A record as it is written, in the order of MetaSchedule: by mean repeat, then by age."""

    mean_s: float
    number: int
    latency_s: float
    text: str


class StoredSchedules:
    """Measured records of a folder by task, the fastest first; failed measurements are left out."""

    def __init__(self, folder: Path) -> None:
        """Reads the folder's files, which may be missing. Raises DatabaseUnreadableError."""
        self._folder = folder
        self._workload_file, self._record_file = folder / WORKLOAD_FILE, folder / RECORD_FILE
        self._hashes: list[str] = []  # by the number that records refer to
        self._workloads: dict[str, str] = {}
        self._lines: defaultdict[str, list[_Line]] = defaultdict(list)
        self._count = 0
        with held_briefly(folder):
            workloads, records = _lines(self._workload_file), _lines(self._record_file)
        for number, line in enumerate(workloads, 1):
            try:
                self._note_workload(parsed_workload(line), line)
            except ValueError as error:
                raise _unreadable(self._workload_file, number, error) from error
        for number, line in enumerate(records, 1):
            try:
                record = parsed_record(line, len(self._hashes))
            except json.JSONDecodeError as error:
                raise _unreadable(self._record_file, number, error) from error
            except ValueError:  # of a failed measurement
                continue
            self._note_record(record, line)

    def best_latency_s(self, workload_hash: str) -> float | None:
        """Latency in seconds of the best schedule of a task, None if it has no schedule."""
        lines = self._lines.get(workload_hash)
        return lines[0].latency_s if lines else None

    def fastest(self, workload_hash: str, most: int | None = None) -> list[ms.database.TuningRecord]:
        """Records of a task, the fastest first; `most` takes so many, None takes all."""
        lines = self._lines.get(workload_hash, [])[:most]
        if not lines:
            return []
        workload = ms.database.Workload.from_json(json.loads(self._workloads[workload_hash]))
        register_intrinsics("".join(line.text for line in lines))  # which applying a template needs
        return [ms.database.TuningRecord.from_json(json.loads(line.text)[1], workload) for line in lines]

    def best(self, workload_hashes: Collection[str]) -> ms.Database:
        """Database in memory with the best record of each of the tasks that have one."""
        database = ms.database.MemoryDatabase()
        for workload_hash in workload_hashes:
            for record in self.fastest(workload_hash, 1):
                database.commit_workload(record.workload.mod)
                database.commit_tuning_record(record)
        return database

    def add(self, task: Task, contents: Sequence[Sequence[Any]], *, replaces: bool = False) -> None:
        """Appends records of a task, each as `record_content` makes it.

        Other processes may add to the folder, too: tasks are numbered by what the file has by now.
        `replaces` drops the records of the task that this one has read or added.
        """
        with held_briefly(self._folder):
            index = self._number_of(task)
            records = [StoredRecord(index, float(min(content[1])), list(content)) for content in contents]
            lines = [record.line(index) for record in records]
            if replaces:
                known = {line.text for line in self._lines.pop(task.workload_hash, ())}
                kept = [line for line in whole_lines(self._record_file) if line not in known]
                write_whole(self._record_file, "".join(f"{line}\n" for line in [*kept, *lines]))
            else:
                append_lines(self._record_file, lines)
        for record, line in zip(records, lines, strict=True):
            self._note_record(record, line)

    def _number_of(self, task: Task) -> int:
        """The number that records of a task refer to; a task that the file lacks is added to it."""
        if task.workload_hash not in self._workloads:
            for line in whole_lines(self._workload_file)[len(self._hashes) :]:
                self._note_workload(parsed_workload(line), line)
        if task.workload_hash not in self._workloads:
            line = json.dumps(ms.database.Workload(task.mod).as_json(), separators=(",", ":"))
            append_lines(self._workload_file, [line])
            self._note_workload(task.workload_hash, line)
        return self._hashes.index(task.workload_hash)

    def _note_workload(self, workload_hash: str, line: str) -> None:
        self._hashes.append(workload_hash)
        self._workloads[workload_hash] = line

    def _note_record(self, record: StoredRecord, line: str) -> None:
        mean_s = statistics.fmean(record.content[1])
        insort(self._lines[self._hashes[record.workload]], _Line(mean_s, self._count, record.latency_s, line))
        self._count += 1


def record_content(target: Target, task: Task, record: str, run_secs: list[float] | None) -> list[Any]:
    """A record as MetaSchedule's JSON has it: trace, repeats in seconds, target, arguments.

    `record` is the JSON of the whole trace; `run_secs` is None for a program that was not measured.
    """
    return [json.loads(record), run_secs, json.loads(target_to_json(target)), _arguments(task)]


@lru_cache(maxsize=8)  # a round adds many records of one task
def _arguments(task: Task) -> list[Any]:
    found = ms.arg_info.ArgInfo.from_entry_func(task.mod, remove_preproc=True)
    return [argument.as_json() for argument in found]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _unreadable(path: Path, number: int, error: ValueError) -> DatabaseUnreadableError:
    return DatabaseUnreadableError(
        f"database={path}: line {number} cannot be read: {error}; remove the line from a copy of the folder, "
        "or tune into another folder"
    )
