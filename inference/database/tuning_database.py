"""Tuning database: measured schedules of one target on one device, in MetaSchedule's own format.

MetaSchedule's database ignores the target, so each target and device has a separate folder. Stock TVM
compiles from it: `with target, ms.database.JSONDatabase(work_dir=folder): ...`. Further files in the folder
store the progress of each task's search, so that an interrupted run can resume, and other facts about the
tasks (`database_folder`).

`StoredSchedules` loads measured records on request. MetaSchedule's own `JSONDatabase` creates TVM objects for
all records when it opens a folder. Each takes seven milliseconds, so a folder of ten networks takes half a
minute. This class creates only the requested objects.
"""

from __future__ import annotations

import json
import math
import statistics
from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.described_task import described_task
from ...compiler.replay import trace_to_json
from ...compiler.task import Task
from ...compiler.tvm_compat import target_to_json
from ...dataset.hardware import Hardware
from ...dataset.records.database_export import database_folder_name
from ...dataset.records.database_lines import WORKLOAD_FILE, parsed_record, parsed_workload
from ...dataset.records.schema import latency_of
from ...errors import UserError
from ...wording import part_of, verb
from ..search.candidate import MeasuredCandidate
from ..surrogate.memory import MEMORY_FILE
from .folder import (
    ROUNDS_FILE,
    STARTS_FILE,
    TEMPLATES_FILE,
    append_rounds,
    describe_device,
    drop_unfinished_lines,
    hold_open,
    read_notes,
    read_rounds,
    whole_lines,
)
from .predicted_schedules import PredictedSchedules
from .schedule_lines import ScheduleLines, database_of, record_content
from .tuning_notes import NOTES_FILE, TuningNotes


class MissingScheduleError(UserError, LookupError):
    """A task has no schedule in a database, and the settings rule out a search for one."""


def folder_of(root: Path, target: Target, hardware: Hardware) -> Path:
    """Folder for a target and device under `root`."""
    return root / database_folder_name(target_to_json(target), hardware.hardware_id)


class TuningDatabase:
    """Schedules for tasks on one target and device, and what earlier runs decided without one."""

    def __init__(self, root: Path, target: Target, hardware: Hardware, *, read_only: bool = False) -> None:
        """Opens or creates the folder for this target and device under `root`.

        A folder that is opened `read_only` need not exist, and nothing is written: new knowledge stays in
        memory.
        """
        self.folder = folder_of(root, target, hardware)
        self.read_only = read_only
        self.dropped_lines = 0
        if not read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
        hold_open(self, self.folder)
        if not read_only:
            files = (ROUNDS_FILE, NOTES_FILE, MEMORY_FILE, TEMPLATES_FILE)
            self.dropped_lines = drop_unfinished_lines(self.folder, *files)
        self._schedules = StoredSchedules(self.folder, read_only=read_only)
        self.notes = TuningNotes(self.folder / NOTES_FILE, read_only=read_only)
        self._rounds = read_rounds(self.folder)
        self._target = target
        self.describe(hardware)

    def describe(self, hardware: Hardware) -> None:
        """Stores the device in the folder, unless a device is stored or its figures were not measured."""
        if math.isfinite(hardware.peak_gflops) and not self.read_only:
            describe_device(self.folder, target_to_json(self._target), hardware)

    def best_latency_s(self, task: Task) -> float | None:
        """Latency in seconds of a task's best schedule, or None without a schedule."""
        return self._schedules.best_latency_s(task.workload_hash)

    def network_latency_s(self, workload_hash: str) -> float | None:
        """Latency in seconds of a task as a network runs it: with its best schedule, or without one if that
        is faster; None if neither was measured or ran."""
        known = self._schedules.best_latency_s(workload_hash), self.notes.untuned_s_of(workload_hash)
        found = [seconds for seconds in known if seconds is not None and math.isfinite(seconds)]
        return min(found, default=None)

    def latencies_s(self, task: Task, most: int | None = None) -> dict[str, float]:
        """Latencies in seconds of a task's schedules, by canonical trace (`trace_to_json`).

        `most` limits the result to the fastest ones; None returns all.
        """
        found: dict[str, float] = {}
        for record in self._schedules.fastest(task.workload_hash, most):  # some were timed again, so repeat
            latency_s = latency_of([float(seconds) for seconds in record.run_secs])
            found.setdefault(trace_to_json(record.trace), latency_s)
        return found

    def best_schedules(self, workload_hashes: Collection[str]) -> ms.Database:
        """Database to compile from (`with target, database: ...`), with the best schedule of each task."""
        return self._schedules.best(workload_hashes)

    def other_tasks(self, known: Collection[str]) -> list[Task]:
        """Tasks of earlier runs that have a schedule and an unknown workload hash; their weight is 0."""
        found: dict[str, tvm.IRModule] = {}
        for line in whole_lines(self.folder / WORKLOAD_FILE):
            name = parsed_workload(line)
            if name not in known and name not in found:
                found[name] = ms.database.Workload.from_json(json.loads(line)).mod
        tasks = [replace(described_task(mod), weight=0) for mod in found.values()]
        return [task for task in tasks if self.best_latency_s(task) is not None]

    def require(self, tasks: Sequence[Task], predicted: PredictedSchedules | None = None) -> None:
        """Raises MissingScheduleError with the name of the first task that no run has decided.

        A task is decided if it has a schedule, also one of `predicted`, or if the search left it without one
        for a reason, for example because the untuned program is faster.
        """
        missing = [
            task
            for task in tasks
            if self.best_latency_s(task) is None
            and not self.notes.left(task)
            and not (predicted is not None and (task in predicted or predicted.notes.left(task)))
        ]
        if missing:
            raise MissingScheduleError(
                f"require_database=true: task {missing[0].name} (workload {missing[0].workload_hash}) has no "
                f"schedule in {self.folder}, and {part_of(len(missing), len(tasks), 'task')} "
                f"{verb(len(missing), 'has', 'have')} none; import a "
                "bundle that has them, foretune bundle import FILE, or tune without require_database"
            )

    def rounds_of_unfinished(self, task: Task) -> int | None:
        """Completed rounds of a task with an interrupted search; None for a finished or unknown task."""
        rounds, of = self._rounds.get(task.workload_hash, (0, 0))
        return rounds if rounds < of else None

    def note_rounds(self, task: Task, rounds: int, of: int) -> None:
        """Stores that `rounds` of the task's planned rounds (`of`) are complete."""
        if self._rounds.get(task.workload_hash) == (rounds, of):
            return
        self._rounds[task.workload_hash] = rounds, of
        if self.read_only:
            return
        append_rounds(self.folder, {task.workload_hash: (rounds, of)})

    def imported_starts(self, task: Task) -> list[str]:
        """Traces of a task that `foretune bundle import` took from other devices, fastest there first."""
        notes = read_notes(self.folder / STARTS_FILE, lambda note: (note["workload"], note["trace"]))
        return [trace for name, trace in notes if name == task.workload_hash]

    def commit(
        self, task: Task, measurements: Sequence[MeasuredCandidate], *, replaces: bool = False
    ) -> None:
        """Adds every candidate that ran; `replaces` drops the task's earlier schedules."""
        ran = [measurement for measurement in measurements if math.isfinite(measurement.latency_s)]
        if self.read_only or not (ran or replaces):
            return
        # A single value, because MetaSchedule ranks by the mean of the repeats, and foretune by their
        # minimum.
        contents = [record_content(self._target, task, m.record, [m.latency_s]) for m in ran]
        self._schedules.add(task, contents, replaces=replaces)


class _Line(NamedTuple):
    """A record in its written form; records sort in MetaSchedule's order, by mean repeat and then by age."""

    mean_s: float
    number: int
    latency_s: float
    text: str


class StoredSchedules:
    """Measured records of a folder by task, fastest first; failed measurements are left out."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Reads the folder's files, which need not exist. Raises DatabaseUnreadableError."""
        self._file = ScheduleLines(folder, read_only=read_only)
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
