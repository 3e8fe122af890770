"""Export of the schedules of a tuning database as a bundle."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ... import __version__
from ...compiler.described_task import described_task
from ...compiler.networks import AS_FASTEST, Lowering, Network, load_network, lowered_network
from ...compiler.networks.alternatives.alternatives import offered_tasks
from ...compiler.networks.inputs import InputSpec
from ...compiler.task import Task
from ...compiler.tvm_compat import parse_target
from ...dataset.hardware import Hardware
from ...dataset.records.database_export import database_folder_name
from ...dataset.records.database_lines import (
    RECORD_FILE,
    WORKLOAD_FILE,
    StoredRecord,
    parsed_record,
    parsed_workload,
)
from ...dataset.records.exchange import HERE, find_hardware
from ...files import check_writable
from ..database.folder import DEVICE_FILE, read_device, read_rounds, whole_lines
from ..database.task_note import TaskNote
from ..database.tuning_notes import NOTES_FILE, TuningNotes
from .archive import BundleError
from .format import SCHEMA_VERSION, Bundle, BundleTask, Manifest, write_bundle
from .reading import Warn

BEST, ALL = "best", "all"
RECORDS = (BEST, ALL)
"""Records of a task to export: the fastest, or every measured one."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class BundleExportConfig:
    """Fields of conf/bundle_export.yaml, which are the arguments of `export_bundle`."""

    bundle: Path
    database: Path
    folder: str | None = None
    records: str = BEST
    network: str | None = None
    inputs: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    batch: int = 1
    lowering: Lowering = AS_FASTEST


@dataclass(frozen=True)
class ExportReport:
    """Summary of an export."""

    path: Path
    bundle: Bundle
    missing: Sequence[str]
    """Names of the network's tasks that the database neither has a schedule nor a decision for."""


def export_bundle(
    bundle: str | Path,
    database: str | Path = "outputs/tuning-database",
    *,
    folder: str | None = None,
    network: str | None = None,
    inputs: Sequence[InputSpec] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    batch: int = 1,
    lowering: Lowering = AS_FASTEST,
    records: str = BEST,
    warn: Warn = _LOG.warning,
) -> ExportReport:
    """Writes the schedules of one target and device in a tuning database as one file.

    The file also says which tasks run without a schedule, and why.

    Args:
        bundle: file to write, which must not exist.
        database: folder that `foretune tune` filled.
        folder: name of the target's subfolder; None selects the only one.
        network: network whose tasks are exported; see `load_network` for this and the next three arguments.
        lowering: conversion of the network, as used for tuning.
        records: BEST exports the fastest schedule of each task, ALL every measured one.
        warn: receives a line about each record that is left out.

    Raises UserError, and in particular BundleError if there is nothing to export or the file cannot be
    written.
    """
    if records not in RECORDS:
        raise BundleError(f"records={records}: use one of {', '.join(RECORDS)}")
    if not Path(bundle).exists():  # which `write_bundle` refuses
        check_writable(Path(bundle), "bundle")
    found = _folder(Path(database), folder)
    target, hardware = _device(found)
    stored = _stored(found, target, warn)
    rounds, noted = read_rounds(found), TuningNotes(found / NOTES_FILE).of_tasks()
    wanted: Mapping[str, Task] | None = None
    if network is not None:
        loaded = load_network(network, inputs=inputs, batch=batch, kwargs=kwargs)
        wanted = _network_tasks(loaded, parse_target(target), lowering)
        stored = {name: task for name, task in stored.items() if name in wanted}
        noted = {name: replace(noted[name], name=wanted[name].name) for name in noted if name in wanted}
    decided = [name for name, note in noted.items() if note.decided]
    if not (stored or decided):
        raise _nothing_in(found, network)
    tasks: list[BundleTask] = []
    kept: list[StoredRecord] = []
    for number, (name, task) in enumerate(stored.items()):
        measured = task.fastest(1 if records == BEST else None)
        described = task.described() if wanted is None else wanted[name]
        tasks.append(_entry(name, described, measured, rounds.get(name, (0, 0))))
        kept += [replace(record, workload=number) for record in measured]
    lines = [task.line for task in stored.values()]
    manifest = _manifest(tasks, list(noted.values()), network or "", target, hardware)
    written = write_bundle(Path(bundle), Bundle(manifest, lines, kept))
    known = {*stored, *decided}
    missing = [task.name for name, task in (wanted or {}).items() if name not in known]
    return ExportReport(Path(bundle), written, missing)


def _nothing_in(folder: Path, network: str | None) -> BundleError:
    lacks = "schedules" if network is None else f"schedule of a task of network={network}"
    return BundleError(
        f"database={folder}: has no {lacks}; tune it first: foretune tune network={network or 'NAME'}"
    )


def _manifest(
    tasks: list[BundleTask], notes: list[TaskNote], network: str, target: str, hardware: Hardware
) -> Manifest:
    """Manifest of a bundle whose content has no hash yet."""
    return Manifest(
        schema_version=SCHEMA_VERSION,
        content_sha256="",
        made_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        network=network,
        target=json.loads(target),
        hardware=hardware,
        versions={"foretune": __version__, "tvm": tvm.__version__},
        tasks=tasks,
        notes=notes,
    )


def _network_tasks(network: Network, target: Target, lowering: Lowering) -> dict[str, Task]:
    """Tasks of a network and of its alternatives, by workload hash."""
    lowered = lowered_network(network, target, lowering)
    tasks = [*lowered.tasks, *offered_tasks(lowered.tasks, lowered.offers)]
    return {task.workload_hash: task for task in tasks}


def _entry(name: str, task: Task, records: Sequence[StoredRecord], rounds: tuple[int, int]) -> BundleTask:
    """Entry of the manifest; the fastest records come first."""
    return BundleTask(
        workload_hash=name,
        name=task.name,
        operator=task.operator,
        settings=dict(task.settings),
        records=len(records),
        latency_s=records[0].latency_s,
        rounds=rounds[0],
        rounds_of=rounds[1],
    )


@dataclass(frozen=True)
class _StoredTask:
    """One task of a database."""

    line: str
    records: list[StoredRecord]

    def fastest(self, most: int | None) -> list[StoredRecord]:
        """Records in the order of their latency; `most` limits their number, and None returns all."""
        return sorted(self.records, key=lambda record: record.latency_s)[:most]

    def described(self) -> Task:
        """The task, with the details that its module provides."""
        return described_task(ms.database.Workload.from_json(json.loads(self.line)).mod)


def _stored(folder: Path, target: str, warn: Warn) -> dict[str, _StoredTask]:
    """Tasks with measured schedules by workload hash; `warn` receives a line for each invalid record."""
    # A run may append to the files meanwhile: reading the records first ensures that their tasks are read
    # too.
    record_lines = whole_lines(folder / RECORD_FILE)
    tasks: list[_StoredTask | None] = []
    found: dict[str, _StoredTask] = {}
    for number, line in enumerate(whole_lines(folder / WORKLOAD_FILE), 1):
        try:
            tasks.append(found.setdefault(parsed_workload(line), _StoredTask(line, [])))
        except ValueError as error:
            tasks.append(None)
            warn(f"{folder / WORKLOAD_FILE}, line {number}: {error}; left out")
    for number, line in enumerate(record_lines, 1):
        try:
            record = parsed_record(line, len(tasks))
            task = tasks[record.workload]
            if task is None:
                raise ValueError("its task cannot be read")
            if json.dumps(record.content[2], sort_keys=True) != target:
                raise ValueError(f"it is for another target, {record.content[2]}")
            task.records.append(record)
        except ValueError as error:
            warn(f"{folder / RECORD_FILE}, line {number}: {error}; left out")
    return {name: task for name, task in found.items() if task.records}


def _folder(database: Path, name: str | None) -> Path:
    """Folder of one target and device; raises BundleError."""
    # A folder whose tasks all run without a schedule has no records.
    files = (RECORD_FILE, DEVICE_FILE)
    names = sorted({path.parent.name for file in files for path in database.glob(f"*/{file}")})
    if not names:
        raise BundleError(
            f"database={database}: holds no schedules; tune first, or give the folder that foretune tune "
            "was given as database="
        )
    if name is None and len(names) > 1:
        raise BundleError(
            f"database={database}: holds schedules of {len(names)} targets and devices; choose one, as in "
            f"folder={names[0]}: {'; '.join(_described(database / found) for found in names)}"
        )
    if name is not None and name not in names:
        raise BundleError(f"folder={name}: is not in {database}; choose one of {', '.join(names)}")
    return database / (name or names[0])


def _described(folder: Path) -> str:
    device = read_device(folder)
    return folder.name if device is None else f"{folder.name} of {device[1].name}, target {device[0]}"


def _device(folder: Path) -> tuple[str, Hardware]:
    """Target (JSON) and device of a folder.

    A folder from an earlier version does not store them. It must be exported on the machine that tuned it,
    and the function derives them from its records.
    """
    noted = read_device(folder)
    if noted is not None:
        return noted
    for line in whole_lines(folder / RECORD_FILE)[:1]:
        target = json.dumps(json.loads(line)[1][2], sort_keys=True)
        here = find_hardware(HERE, parse_target(target))
        if database_folder_name(target, here.hardware_id) == folder.name:
            return target, here
    raise BundleError(
        f"database={folder}: does not name its device, which earlier versions did not note; run foretune "
        "tune with it once on the machine that tuned it, then export it"
    )
