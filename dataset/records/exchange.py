"""Import of MetaSchedule databases, the folders that stock TVM tunes into and compiles from."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
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
from ...wording import counted
from ..hardware import Hardware, described_hardware, probe_cuda
from ..hardware.target_hardware import target_hardware
from .database_lines import FAILED_S, RECORD_FILE, WORKLOAD_FILE
from .schema import Record
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
                    warn(
                        f"task {name}: {counted(len(entries), 'record')} without a target; give it "
                        "with target="
                    )
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
