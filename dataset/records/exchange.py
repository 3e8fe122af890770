"""Import and export of MetaSchedule databases, the folders that stock TVM tunes into and compiles from.

A database neither checks the target of its records nor knows their device: a folder with results of one
machine would also be used on another. An export therefore writes one folder per target and device.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import tvm
from tvm.s_tir import ScheduleError
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.described_task import described_task
from ...compiler.replay import (
    candidate_trace_json,
    check_decisions,
    replay,
    trace_to_json,
    without_postprocessing,
)
from ...compiler.targets import is_cuda
from ...compiler.tvm_compat import make_tune_context, parse_target, target_to_json, workload_hash
from ...errors import UserError
from ..hardware import Hardware, described_hardware, probe_cuda
from ..hardware.target_hardware import target_hardware
from .database_lines import FAILED_S, RECORD_FILE, WORKLOAD_FILE
from .schema import Record, TaskRow, latency_of
from .store import RecordStore
from .stored_tasks import task_row

HERE = "here"
"""Name of this machine's device."""

Warn = Callable[[str], None]
"""Callback that takes one line about skipped data."""

_Item = TypeVar("_Item")

_LOG = logging.getLogger(__name__)


class DatabaseError(UserError, ValueError):
    """The folder has no MetaSchedule database, or one cannot be written there."""


class DatabaseRecord(NamedTuple):
    """Record of a database; unlike `Record`, it has no device and other fields unknown to MetaSchedule."""

    mod: tvm.IRModule
    """Unscheduled task; records of one task share the object."""
    trace: str
    """Trace without postprocessing, as in `Record.trace`."""
    run_secs: tuple[float, ...]
    """Repeats in seconds, empty for a failed measurement."""
    target: str | None
    """Target as JSON, as in `Record.target`."""


TaskTrace = tuple[tvm.IRModule, str, tuple[float, ...]]
"""Unscheduled task, trace without postprocessing, and repeats in seconds, empty for a failed measurement."""


def read_database(folder: Path, warn: Warn = _LOG.warning) -> list[DatabaseRecord]:
    """Read all records of a `JSONDatabase` folder, in file order.

    Lines that TVM cannot read are skipped; `warn` receives their file, line and cause. Raises DatabaseError
    if the folder has no database.
    """

    def parse(content: list[Any], workload: ms.database.Workload) -> DatabaseRecord:
        record = parsed_tuning_record(content, workload)
        return DatabaseRecord(
            mod=record.workload.mod,
            trace=trace_to_json(record.trace),
            run_secs=_measured(record.run_secs),
            target=None if record.target is None else target_to_json(record.target),
        )

    return _read(folder, parse, warn)


def read_traces(folder: Path, warn: Warn = _LOG.warning) -> list[TaskTrace]:
    """Read the traces of a `JSONDatabase` folder, in file order.

    Traces are not applied to their tasks, which would need milliseconds of TVM each, so some may not replay.
    Otherwise like `read_database`.
    """

    def parse(content: list[Any], workload: ms.database.Workload) -> TaskTrace:
        trace, run_secs, *_ = content
        check_decisions(trace)
        return workload.mod, json.dumps(without_postprocessing(trace)), _measured(run_secs)

    return _read(folder, parse, warn)


def _read(folder: Path, parse: Callable[[list[Any], ms.database.Workload], _Item], warn: Warn) -> list[_Item]:
    for name in (WORKLOAD_FILE, RECORD_FILE):
        if not (folder / name).is_file():
            raise DatabaseError(
                f"database={folder} has no {name}; use the work_dir of a MetaSchedule JSONDatabase"
            )
    workloads = dict(_parsed(folder / WORKLOAD_FILE, ms.database.Workload.from_json, warn))

    def parse_line(line: list) -> _Item:
        index, content = line
        if index not in workloads:
            raise ValueError(f"its task, line {index + 1} of {WORKLOAD_FILE}, is missing or broken")
        return parse(content, workloads[index])

    return [record for _, record in _parsed(folder / RECORD_FILE, parse_line, warn)]


def parsed_tuning_record(content: list[Any], workload: ms.database.Workload) -> ms.database.TuningRecord:
    """Tuning record of a task from its JSON.

    Raises ValueError if its trace does not apply to the task, and TVM's errors for any other JSON.
    """
    check_decisions(content[0])
    try:
        return ms.database.TuningRecord.from_json(content, workload)
    except ScheduleError as error:
        raise ValueError("its trace does not apply to its task") from error


def _measured(run_secs: Any) -> tuple[float, ...]:
    seconds = tuple(float(second) for second in run_secs or ())
    return seconds if all(0 < second < FAILED_S for second in seconds) else ()


def _parsed(path: Path, parse: Callable[[Any], Any], warn: Warn) -> Iterator[tuple[int, Any]]:
    """Yield number, from 0, and content of each line that `parse` accepts."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            try:
                yield number, parse(json.loads(line))
            except Exception as error:  # TVM raises InternalError, TypeError, ValueError and others
                reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
                warn(f"{path}, line {number + 1}: {reason}; skipped")


@dataclass
class ImportCounts:
    """Number of imported, duplicate and skipped records of a database."""

    added: int = 0
    known: int = 0
    left_out: int = 0


def import_database(
    folder: Path,
    store: RecordStore,
    *,
    hardware: str = HERE,
    target: str | None = None,
    warn: Warn = _LOG.warning,
) -> ImportCounts:
    """Import the measured programs of a database into a dataset: all of them, or none after an error.

    A database does not store the device: `hardware` names it (see `find_hardware`), and `target` is used for
    records without one. It does not store time and TVM version either: records get the modification time of
    the file and no version. Failures, which have no cause, and programs that do not replay are skipped with a
    warning. Raises UserError.
    """
    default = target_to_json(parse_target(target)) if target else None
    groups: defaultdict[tuple[str, str | None], list[DatabaseRecord]] = defaultdict(list)
    for entry in read_database(folder, warn):
        groups[workload_hash(entry.mod), entry.target or default].append(entry)
    origin = _ImportSource(hardware, (folder / RECORD_FILE).stat().st_mtime)
    counts = ImportCounts()
    with store.writing():
        store.require_intact()
        known = set(store.columns("key")["key"].to_pylist())
        new_tasks = {}
        with store.transaction():
            for (name, of_target), entries in groups.items():
                if of_target is None:
                    warn(f"task {name}: {len(entries)} records name no target; give it with target=")
                    counts.left_out += len(entries)
                    continue
                records = [
                    origin.record(name, trace, run_secs, of_target)
                    for trace, run_secs in _replayed(name, of_target, entries, warn)
                ]
                fresh = {record.key: record for record in records if record.key not in known}
                counts.added += len(fresh)
                counts.known += len(records) - len(fresh)
                counts.left_out += len(entries) - len(records)
                known |= fresh.keys()
                store.append_records(list(fresh.values()))
                if records:  # also known ones, whose task an import that was killed may have left out
                    new_tasks[name] = entries[0].mod
            known_tasks = {row.workload_hash for row in store.tasks()}
            source = f"database:{folder.resolve().name}"
            store.append_tasks(
                [
                    task_row(described_task(mod, source=source))
                    for name, mod in new_tasks.items()
                    if name not in known_tasks
                ]
            )
            for device in origin.devices.values():
                store.put_hardware(device)
        store.compact()
    return counts


class _ImportSource:
    """Known device and time of a database's records."""

    def __init__(self, hardware: str, timestamp: float) -> None:
        self._hardware = hardware
        self._timestamp = timestamp
        self.devices: dict[str, Hardware] = {}
        """Devices by target."""

    def record(self, task: str, trace: str, run_secs: tuple[float, ...], target: str) -> Record:
        if target not in self.devices:
            self.devices[target] = find_hardware(self._hardware, parse_target(target))
        return Record(
            workload_hash=task,
            trace=trace,
            run_secs=run_secs,
            failure=None,
            failure_message="",
            cut_short=False,
            sampler="import",
            round=0,
            seed=0,
            hardware_id=self.devices[target].hardware_id,
            target=target,
            tvm_version="",
            timestamp=self._timestamp,
            build_s=0.0,
            run_s=0.0,
        )


def find_hardware(name: str, target: Target) -> Hardware:
    """Device with a name: HERE probes this machine; others are a description file or a named device.

    Raises the errors of `described_hardware`.
    """
    if name != HERE:
        return described_hardware(name, target)
    return probe_cuda() if is_cuda(target) else target_hardware(target)


def _replayed(
    name: str, target: str, entries: list[DatabaseRecord], warn: Warn
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield canonical trace and repeats of each measured program that replays."""
    context = make_tune_context(entries[0].mod, parse_target(target), seed=0, name=name)
    for entry in entries:
        candidate = replay(context, entry.trace) if entry.run_secs else None
        if candidate is not None:
            yield candidate_trace_json(candidate), entry.run_secs
        else:
            cause = "its trace does not replay" if entry.run_secs else "its measurement failed"
            warn(f"task {name}: skipped a record, {cause}")


class ExportedDatabase(NamedTuple):
    """Exported folder with its contents."""

    folder: Path
    target: str
    hardware_id: str
    tasks: int
    records: int


def export_database(
    store: RecordStore,
    folder: Path,
    *,
    tasks: Collection[str] = (),
    top: int | None = None,
    warn: Warn = _LOG.warning,
) -> list[ExportedDatabase]:
    """Export the measured programs of a dataset as databases, one in `folder` per target and device.

    `tasks` are names or workload hashes, by default all; `top` limits the export to the fastest programs of
    each task. All repeats are exported; MetaSchedule ranks by their mean, and `latency_of` by their minimum.
    Failures and simulated records are left out. Each database appears atomically. Raises DatabaseError and
    StoreError.
    """
    rows = _chosen_tasks(store.require_intact().tasks(), tasks)
    by_device: defaultdict[tuple[str, str], defaultdict[str, list[dict]]]
    by_device = defaultdict(lambda: defaultdict(list))
    columns = store.columns("workload_hash", "trace", "run_secs", "target", "hardware_id", "simulated")
    for record in columns.to_pylist():
        if record["workload_hash"] in rows and record["run_secs"] and not record["simulated"]:
            device = record["target"], record["hardware_id"]
            by_device[device][record["workload_hash"]].append(record)
    if not by_device:
        raise DatabaseError(
            f"dataset={store.folder}: no measured record of these tasks to export; generate some, or choose "
            "other tasks"
        )
    folders = {device: folder / database_folder_name(*device) for device in by_device}
    if taken := next(filter(Path.exists, folders.values()), None):
        raise DatabaseError(f"{taken} exists; export into another folder, or remove it")
    exported = []
    for device, path in folders.items():
        partial = path.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        database = ms.database.JSONDatabase(work_dir=str(partial))
        for name, records in by_device[device].items():
            fastest = sorted(records, key=lambda record: latency_of(record["run_secs"]))[:top]
            _commit(database, rows[name], fastest, parse_target(device[0]), warn)
        partial.rename(path)
        exported.append(ExportedDatabase(path, *device, len(by_device[device]), len(database)))
    return exported


def database_folder_name(target: str, hardware_id: str) -> str:
    """Folder name of the database of a target (JSON) on a device."""
    identity = hashlib.sha256(f"{target}\0{hardware_id}".encode()).hexdigest()
    return f"{parse_target(target).kind.name}-{identity[:12]}"


def _chosen_tasks(rows: list[TaskRow], wanted: Collection[str]) -> dict[str, TaskRow]:
    """Tasks by workload hash; raises DatabaseError for an unknown one."""
    unknown = set(wanted) - {text for row in rows for text in (row.name, row.workload_hash)}
    if unknown:
        raise DatabaseError(
            f"tasks={min(unknown)}: no task of the dataset has this name or workload hash; list them with "
            "foretune dataset inspect tasks=true"
        )
    return {row.workload_hash: row for row in rows if not wanted or {row.name, row.workload_hash} & {*wanted}}


def _commit(
    database: ms.database.JSONDatabase, row: TaskRow, records: list[dict], target: Target, warn: Warn
) -> None:
    mod = tvm.ir.load_json(row.tir)
    context = make_tune_context(mod, target, seed=0, name=row.name)
    workload = database.commit_workload(mod)
    for record in records:
        # Stock TVM applies a trace unchanged, so the trace must include the postprocessing that a record
        # leaves out.
        candidate = replay(context, record["trace"])
        if candidate is None:
            warn(f"task {row.name}: skipped a record, its trace does not replay")
            continue
        database.commit_tuning_record(
            ms.database.TuningRecord(
                candidate.sch.trace, workload, record["run_secs"], target, candidate.args_info
            )
        )
