"""Features of a dataset's records, by replaying traces on their tasks, with a cache for each task.

The cache key is a hash of FEATURE_VERSION and all inputs of a task's features. The hardware vectors are
inserted after reading, so a device's peaks and details are not part of the key. The cache is only an
optimisation and may be deleted at any time. After a dataset has grown or was merged, tasks with new records
are replayed with all of their records. An interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from ...cache_folder import cache_folder
from ...compiler.host.lifeline import process_pool
from ...compiler.host.threads import available_cores
from ...errors import UserError
from ...files import written_whole
from ...progress import job_progress
from ...terminal import CommandConsole
from ...wording import part_of
from ..hardware import Hardware
from ..records.low_peaks import REMEDY, fastest_gflops, low_peaks
from ..records.schema import FailureKind, Record, TaskRow
from ..records.store import RecordStore
from . import FEATURE_VERSION
from .table import CandidateFeatures, FeatureTable, LabelledFeatures

if TYPE_CHECKING:  # they import TVM
    from tvm.s_tir import meta_schedule as ms

    from ...compiler.counts.program_counts import ProgramCounts

_LOG = logging.getLogger(__name__)

_CACHE_VERSION = 12
"""Version of the cache; change it when a column of `LabelledFeatures` is added or redefined."""


class EmptyDatasetError(UserError, ValueError):
    """The dataset has no record with features and a latency."""


class FeatureProcessError(UserError, RuntimeError):
    """A process that computed features died."""


def load_labelled_features(dataset: Path, cache: Path | None = None) -> LabelledFeatures:
    """Load features and latencies of all records whose trace replays.

    Simulated records are left out. So are earlier records whose sums LLVM kept as scalars, because today's
    code of these programs is up to twenty times as fast (`wide_vectors`).

    `cache` is a folder, by default `$XDG_CACHE_HOME/foretune`. Without a cache entry, a record takes about
    25 ms of one core. Raises StoreError if the dataset is missing or damaged, EmptyDatasetError if it has no
    such record, and FeatureProcessError.
    """
    store = RecordStore(dataset).require()
    folder = cache or cache_folder()
    work = _tasks_to_featurise(store)
    found = [_read(each.path_in(folder)) for each in work]
    missing = [number for number, part in enumerate(found) if part is None]
    if missing:
        with suppress(OSError):  # the features are then computed again next time
            folder.mkdir(parents=True, exist_ok=True)
        processes = min(len(missing), available_cores())
        try:
            with process_pool(processes, without="torch") as pool:  # TVM would import it for a second
                made = pool.map(_make, [work[number] for number in missing], [folder] * len(missing))
                numbered = zip(missing, made, strict=True)
                with job_progress(CommandConsole()) as progress:
                    bar = progress.add_task("features", total=len(missing))
                    for number, part in numbered:
                        found[number] = part
                        progress.advance(bar)
        except BrokenProcessPool as error:
            raise FeatureProcessError(
                f"dataset={store.folder}: a process that computed features died, as it does without memory "
                f"left; free some and run the same command again, which goes on from what is in {folder}"
            ) from error
    parts = [part for part in found if part is not None]
    if not parts:
        raise EmptyDatasetError(
            f"dataset={store.folder}: no record with a latency has a trace that replays; generate more with "
            "foretune generate"
        )
    devices = {name: hardware for each in work for name, hardware in each.hardware.items()}
    return _with_hardware(LabelledFeatures.concatenate(parts), devices)


def _with_hardware(data: LabelledFeatures, devices: dict[str, Hardware]) -> LabelledFeatures:
    """Data with the hardware vectors of `devices`, by id; the cached ones may be older."""
    names, rows = np.unique(data.hardware_id, return_inverse=True)
    vectors = np.stack([devices[name].features() for name in names.tolist()])
    return replace(data, features=replace(data.features, hardware=vectors[rows]))


@dataclass(frozen=True)
class _TaskWork:
    """Records of one task to replay, and the devices that measured them, by id."""

    row: TaskRow
    records: list[Record]
    hardware: dict[str, Hardware]

    def path_in(self, folder: Path) -> Path:
        """Path of the cache entry."""
        row = self.row
        key = [
            FEATURE_VERSION,
            _CACHE_VERSION,
            [row.workload_hash, row.operator, row.settings, row.source, row.tir],
            # A replay reads only those facts of a device that `hardware_id` is a hash of.
            [
                [r.trace, r.target, r.hardware_id, r.before_wide_vectors, r.latency_s, r.moved_bytes]
                for r in self.records
            ],
        ]
        return folder / f"features-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.npz"


def _tasks_to_featurise(store: RecordStore) -> list[_TaskWork]:
    learned, hardware = _learned_records(store)
    return [
        _TaskWork(row, records, {record.hardware_id: hardware[record.hardware_id] for record in records})
        for row, records in learned
    ]


def _learned_records(store: RecordStore) -> tuple[list[tuple[TaskRow, list[Record]]], dict[str, Hardware]]:
    """Tasks with their measured records to learn from, and the devices of these records by id.

    Prints how many records are simulated or have no task. Raises StoreError.
    """
    by_task: defaultdict[str, list[Record]] = defaultdict(list)
    stored = store.require_intact().records()
    measured = [record for record in stored if not record.simulated]
    if simulated := len(stored) - len(measured):
        left_out = part_of(simulated, len(stored), "record")
        print(f"{store.folder}: leaving out {left_out}, as simulated")
    for record in measured:
        # Other failures have no latency to learn from.
        if record.failure in (None, FailureKind.RUN_TIMEOUT):
            by_task[record.workload_hash].append(record)
    learned = [(row, by_task.pop(row.workload_hash)) for row in store.tasks() if row.workload_hash in by_task]
    if without_task := sum(map(len, by_task.values())):
        print(
            f"{store.folder}: leaving out {part_of(without_task, len(stored), 'record')}, whose "
            "tasks it does not have; merge the dataset that has them"
        )
    devices = store.hardware_of(record.hardware_id for _, records in learned for record in records)
    for low in low_peaks(devices, fastest_gflops(learned)):
        _LOG.warning("dataset=%s: %s; %s", store.folder, low, REMEDY)
    return learned, devices


def _labelled(
    features: FeatureTable, kept: Sequence[tuple[TaskRow, Record, ProgramCounts]]
) -> LabelledFeatures:
    """Feature table with the labels of its records, in the same order.

    If a record has counters, the bytes past the last cache are the counted ones.
    """
    from ..records.task_shapes import shape_hash  # which imports TVM

    tasks = {row.workload_hash: row for row, _, _ in kept}
    shapes = {name: shape_hash(row) for name, row in tasks.items()}
    return LabelledFeatures(
        features=features,
        latency_s=np.array([record.latency_s for _, record, _ in kept]),
        workload_hash=np.array([row.workload_hash for row, _, _ in kept]),
        shape=np.array([shapes[row.workload_hash] for row, _, _ in kept]),
        operator=np.array([row.operator for row, _, _ in kept]),
        source=np.array([row.source for row, _, _ in kept]),
        hardware_id=np.array([record.hardware_id for _, record, _ in kept]),
        target=np.array([record.target for _, record, _ in kept]),
        instructions=np.array([counts.instructions for _, _, counts in kept]),
        moved_bytes=np.array(
            [
                counts.moved_bytes
                if record.moved_bytes is None
                else (*counts.moved_bytes[:-1], record.moved_bytes)
                for _, record, counts in kept
            ]
        ),
    )


def _make(work: _TaskWork, folder: Path) -> LabelledFeatures | None:
    """Features of a task's records, or None without a record; runs in another process.

    The result is written to `folder`, unless another training run has done so in the meantime.
    """
    path = work.path_in(folder)
    if (others := _read(path)) is not None:
        return others
    kept = [
        (record, *row) for record, row in zip(work.records, _task_rows(work), strict=True) if row is not None
    ]
    if not kept:
        return None
    table = FeatureTable.from_candidates([candidate for _, candidate, _ in kept])
    found = _labelled(table, [(work.row, record, counts) for record, _, counts in kept])
    with suppress(OSError):  # such as a full disk; the features are then recomputed next time
        _write(path, found)
    return found


def _task_rows(work: _TaskWork) -> list[tuple[CandidateFeatures, ProgramCounts] | None]:
    """Features and counts of each record of one task; None for a record to leave out."""
    import tvm

    from ...compiler.replay import replay
    from ...compiler.tvm_compat import make_tune_context, parse_target
    from .assembly import FeatureAssembler, count_features

    row, records = work.row, work.records
    mod = tvm.ir.load_json(row.tir)
    found: dict[int, tuple[CandidateFeatures, ProgramCounts]] = {}
    groups = defaultdict(list)
    for number, record in enumerate(records):
        groups[record.target, record.hardware_id].append(number)
    for (target, hardware_id), numbers in groups.items():
        context = make_tune_context(mod, parse_target(target), seed=0, name=row.name)
        device = work.hardware[hardware_id]
        replayed = [(number, replay(context, records[number].trace)) for number in numbers]
        fitting = [
            (number, candidate)
            for number, candidate in replayed
            if candidate is not None and not _is_outdated(records[number], candidate, device)
        ]
        candidates = [candidate for _, candidate in fitting]
        assembler = FeatureAssembler(device)
        counts = assembler.counts(context, candidates)
        rows = [
            replace(features, counts=count_features(of_program))
            for features, of_program in zip(assembler.rows(context, candidates), counts, strict=True)
        ]
        found.update(zip([number for number, _ in fitting], zip(rows, counts, strict=True), strict=True))
    return [found.get(number) for number in range(len(records))]


def _is_outdated(record: Record, candidate: ms.MeasureCandidate, device: Hardware) -> bool:
    """Whether today's code of the program is several times as fast: it keeps sums in vectors."""
    from ...compiler.codegen.wide_vectors import has_wide_sums
    from ...compiler.tvm_compat import entry_function

    if not record.before_wide_vectors or device.kind != "cpu":
        return False
    return has_wide_sums(entry_function(candidate.sch.mod), max(device.vector_bits, 32))


def _arrays(labelled: LabelledFeatures) -> Iterator[tuple[str, np.ndarray]]:
    for field in fields(FeatureTable):
        yield f"features.{field.name}", getattr(labelled.features, field.name)
    for field in fields(LabelledFeatures):
        if field.name != "features":
            yield field.name, getattr(labelled, field.name)


def _write(path: Path, labelled: LabelledFeatures) -> None:
    with written_whole(path) as partial, partial.open("wb") as file:
        np.savez(file, **dict(_arrays(labelled)))  # type: ignore[arg-type]


def _read(path: Path) -> LabelledFeatures | None:
    """Cached features at a path; None if the file is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            table = FeatureTable(
                **{field.name: arrays[f"features.{field.name}"] for field in fields(FeatureTable)}
            )
            rest = {
                field.name: arrays[field.name]
                for field in fields(LabelledFeatures)
                if field.name != "features"
            }
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return LabelledFeatures(features=table, **rest)
