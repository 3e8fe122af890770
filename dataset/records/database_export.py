"""Export of datasets as MetaSchedule databases, the folders that stock TVM compiles from.

A database neither checks the target of its records nor knows their device: a folder with results of one
machine would also be used on another. An export therefore writes one folder per target and device.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.replay import replay
from ...compiler.tvm_compat import make_tune_context, parse_target
from ...files import written_whole
from .exchange import DatabaseError, Warn
from .schema import TaskRow, latency_of
from .store import RecordStore

_LOG = logging.getLogger(__name__)


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
        with written_whole(path, field="into") as partial:
            partial.mkdir()
            database = ms.database.JSONDatabase(work_dir=str(partial))
            for name, records in by_device[device].items():
                fastest = sorted(records, key=lambda record: latency_of(record["run_secs"]))[:top]
                _commit(database, rows[name], fastest, parse_target(device[0]), warn)
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
