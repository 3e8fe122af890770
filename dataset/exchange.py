"""MetaSchedule's own databases, in and out: folders that stock TVM tunes into and compiles from.

A database does not look at the target of its records, and knows nothing of devices: served from one folder,
the results of one machine would be used on another. So what is exported has one folder a target and device.
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
from typing import Any, NamedTuple

import tvm
from tvm.s_tir import ScheduleError
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..errors import UserError
from .described_task import described_task
from .hardware import Hardware, named_hardware, probe_cuda
from .records import Record, TaskRow, latency_of
from .replay import candidate_trace_json, check_decisions, replay, trace_to_json
from .store import RecordStore
from .stored_tasks import task_row
from .target_hardware import target_hardware
from .tvm_compat import make_tune_context, parse_target, target_to_json, workload_hash

HERE = "here"
"""Names the device of this machine."""

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"

Tell = Callable[[str], None]
"""Takes one line about something that is left out."""

_LOG = logging.getLogger(__name__)


class DatabaseError(UserError, ValueError):
    """The folder is no MetaSchedule database, or none can be written there."""


class DatabaseRecord(NamedTuple):
    """One line of a database; what MetaSchedule does not know, such as the device, is not there."""

    mod: tvm.IRModule
    """The task, not scheduled; one object for all records of a task."""
    trace: str
    """As `Record.trace`: without postprocessing."""
    run_secs: tuple[float, ...]
    """Repeats in seconds; empty where the measurement failed."""
    target: str | None
    """JSON as `Record.target` has it."""


def read_database(folder: Path, tell: Tell = _LOG.warning) -> list[DatabaseRecord]:
    """Every record of a `JSONDatabase` folder in the order of its file.

    A line that TVM cannot read is told to `tell` by file, line and cause, and left out. Raises
    DatabaseError where the folder has no database.
    """
    for name in (WORKLOAD_FILE, RECORD_FILE):
        if not (folder / name).is_file():
            raise DatabaseError(
                f"database={folder}: there is no {name}; name the work_dir of a MetaSchedule JSONDatabase"
            )
    workloads = dict(_parsed(folder / WORKLOAD_FILE, ms.database.Workload.from_json, tell))

    def parse(line: list) -> DatabaseRecord:
        index, content = line
        if index not in workloads:
            raise ValueError(f"its task, line {index + 1} of {WORKLOAD_FILE}, is not there or broken")
        check_decisions(content[0])
        try:
            record = ms.database.TuningRecord.from_json(content, workloads[index])
        except ScheduleError as error:
            raise ValueError("its trace does not apply to its task") from error
        return DatabaseRecord(
            mod=record.workload.mod,
            trace=trace_to_json(record.trace),
            run_secs=_measured(record.run_secs),
            target=None if record.target is None else target_to_json(record.target),
        )

    return [record for _, record in _parsed(folder / RECORD_FILE, parse, tell)]


# What MetaSchedule writes as the latency of a program that failed.
_FAILED_S = 1e9


def _measured(run_secs: Any) -> tuple[float, ...]:
    seconds = tuple(float(second) for second in run_secs or ())
    return seconds if all(0 < second < _FAILED_S for second in seconds) else ()


def _parsed(path: Path, parse: Callable[[Any], Any], tell: Tell) -> Iterator[tuple[int, Any]]:
    """Number, from 0, and content of each line that `parse` accepts."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            try:
                yield number, parse(json.loads(line))
            except Exception as error:  # TVM raises InternalError, TypeError, ValueError and others
                reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
                tell(f"{path}, line {number + 1}: {reason}; left out")


@dataclass
class ImportCounts:
    """What became of the records of a database that could be read."""

    added: int = 0
    known: int = 0
    left_out: int = 0


def import_database(
    folder: Path,
    store: RecordStore,
    *,
    hardware: str = HERE,
    target: str | None = None,
    tell: Tell = _LOG.warning,
) -> ImportCounts:
    """Adds the measured programs of a database to a dataset: all of them, or on an error none.

    A database does not say where it was measured: `hardware` is as in `find_hardware`, `target` that of
    records which name none. Nor does it say when and by which TVM: its records carry the time at which its
    file was last written, and no version. What is left out is told with its cause: failures, which are there
    without theirs, and programs that do not replay. Raises UserError.
    """
    default = target_to_json(parse_target(target)) if target else None
    groups: defaultdict[tuple[str, str | None], list[DatabaseRecord]] = defaultdict(list)
    for entry in read_database(folder, tell):
        groups[workload_hash(entry.mod), entry.target or default].append(entry)
    place = _Place(hardware, (folder / RECORD_FILE).stat().st_mtime)
    counts = ImportCounts()
    with store.writing():
        store.require_whole()
        known = set(store.columns("key")["key"].to_pylist())
        new_tasks = {}
        with store.all_or_nothing():
            for (name, of_target), entries in groups.items():
                if of_target is None:
                    tell(f"task {name}: {len(entries)} records name no target; import them with --target")
                    counts.left_out += len(entries)
                    continue
                records = [
                    place.record(name, trace, run_secs, of_target)
                    for trace, run_secs in _replayed(name, of_target, entries, tell)
                ]
                fresh = {record.key: record for record in records if record.key not in known}
                counts.added += len(fresh)
                counts.known += len(records) - len(fresh)
                counts.left_out += len(entries) - len(records)
                known |= fresh.keys()
                store.append_records(list(fresh.values()))
                if fresh:
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
            for device in place.devices.values():
                store.put_hardware(device)
        store.compact()
    return counts


class _Place:
    """Where and when the records of a database were measured, as far as that is known."""

    def __init__(self, hardware: str, timestamp: float) -> None:
        self._hardware = hardware
        self._timestamp = timestamp
        self.devices: dict[str, Hardware] = {}
        """By target."""

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
    """The device called `name`: HERE probes this machine, else a description's file or a known device.

    Raises DatabaseError where it does not run programs of the target, UnknownHardwareError.
    """
    on_gpu = target.kind.name == "cuda"
    if name == HERE:
        return probe_cuda() if on_gpu else target_hardware(target)
    if Path(name).is_file():
        try:
            hardware = Hardware.from_json(Path(name).read_text())
        except ValueError as error:
            raise DatabaseError(f"hardware={name}: {error}") from error
    else:
        hardware = named_hardware(name)
    if on_gpu != (hardware.kind == "cuda"):
        raise DatabaseError(
            f"hardware={name}: {hardware.name} runs no programs of the target {target}; name the device that "
            "measured them"
        )
    return hardware


def _replayed(
    name: str, target: str, entries: list[DatabaseRecord], tell: Tell
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Canonical trace and repeats of each program of a task that ran and replays."""
    context = make_tune_context(entries[0].mod, parse_target(target), seed=0, name=name)
    for entry in entries:
        candidate = replay(context, entry.trace) if entry.run_secs else None
        if candidate is not None:
            yield candidate_trace_json(candidate), entry.run_secs
        else:
            cause = "its trace does not replay" if entry.run_secs else "its measurement failed"
            tell(f"task {name}: a record is left out, {cause}")


class ExportedDatabase(NamedTuple):
    """A folder that was written, and what it holds."""

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
    tell: Tell = _LOG.warning,
) -> list[ExportedDatabase]:
    """Writes the measured programs of a dataset as databases, one in `folder` a target and device.

    `tasks` are names or workload hashes, by default all; `top` keeps the fastest programs of each. All
    repeats are kept; mind that MetaSchedule ranks by their mean, where `latency_of` takes the shortest.
    Failures and simulated records stay behind. A database shows once it is whole. Raises DatabaseError and
    StoreError.
    """
    rows = _chosen_tasks(store.require_whole().tasks(), tasks)
    by_place: defaultdict[tuple[str, str], defaultdict[str, list[dict]]]
    by_place = defaultdict(lambda: defaultdict(list))
    columns = store.columns("workload_hash", "trace", "run_secs", "target", "hardware_id", "simulated")
    for record in columns.to_pylist():
        if record["workload_hash"] in rows and record["run_secs"] and not record["simulated"]:
            place = record["target"], record["hardware_id"]
            by_place[place][record["workload_hash"]].append(record)
    if not by_place:
        raise DatabaseError(f"dataset={store.folder}: no measured record of the tasks to export")
    places = {place: folder / database_folder_name(*place) for place in by_place}
    if taken := next(filter(Path.exists, places.values()), None):
        raise DatabaseError(f"{taken}: is there already; export into another folder, or remove it")
    exported = []
    for place, path in places.items():
        partial = path.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        database = ms.database.JSONDatabase(work_dir=str(partial))
        for name, records in by_place[place].items():
            fastest = sorted(records, key=lambda record: latency_of(record["run_secs"]))[:top]
            _commit(database, rows[name], fastest, parse_target(place[0]), tell)
        partial.rename(path)
        exported.append(ExportedDatabase(path, *place, len(by_place[place]), len(database)))
    return exported


def database_folder_name(target: str, hardware_id: str) -> str:
    """Names the database of a target, given as JSON, on a device."""
    identity = hashlib.sha256(f"{target}\0{hardware_id}".encode()).hexdigest()
    return f"{parse_target(target).kind.name}-{identity[:12]}"


def _chosen_tasks(rows: list[TaskRow], wanted: Collection[str]) -> dict[str, TaskRow]:
    """Tasks by workload hash; raises DatabaseError for a wanted one that is not there."""
    unknown = set(wanted) - {text for row in rows for text in (row.name, row.workload_hash)}
    if unknown:
        raise DatabaseError(
            f"task={min(unknown)}: the dataset has none of this name or workload hash; foretune-dataset "
            "inspect --tasks lists them"
        )
    return {row.workload_hash: row for row in rows if not wanted or {row.name, row.workload_hash} & {*wanted}}


def _commit(
    database: ms.database.JSONDatabase, row: TaskRow, records: list[dict], target: Target, tell: Tell
) -> None:
    mod = tvm.ir.load_json(row.tir)
    context = make_tune_context(mod, target, seed=0, name=row.name)
    workload = database.commit_workload(mod)
    for record in records:
        # Stock TVM applies a trace as it is: the one of a replay has the postprocessing, a record's has not.
        candidate = replay(context, record["trace"])
        if candidate is None:
            tell(f"task {row.name}: a record is left out, its trace does not replay")
            continue
        database.commit_tuning_record(
            ms.database.TuningRecord(
                candidate.sch.trace, workload, record["run_secs"], target, candidate.args_info
            )
        )
