"""Draft vectors of a dataset's records, read from the decisions in their traces without replay.

The result has the layout of `features.dataset`: the draft vector is appended to the task vector, and the
tables of stores and decision tokens are empty. Training and evaluation accept it unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..features.dataset import EmptyDatasetError, labelled, learned_records
from ..features.table import FeatureTable, LabelledFeatures
from ..hardware import Hardware
from ..records import Record, TaskRow
from ..store import RecordStore
from .features import draft_vectors
from .read_traces import SketchReader

if TYPE_CHECKING:  # it imports TVM
    from ..program_counts import ProgramCounts


def load_draft_features(dataset: Path) -> LabelledFeatures:
    """Load draft vectors and latencies of all measured records, leaving out simulated ones.

    Nothing is cached, as a record takes about half a millisecond. Raises StoreError if the dataset is missing
    or damaged, and EmptyDatasetError if it has no record with a latency.
    """
    import tvm

    from ..features.task import task_features
    from ..program_counts import least_counts
    from ..traffic import compulsory_bytes
    from .read_structure import read_structure

    learned, hardware = learned_records(RecordStore(dataset).require())
    vectors: list[NDArray[np.float32]] = []
    devices: list[NDArray[np.float32]] = []
    kept: list[tuple[TaskRow, Record, ProgramCounts]] = []
    for row, records in learned:
        mod = tvm.ir.load_json(row.tir)
        structure, task = read_structure(mod), task_features(mod)
        least_bytes = compulsory_bytes(mod)
        for draft, number in _of_records(records, SketchReader(structure), hardware):
            vectors.append(np.concatenate([task, draft]))
            device = hardware[records[number].hardware_id]
            devices.append(device.features())
            kept.append((row, records[number], least_counts(least_bytes, structure.flops, device)))
    if not kept:
        raise EmptyDatasetError(
            f"dataset={dataset}: no measured record with a latency; generate more with foretune generate"
        )
    return labelled(draft_table(np.stack(vectors), np.stack(devices)), kept)


def _of_records(
    records: Sequence[Record], reader: SketchReader, hardware: dict[str, Hardware]
) -> list[tuple[NDArray[np.float32], int]]:
    """Draft vector [DRAFT_DIM] and index of each record of one task whose trace fits the task."""
    of_device: defaultdict[str, list[int]] = defaultdict(list)
    for number, record in enumerate(records):
        of_device[record.hardware_id].append(number)
    found: list[tuple[NDArray[np.float32], int]] = []
    for device, numbers in of_device.items():
        texts = [records[number].trace for number in numbers]
        vectors, known = draft_vectors(texts, reader, hardware[device])
        found += [(vectors[i], numbers[i]) for i in np.flatnonzero(known)]
    return sorted(found, key=lambda pair: pair[1])


def draft_table(vectors: NDArray[np.float32], hardware: NDArray[np.float32]) -> FeatureTable:
    """Feature table without tokens; `vectors` is [n, TASK_DIM + DRAFT_DIM], `hardware` [n, dim]."""
    none = np.zeros(len(vectors) + 1, dtype=np.int64)
    return FeatureTable(
        stores=np.zeros((0, 1), dtype=np.float32),
        store_offsets=none,
        decisions=np.zeros((0, 1), dtype=np.float32),
        decision_offsets=none,
        task=vectors,
        hardware=hardware,
        counts=np.zeros((len(vectors), 0), dtype=np.float32),
    )
