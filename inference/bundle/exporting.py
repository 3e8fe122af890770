"""Export of a tuning database as a bundle: schedules, GPU templates and decisions."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

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
from ..database.predicted_schedules import PredictedSchedules
from ..database.stored_kernel_times import kernel_lines
from ..database.task_note import TaskNote
from ..database.tuning_notes import NOTES_FILE, TuningNotes
from ..run.gpu_templates import joined_calls
from .archive import BundleError
from .format import SCHEMA_VERSION, Bundle, BundleTask, Manifest, write_bundle
from .reading import Warn
from .templates import template_lines

BEST, ALL = "best", "all"
RECORDS = (BEST, ALL)
"""Records of a task to export: the fastest, or every measured one."""

_LOG = logging.getLogger(__name__)
_Part = TypeVar("_Part")


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
    """Names of the network's tasks that the database has neither a schedule nor a decision for."""


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

    The file also has GPU templates, predicted schedules and times of kernels for dynamic shapes, and says
    which tasks run without a schedule, and why.

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
    _check_options(Path(bundle), records)
    found = _folder(Path(database), folder)
    target, hardware = _device(found)
    wanted = None
    if network is not None:
        loaded = load_network(network, inputs=inputs, batch=batch, kwargs=kwargs)
        wanted = _Wanted.of(loaded, parse_target(target), lowering)
    predictions = PredictedSchedules(found, parse_target(target), read_only=True)
    stored = _wanted_of(_stored(found, target, predictions, warn), wanted)
    notes, predicted_notes = (
        _named(_wanted_of(of.of_tasks(), wanted), wanted)
        for of in (TuningNotes(found / NOTES_FILE), predictions.notes)
    )
    templates = template_lines(found, None if wanted is None else wanted.functions)
    kernels = kernel_lines(found, tvm.__version__)
    decided = {note.workload_hash for note in [*notes, *predicted_notes] if note.decided}
    if not (stored or decided or templates or (kernels and network is None)):
        raise _nothing_in(found, network)
    manifest = replace(
        _manifest(_entries(found, stored, wanted, records), network or "", target, hardware),
        notes=notes,
        predicted_notes=predicted_notes,
    )
    kept, predicted = _numbered(stored, records)
    lines = [task.line for task in stored.values()]
    written = write_bundle(Path(bundle), Bundle(manifest, lines, kept, predicted, templates, kernels))
    return ExportReport(Path(bundle), written, _missing(wanted, {*stored, *decided}))


def _missing(wanted: _Wanted | None, known: Collection[str]) -> list[str]:
    """Names of the network's tasks that are not known."""
    return [] if wanted is None else [task.name for name, task in wanted.tasks.items() if name not in known]


def _check_options(bundle: Path, records: str) -> None:
    if records not in RECORDS:
        raise BundleError(f"records={records}: use one of {', '.join(RECORDS)}")
    if not bundle.exists():  # which `write_bundle` refuses
        check_writable(bundle, "bundle")


def _nothing_in(folder: Path, network: str | None) -> BundleError:
    lacks = "schedules" if network is None else f"schedule of a task of network={network}"
    return BundleError(
        f"database={folder}: has no {lacks}; tune it first: foretune tune network={network or 'NAME'}"
    )


def _manifest(tasks: list[BundleTask], network: str, target: str, hardware: Hardware) -> Manifest:
    """Manifest of a bundle without notes, whose content has no hash yet."""
    return Manifest(
        schema_version=SCHEMA_VERSION,
        content_sha256="",
        made_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        network=network,
        target=json.loads(target),
        hardware=hardware,
        versions={"foretune": __version__, "tvm": tvm.__version__},
        tasks=tasks,
    )


@dataclass(frozen=True)
class _Wanted:
    """Entries of a database that a network uses."""

    tasks: dict[str, Task]
    """Its tasks and those of its alternatives, by workload hash."""
    functions: set[str]
    """Workload hashes of the tasks and of the calls that one GPU template computes together."""

    @classmethod
    def of(cls, network: Network, target: Target, lowering: Lowering) -> _Wanted:
        lowered = lowered_network(network, target, lowering)
        tasks = [*lowered.tasks, *offered_tasks(lowered.tasks, lowered.offers)]
        named = {task.workload_hash: task for task in tasks}
        return cls(named, {*named, *joined_calls(lowered.relax_mod, target)})


def _wanted_of(found: Mapping[str, _Part], wanted: _Wanted | None) -> dict[str, _Part]:
    """The items of a dictionary by workload hash that a network uses; all without a network."""
    return {name: part for name, part in found.items() if wanted is None or name in wanted.tasks}


def _named(notes: Mapping[str, TaskNote], wanted: _Wanted | None) -> list[TaskNote]:
    """The notes with the names that a network gives to its tasks."""
    if wanted is None:
        return [*notes.values()]
    return [replace(note, name=wanted.tasks[name].name) for name, note in notes.items()]


def _entries(
    folder: Path, stored: Mapping[str, _StoredTask], wanted: _Wanted | None, records: str
) -> list[BundleTask]:
    """Entries of the manifest."""
    rounds = read_rounds(folder)
    found = []
    for name, stored_task in stored.items():
        task = stored_task.described() if wanted is None else wanted.tasks[name]
        measured = stored_task.fastest(records)
        done, of = rounds.get(name, (0, 0))
        entry = BundleTask(
            workload_hash=name,
            name=task.name,
            operator=task.operator,
            settings=dict(task.settings),
            records=len(measured),
            latency_s=measured[0].latency_s if measured else None,
            rounds=done,
            rounds_of=of,
        )
        found.append(entry)
    return found


def _numbered(
    stored: Mapping[str, _StoredTask], records: str
) -> tuple[list[StoredRecord], list[StoredRecord]]:
    """Measured and predicted records, with the numbers of their tasks in the bundle."""
    measured, predicted = (
        [replace(record, workload=number) for number, found in enumerate(of) for record in found]
        for of in (
            [task.fastest(records) for task in stored.values()],
            [task.predicted for task in stored.values()],
        )
    )
    return measured, predicted


@dataclass(frozen=True)
class _StoredTask:
    """One task of a database."""

    line: str
    records: list[StoredRecord]
    predicted: list[StoredRecord] = field(default_factory=list)

    def fastest(self, which: str) -> list[StoredRecord]:
        """Records in the order of their latency: the first with BEST, otherwise all."""
        found = sorted(self.records, key=lambda record: record.latency_s)
        return found[:1] if which == BEST else found

    def described(self) -> Task:
        """The task, with the details that its module provides."""
        return described_task(ms.database.Workload.from_json(json.loads(self.line)).mod)


def _stored(folder: Path, target: str, predictions: PredictedSchedules, warn: Warn) -> dict[str, _StoredTask]:
    """Tasks with schedules by workload hash; `warn` receives a line for each invalid record."""
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
    found = {name: task for name, task in found.items() if task.records}
    for name, (line, record) in predictions.stored().items():
        found.setdefault(name, _StoredTask(line, [])).predicted.append(record)
    return found


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
