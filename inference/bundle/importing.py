"""Import of a bundle into a tuning database: as measured on the same device, as starts on another."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from ...compiler.described_task import described_task
from ...compiler.replay import candidate_trace_json, replay
from ...compiler.tvm_compat import make_tune_context, parse_target, target_to_json
from ...dataset.hardware import Hardware
from ...dataset.records.database_export import database_folder_name
from ...dataset.records.exchange import HERE, find_hardware
from ...errors import UserError
from ...files import CannotWriteError, disk_errors, write_whole
from ...wording import counted
from ..database.fastest_template import FastestTemplate
from ..database.folder import STARTS_FILE, describe_device, held_alone, whole_lines
from ..database.predicted_schedules import PredictedSchedules
from ..database.stored_kernel_times import merge_kernel_times
from ..database.task_note import TaskNote
from ..database.tuning_notes import NOTES_FILE, TuningNotes
from .archive import BundleError
from .format import Bundle, read_bundle
from .merge import MergedTask, merge, tuned_tasks
from .reading import ReadTask, Warn, read_tasks
from .templates import merge_templates

STARTS = "starts"
"""Outcome of a task whose schedules became starting points."""

UNTUNED = "untuned"
"""Outcome of a task that the network runs without a schedule."""

PREDICTED = "predicted"
"""Outcome of a task that has only a schedule that a cost model predicted."""

LEFT_OUT = "left out"
"""Outcome of a task without a usable schedule."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImportedTask:
    """Outcome of one task of an import. Latencies are seconds of the fastest schedule on this device."""

    name: str
    operator: str
    workload_hash: str
    outcome: str
    """`added`, `improved` or `kept` (see `MergedTask`), PREDICTED, UNTUNED, STARTS or LEFT_OUT."""
    before_s: float | None
    """None for a task that had no schedule in the database, and for starting points."""
    latency_s: float | None
    schedules: int
    """Schedules or starting points added."""
    left_out: int
    """Schedules that do not apply to the task, contain instructions beyond MetaSchedule's rules and the
    templates, or describe a program that this device rejects."""


@dataclass(frozen=True)
class ImportReport:
    """Summary of an import."""

    folder: Path
    """Folder of the target and device in the database."""
    adapted: bool
    """Whether the schedules are starting points, which the next `foretune tune` measures first."""
    tasks: Sequence[ImportedTask]

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Number of tasks by outcome."""
        return Counter(task.outcome for task in self.tasks)


def import_bundle(
    bundle: str | Path,
    database: str | Path = "outputs/tuning-database",
    *,
    adapt: bool = False,
    target: str | Mapping[str, Any] | Target | None = None,
    hardware: str = HERE,
    warn: Warn = _LOG.warning,
) -> ImportReport:
    """Adds the schedules of a bundle to a tuning database: all of them, or none after an error.

    On the device that measured them, with the same target and TVM, the faster of two schedules by measured
    latency stays. With `adapt`, schedules from another device, target or TVM become starting points, which
    the next tuning run measures first. Without it, they are refused.

    Args:
        bundle: file that `export_bundle` wrote. Its latencies are trusted, and its schedules are compiled to
            native code.
        database: folder that `foretune tune` uses.
        target: target of the tuning. The default is the bundle's target or, to adapt, this machine's.
        hardware: device of the tuning, see `find_hardware`.
        warn: receives a line about each schedule that is left out.

    Raises UserError: BundleError for a problem with the bundle, DatabaseInUseError while a run tunes into the
    folder.
    """
    path = Path(bundle)
    content = read_bundle(path)
    wanted, device = _destination(path, content, target, hardware, adapt)
    differences = _differences(content, wanted, device)
    if differences and not adapt:
        raise BundleError(
            f"bundle={path}: measured {' and '.join(differences)}, so that its latencies do not hold here; "
            "with adapt=true its schedules become starting points, which the next foretune tune measures"
        )
    return _added(content, Path(database), wanted, device, bool(differences), warn)


def _added(
    content: Bundle, database: Path, wanted: Target, device: Hardware, adapt: bool, warn: Warn
) -> ImportReport:
    """Adds a bundle to the database: as starting points, or as measured for this target and device."""
    tasks = read_tasks(content, warn)
    starts = _replayed(tasks, wanted, warn) if adapt else {}
    described = target_to_json(wanted)
    folder = database / database_folder_name(described, device.hardware_id)
    merged: dict[str, MergedTask] = {}
    predicted: set[str] = set()
    further: list[ImportedTask] = []
    try:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with held_alone(folder):
            describe_device(folder, described, device)
            if adapt:
                _add_starts(folder, starts)
            else:
                merged = merge(
                    folder,
                    [task.line for task in tasks],
                    [record for task in tasks for record in task.records],
                    {task.workload_hash: task.rounds for task in tasks},
                )
                predicted = _add_predicted(folder, wanted, content, tasks)
                untuned = _adopted(folder, content, merged)
                templates = merge_templates(folder, content.templates, warn)
                kernels = _kernels(*merge_kernel_times(folder, content.kernels))
                further = [*map(_left_untuned, untuned), *map(_template, templates), *kernels]
    except CannotWriteError as error:
        raise BundleError(
            f"database={folder}: cannot be written ({error.reason}) and has the schedules that it had; "
            "free some space or name another folder, then import again"
        ) from error
    imported = [_imported(task, merged, starts, predicted) for task in tasks]
    return ImportReport(folder, adapt, [*imported, *further])


def _add_predicted(folder: Path, target: Target, bundle: Bundle, tasks: Sequence[ReadTask]) -> set[str]:
    """Adds predicted schedules and their notes to the folder; returns the tasks that have one afterwards.

    Own predictions stay: nothing tells which of two is faster.
    """
    offered = [task for task in tasks if task.predicted and task.mod is not None]
    notes = bundle.manifest.predicted_notes
    if not (offered or notes):
        return set()
    own = PredictedSchedules(folder, target)
    for read in offered:
        task = described_task(read.mod)
        if task not in own:
            own.commit(task, read.predicted)
    stored = own.stored().keys()
    own.notes.adopt(notes, stored, added=())
    return {*stored}


def _adopted(folder: Path, bundle: Bundle, merged: Mapping[str, MergedTask]) -> list[TaskNote]:
    """Adds the bundle's notes to the folder, and returns those on tasks without a schedule in either."""
    added = {name for name, task in merged.items() if task.before_s is None}
    tuned = tuned_tasks(folder)
    TuningNotes(folder / NOTES_FILE).adopt(bundle.manifest.notes, tuned, added)
    return [note for note in bundle.manifest.decided if note.workload_hash not in tuned]


def _template(found: tuple[str, FastestTemplate, MergedTask]) -> ImportedTask:
    name, template, merged = found
    return ImportedTask(
        *(template.title, "template", name, merged.outcome, merged.before_s, merged.latency_s),
        schedules=merged.added,
        left_out=0,
    )


def _kernels(added: int, kept: int) -> list[ImportedTask]:
    """Outcome of all kernels for dynamic shapes together, if there are any."""
    outcome = "added" if added else "kept"
    found = ImportedTask("dynamic shapes", "kernels", "", outcome, None, None, added, left_out=0)
    return [found] if added or kept else []


def _left_untuned(note: TaskNote) -> ImportedTask:
    name = note.name or note.workload_hash
    return ImportedTask(name, "", note.workload_hash, UNTUNED, None, note.untuned_s, 0, 0)


def _destination(
    path: Path, bundle: Bundle, target: str | Mapping[str, Any] | Target | None, hardware: str, adapt: bool
) -> tuple[Target, Hardware]:
    """Target and device of the import; raises BundleError for a target of another kind."""
    source = parse_target(bundle.manifest.target)
    if target is None:
        try:
            device = find_hardware(hardware, source)
        except UserError as error:
            raise BundleError(f"bundle={path}: its target is {source.kind.name}: {error}") from error
        if not adapt or not _differences(bundle, source, device):
            return source, device
    wanted = parse_target(source.kind.name if target is None else target)
    if wanted.kind.name != source.kind.name:
        raise BundleError(
            f"bundle={path}: its target is {source.kind.name}, and target={wanted.kind.name} runs other "
            f"programs; import a bundle that was tuned for {wanted.kind.name}"
        )
    return wanted, find_hardware(hardware, wanted)


def _differences(bundle: Bundle, target: Target, device: Hardware) -> list[str]:
    """Reasons why the bundle's latencies do not hold for a target and a device; empty if they hold."""
    measured, found = bundle.manifest.hardware, []
    if measured.hardware_id != device.hardware_id:
        found.append(
            f"on {measured.name} ({counted(measured.cores, 'core')}, hardware_id={measured.hardware_id}, and "
            f"here it is {device.hardware_id}, {device.name} with {counted(device.cores, 'core')})"
        )
    if bundle.target_json != target_to_json(target):
        found.append(f"for the target {bundle.target_json} (here {target_to_json(target)})")
    version = bundle.manifest.versions.get("tvm")
    if version != tvm.__version__:
        found.append(f"with TVM {version} (here {tvm.__version__})")
    return found


def _replayed(tasks: Sequence[ReadTask], target: Target, warn: Warn) -> dict[str, list[str]]:
    """Traces of the programs that replay for a target, by workload hash, in the bundle's order of latency.

    A schedule that does not replay is left out.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for task in tasks:
        if not task.records:
            continue
        context = make_tune_context(task.mod, target, seed=0, name=task.name)
        pairs = zip(task.records, task.traces, strict=True)
        for _, trace in sorted(pairs, key=lambda pair: pair[0].latency_s):
            candidate = replay(context, trace)
            if candidate is None:
                task.left_out += 1
                warn(f"task {task.name}: a schedule is left out, it does not replay for {target}")
            else:
                found[task.workload_hash].append(candidate_trace_json(candidate))
    return found


def _add_starts(folder: Path, starts: Mapping[str, Sequence[str]]) -> None:
    """Adds starting points to the folder of the database, after the existing ones."""
    notes = [
        json.dumps({"workload": name, "trace": trace}) for name, traces in starts.items() for trace in traces
    ]
    lines = dict.fromkeys([*whole_lines(folder / STARTS_FILE), *notes])
    write_whole(folder / STARTS_FILE, "".join(f"{line}\n" for line in lines))


def _imported(
    task: ReadTask,
    merged: Mapping[str, MergedTask],
    starts: Mapping[str, Sequence[str]],
    predicted: Collection[str],
) -> ImportedTask:
    name = task.workload_hash
    outcome, before_s, latency_s, schedules = LEFT_OUT, None, None, 0
    if name in merged:
        found = merged[name]
        outcome, schedules = found.outcome, found.added
        before_s, latency_s = found.before_s, found.latency_s
    elif name in starts:
        outcome, schedules = STARTS, len(starts[name])
    elif name in predicted:
        outcome, schedules = PREDICTED, 1
    return ImportedTask(
        task.name, task.operator, name, outcome, before_s, latency_s, schedules, task.left_out
    )
