"""Schedules of tasks as lines of a folder in MetaSchedule's format; several processes may add lines.

A record refers to its task by number. MetaSchedule's own `JSONDatabase` numbers tasks by the ones that it
knows, so two processes that add tasks at the same time would write records for each other's tasks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.task import Task
from ...compiler.templates.cpu.intrinsics.registry import register_intrinsics
from ...compiler.tvm_compat import target_to_json
from ...dataset.records.database_lines import RECORD_FILE, WORKLOAD_FILE, parsed_workload, record_line
from ...errors import first_line
from ...files import write_whole
from .folder import (
    DatabaseUnreadableError,
    all_text,
    append_lines,
    held_briefly,
    unreadable,
    whole_lines,
)


class ScheduleLines:
    """Names of the task file and the record file in a folder."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Names the files, which need not exist; only `read` and `add` read them.

        If `read_only`, not even a lock is written.
        """
        self._folder, self._read_only = folder, read_only
        self._workload_file, self._record_file = folder / WORKLOAD_FILE, folder / RECORD_FILE
        self._hashes: list[str] = []  # by the number that records refer to
        self._bytes_read = 0  # of the task file
        self._workloads: dict[str, str] = {}

    def __len__(self) -> int:
        """Tasks that are known so far."""
        return len(self._hashes)

    def read(self) -> list[str]:
        """Reads the tasks and returns the lines of records. Raises DatabaseUnreadableError."""
        lines = whole_lines if self._read_only else _lines  # nobody has removed an unfinished line
        with held_briefly(self._folder, only_read=self._read_only):
            workloads, records = self._new_workloads(), lines(self._record_file)
        for number, line in enumerate(workloads, len(self) + 1):
            try:
                self._note(parsed_workload(line), line)
            except ValueError as error:
                raise unreadable(self._workload_file, number, error) from error
        return records

    def unreadable(self, number: int, error: ValueError) -> DatabaseUnreadableError:
        """The error for a line of records, counted from 1, that cannot be read."""
        return unreadable(self._record_file, number, error)

    def workload_hash(self, number: int) -> str:
        """Workload hash of the task with the number that records use."""
        return self._hashes[number]

    def workload_line(self, workload_hash: str) -> str:
        """Line of a known task."""
        return self._workloads[workload_hash]

    def schedules(self, workload_hash: str, lines: Sequence[str]) -> list[ms.database.TuningRecord]:
        """TVM's objects for the records of a known task. Raises DatabaseUnreadableError."""
        if not lines:
            return []
        try:
            workload = ms.database.Workload.from_json(json.loads(self._workloads[workload_hash]))
            register_intrinsics("".join(lines))  # which applying a template needs
            return [ms.database.TuningRecord.from_json(json.loads(line)[1], workload) for line in lines]
        except Exception as error:  # TVM raises InternalError, TypeError, ValueError and others
            number = self._hashes.index(workload_hash) + 1
            found = ValueError(f"TVM reads no schedule of this task: {first_line(error)}")
            raise unreadable(self._workload_file, number, found) from error

    def add(
        self, task: Task, contents: Sequence[Sequence[Any]], *, without: Collection[str] = ()
    ) -> list[str]:
        """Appends records of a task, each from `record_content`; returns their lines.

        The numbers of tasks continue from the current content of the file. Lines in `without` are removed.
        """
        with held_briefly(self._folder):
            number = self._number_of(task)
            lines = [record_line(number, content) for content in contents]
            if without:
                kept = [line for line in whole_lines(self._record_file) if line not in without]
                write_whole(self._record_file, "".join(f"{line}\n" for line in [*kept, *lines]))
            else:
                append_lines(self._record_file, lines)
        return lines

    def _number_of(self, task: Task) -> int:
        """Number of a task for its records; a task that the file lacks is added."""
        if task.workload_hash not in self._workloads:
            for line in self._new_workloads():
                self._note(parsed_workload(line), line)
        if task.workload_hash not in self._workloads:
            line = json.dumps(ms.database.Workload(task.mod).as_json(), separators=(",", ":"))
            append_lines(self._workload_file, [line])
            self._bytes_read = self._workload_file.stat().st_size
            self._note(task.workload_hash, line)
        return self._hashes.index(task.workload_hash)

    def _new_workloads(self) -> list[str]:
        """Lines that the task file has in addition to the ones read before, without an unfinished last line.

        The file is as large as all tasks of all runs: reading it for each new task would take quadratic time.
        """
        if not self._workload_file.exists():
            return []
        with self._workload_file.open("rb") as file:
            file.seek(self._bytes_read)
            found = file.read()
        found = found[: found.rfind(b"\n") + 1]
        self._bytes_read += len(found)
        return found.decode().splitlines()

    def _note(self, workload_hash: str, line: str) -> None:
        self._hashes.append(workload_hash)
        self._workloads[workload_hash] = line


def record_content(target: Target, task: Task, record: str, run_secs: list[float] | None) -> list[Any]:
    """A record in MetaSchedule's JSON: trace, repeats in seconds, target, arguments.

    `record` is the JSON of the whole trace; `run_secs` is None for an unmeasured program.
    """
    return [json.loads(record), run_secs, json.loads(target_to_json(target)), _arguments(task)]


def database_of(records: Iterable[ms.database.TuningRecord]) -> ms.Database:
    """In-memory database with these records, from which TVM compiles."""
    database = ms.database.MemoryDatabase()
    for record in records:
        database.commit_workload(record.workload.mod)
        database.commit_tuning_record(record)
    return database


@lru_cache(maxsize=8)  # a round adds many records of one task
def _arguments(task: Task) -> list[Any]:
    found = ms.arg_info.ArgInfo.from_entry_func(task.mod, remove_preproc=True)
    return [argument.as_json() for argument in found]


def _lines(path: Path) -> list[str]:
    return all_text(path).splitlines()
