"""Records of the study: of each device, equally many tasks with at most equally many programs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tvm
from foretune.dataset.features.draft_vector import DEVICE_COLUMNS, LANES, draft_vectors
from foretune.dataset.features.reading import TaskReading
from foretune.dataset.features.table import FeatureTable, LabelledFeatures, draft_table
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.datasheet.overview import read_overview
from foretune.dataset.records.schema import RECORD_SCHEMA, Record, TaskRow
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.task_shapes import shape_hash
from numpy.typing import NDArray

DATASETS = (
    *("cpu", "cpu-proposed", "cpu-last", "cpu-zen3", "cpu-zen5", "cpu-zen4"),
    *("cpu-targets", "cpu-xeon"),
)
"""Datasets in `data/` with float32 records of CPUs; a restricted target counts as a device of its own."""

REFERENCE = "a2cf6075101d"
"""Zen 4, the device of most records, on which programs are described without hardware features."""


@dataclass(frozen=True)
class Programs:
    """Records with draft vectors for the devices that measured them, and for the reference device."""

    data: LabelledFeatures
    reference: FeatureTable
    """Without the limits of decisions, which MetaSchedule derives from the target."""
    hardware: Mapping[str, Hardware]

    @classmethod
    def of(cls, store: RecordStore) -> Programs:
        """Computes the features of all records of a store."""
        hardware = store.hardware()
        of_tasks: dict[str, list[Record]] = {}
        for record in store.records():
            of_tasks.setdefault(record.workload_hash, []).append(record)
        found = [features_of(row, of_tasks[row.workload_hash], hardware) for row in store.tasks()]
        return cls(
            LabelledFeatures.concatenate([own for own, _ in found]),
            FeatureTable.concatenate([reference for _, reference in found]),
            hardware,
        )


def measured(sources: Sequence[RecordStore]) -> pa.Table:
    """Distinct records of all stores whose programs ran and were not simulated."""
    ran = []
    for source in sources:
        rows = source.columns(*RECORD_SCHEMA.names, "key")
        ran.append(rows.filter(pc.and_(pc.is_null(rows["failure"]), pc.invert(rows["simulated"]))))
    rows = pa.concat_tables(ran)
    return rows.take(np.sort(np.unique(rows["key"].to_pylist(), return_index=True)[1]))


def write_chosen(
    rows: pa.Table, sources: Sequence[RecordStore], store: RecordStore, tasks: int | None, programs: int
) -> None:
    """Writes the chosen records, their tasks and their devices into a new store.

    A peak that a chosen program exceeds becomes the rate of the fastest one.

    Args:
        rows: records of `sources`, which have their tasks and devices.
        tasks: of each device; as many as the device with the fewest has if None.
        programs: of each task, at most.
    """
    shutil.rmtree(store.folder, ignore_errors=True)
    names = [rows[name].to_numpy(zero_copy_only=False) for name in ("hardware_id", "workload_hash")]
    rows = rows.take(chosen_rows(*names, tasks, programs))
    wanted, devices = (set(rows[name].to_pylist()) for name in ("workload_hash", "hardware_id"))
    with store.writing():
        for source in sources:
            fresh = [row for row in source.tasks() if row.workload_hash in wanted]
            wanted -= {row.workload_hash for row in fresh}
            store.append_tasks(fresh)
            for name, hardware in source.hardware().items():
                if name in devices | {REFERENCE}:
                    store.put_hardware(hardware)  # which keeps the higher peaks
        store.append_columns(rows)
        for low in read_overview(store).low_peaks:
            if low.is_exceeded:
                store.put_hardware(low.raised)


def chosen_rows(
    devices: NDArray[np.object_], names: NDArray[np.object_], tasks: int | None, programs: int
) -> NDArray[np.int64]:
    """Rows of the study, given the device and the task of each row, [n].

    Tasks with at least half of `programs` are candidates. Those that most devices have measured come first,
    so that some are known from training; the others, and the programs of a task, are drawn at random.
    """
    rng = np.random.default_rng(0)
    pairs, pair, counts = np.unique(
        np.stack([devices, names]).astype(str), axis=1, return_inverse=True, return_counts=True
    )
    on_devices = dict(zip(*np.unique(pairs[1], return_counts=True), strict=True))
    usable = {}
    for device in np.unique(pairs[0]):
        own = rng.permutation(np.flatnonzero((pairs[0] == device) & (2 * counts >= programs)))
        usable[device] = sorted(own, key=lambda at: -on_devices[pairs[1][at]])
    most = tasks or min(map(len, usable.values()))
    chosen = {at for own in usable.values() for at in own[:most]}
    taken: dict[int, list[int]] = {}
    for row in rng.permutation(len(names)):
        if (at := pair[row]) in chosen and len(own := taken.setdefault(at, [])) < programs:
            own.append(row)
    return np.sort(np.concatenate(list(taken.values())))


def features_of(
    row: TaskRow, records: Sequence[Record], hardware: Mapping[str, Hardware]
) -> tuple[LabelledFeatures, FeatureTable]:
    """Records of a task with features for their own devices, and features for the reference device.

    Records whose trace cannot be read or whose code is outdated are left out.
    """
    reading = TaskReading(tvm.ir.load_json(row.tir))
    devices = np.array([record.hardware_id for record in records])
    traces = [record.trace for record in records]
    reference, known = draft_vectors(traces, reading.sketches, hardware[REFERENCE])
    own = reference.copy()
    for device in np.unique(devices).tolist():
        at = np.flatnonzero(devices == device)
        own[at], _ = draft_vectors([traces[one] for one in at], reading.sketches, hardware[device])
    reference[:, DEVICE_COLUMNS[-2:]] = 0
    register_lanes = np.array([hardware[device].vector_bits // 32 for device in devices.tolist()])
    early = np.array([record.before_wide_vectors for record in records])
    kept = np.flatnonzero(known & ~(early & splits_vectors(own, register_lanes)))
    task = np.repeat(reading.features[None], len(records), axis=0)
    vectors = {name: hardware[name].features() for name in {*devices.tolist(), REFERENCE}}
    data = LabelledFeatures(
        features=draft_table(np.hstack([task, own]), np.stack([vectors[name] for name in devices.tolist()])),
        latency_s=np.array([record.latency_s for record in records]),
        workload_hash=np.full(len(records), row.workload_hash),
        shape=np.full(len(records), shape_hash(row)),
        operator=np.full(len(records), row.operator),
        source=np.full(len(records), row.source),
        hardware_id=devices,
        target=np.array([record.target for record in records]),
        instructions=np.zeros(len(records)),
        moved_bytes=np.zeros((len(records), 4)),
    )
    there = draft_table(
        np.hstack([task, reference]), np.repeat(vectors[REFERENCE][None], len(records), axis=0)
    )
    return data.take(kept), there.take(kept)


def splits_vectors(drafts: NDArray[np.float32], register_lanes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a program's vectors are wider than a register and no power of two, [n].

    Earlier code kept the sums of some of these programs as scalars (`load_labelled_features`).
    """
    lanes = np.rint(np.exp2(drafts[:, LANES]) - 1).astype(np.int64)
    splits: NDArray[np.bool_] = (lanes > register_lanes) & (lanes & (lanes - 1) != 0)
    return splits
