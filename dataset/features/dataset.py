"""Records to features: traces are replayed on their tasks, and the result is kept in a cache.

The cache is keyed by the content of the dataset and FEATURE_VERSION, so it can be deleted at any time and is
never read for anything else.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from rich.progress import track

from ...errors import UserError
from ..hardware import Hardware
from ..records import FailureKind, Record, TaskRow
from ..store import RecordStore
from ..task_shapes import shape_hash
from . import FEATURE_VERSION
from .table import CandidateFeatures, FeatureTable, LabelledFeatures

_CACHE_VERSION = 4
"""Changes whenever a label column of `LabelledFeatures` is added or means something else."""


class EmptyDatasetError(UserError, ValueError):
    """The dataset has no record that features could be made of."""


def load_labelled_features(dataset: Path, cache: Path | None = None) -> LabelledFeatures:
    """Features and latencies of every record whose trace replays; simulated ones are told and left out.

    `cache` is a folder, by default `$XDG_CACHE_HOME/foretune`. Replaying takes about 15 ms a record and core
    the first time. Raises StoreError where there is no dataset or a damaged one, EmptyDatasetError where it
    has no records.
    """
    store = RecordStore(dataset).require()
    path = (cache or _default_cache()) / (
        f"features-v{FEATURE_VERSION}-{_CACHE_VERSION}-{store.content_hash()}.npz"
    )
    if path.exists():
        with suppress(OSError, ValueError, KeyError, BadZipFile):  # a damaged cache is made again
            return _read(path)
    labelled = _featurize(store)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, labelled)
    return labelled


def _default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "foretune"


def _featurize(store: RecordStore) -> LabelledFeatures:
    by_task: defaultdict[str, list[Record]] = defaultdict(list)
    stored = store.require_whole().records()
    measured = [record for record in stored if not record.simulated]
    if simulated := len(stored) - len(measured):
        print(f"{store.folder}: {simulated} of {len(stored)} records are simulated and left out of training")
    for record in measured:
        # A candidate that failed elsewhere than in building says nothing that a latency could teach.
        if record.failure in (None, FailureKind.RUN_TIMEOUT):
            by_task[record.workload_hash].append(record)
    hardware = store.hardware()
    work = [(row, records, hardware) for row in store.tasks() if (records := by_task.get(row.workload_hash))]
    features: list[CandidateFeatures] = []
    kept: list[tuple[TaskRow, Record, Work]] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as processes:
        results = processes.map(_task_rows, work)
        for (row, records, _), (task, rows) in track(
            zip(work, results, strict=True), description="features", total=len(work), transient=True
        ):
            for record, candidate in zip(records, rows, strict=True):
                if candidate is not None:
                    features.append(candidate)
                    kept.append((row, record, task))
    if not features:
        raise EmptyDatasetError(
            f"dataset={store.folder}: no record with a latency that replays; generate more with "
            "foretune-generate"
        )
    return labelled(FeatureTable.from_candidates(features), kept)


def labelled(features: FeatureTable, kept: Sequence[tuple[TaskRow, Record, Work]]) -> LabelledFeatures:
    """A table with what is known of the record behind each of its rows, in their order."""
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
        flops=np.array([work.flops for _, _, work in kept]),
        moved_bytes=np.array(
            [
                work.moved_bytes if record.moved_bytes is None else record.moved_bytes
                for _, record, work in kept
            ]
        ),
    )


class Work(NamedTuple):
    """What a task has to do at least."""

    flops: float
    moved_bytes: float


def _task_rows(
    work: tuple[TaskRow, list[Record], dict[str, Hardware]],
) -> tuple[Work, list[CandidateFeatures | None]]:
    """Features of the records of one task, None where a trace does not replay; run in another process."""
    import tvm

    from ..replay import replay
    from ..task import count_flops
    from ..traffic import compulsory_bytes
    from ..tvm_compat import make_tune_context, parse_target
    from .assembly import FeatureAssembler

    row, records, hardware = work
    mod = tvm.ir.load_json(row.tir)
    found: dict[int, CandidateFeatures] = {}
    groups = defaultdict(list)
    for number, record in enumerate(records):
        groups[record.target, record.hardware_id].append(number)
    for (target, hardware_id), numbers in groups.items():
        context = make_tune_context(mod, parse_target(target), seed=0, name=row.name)
        replayed = [(number, replay(context, records[number].trace)) for number in numbers]
        fitting = [(number, candidate) for number, candidate in replayed if candidate is not None]
        assembler = FeatureAssembler(hardware[hardware_id])
        rows = assembler.rows(context, [candidate for _, candidate in fitting]) if fitting else []
        found.update(zip([number for number, _ in fitting], rows, strict=True))
    least = Work(count_flops(mod), compulsory_bytes(mod))
    return least, [found.get(number) for number in range(len(records))]


def _arrays(labelled: LabelledFeatures) -> Iterator[tuple[str, np.ndarray]]:
    for field in fields(FeatureTable):
        yield f"features.{field.name}", getattr(labelled.features, field.name)
    for field in fields(LabelledFeatures):
        if field.name != "features":
            yield field.name, getattr(labelled, field.name)


def _write(path: Path, labelled: LabelledFeatures) -> None:
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, **dict(_arrays(labelled)))  # type: ignore[arg-type]
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def _read(path: Path) -> LabelledFeatures:
    with np.load(path, allow_pickle=False) as arrays:
        table = FeatureTable(
            **{field.name: arrays[f"features.{field.name}"] for field in fields(FeatureTable)}
        )
        rest = {
            field.name: arrays[field.name] for field in fields(LabelledFeatures) if field.name != "features"
        }
    return LabelledFeatures(features=table, **rest)
