"""Design spaces of a dataset's tasks, read from the traces of their records without MetaSchedule.

A space has the domains of its decisions; compute locations that no rule determines come from the records.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...compiler.structure.space import Choices, SketchSpace
from ...compiler.structure.structure import TaskStructure
from ..hardware import Hardware
from ..records.schema import Record, TaskRow
from ..records.store import RecordStore
from ..records.task_shapes import shape_hash
from .dataset import EmptyDatasetError

MOST_TILES = 20_000
"""Most values of a decision; a larger table needs seconds to build and belongs to no task that matters."""


@dataclass(frozen=True, eq=False)
class RecordedSpace:
    """One sketch of a task on the device of its records."""

    workload_hash: str
    shape: str
    operator: str
    hardware: Hardware
    space: SketchSpace
    structure: TaskStructure
    task: NDArray[np.float32]
    """Task vector, float32 [TASK_DIM]."""
    programs: Choices
    """Programs of the records, int32 [n, n_decisions]."""
    latencies_s: NDArray[np.float64]
    """Their latencies in seconds, inf for a failure; [n]."""


def load_recorded_spaces(
    datasets: Sequence[Path], wanted: Callable[[TaskRow], bool] = lambda row: True, least: int = 4
) -> list[RecordedSpace]:
    """Spaces of the `wanted` tasks, one for each sketch with at least `least` programs on a device.

    Spaces follow the order of the datasets and their tasks. Simulated records do not count. Raises StoreError
    if a dataset is missing or damaged, and EmptyDatasetError if no task has such a sketch.
    """
    found: list[RecordedSpace] = []
    for dataset in datasets:
        store = RecordStore(dataset).require().require_intact()
        by_task: defaultdict[str, list[Record]] = defaultdict(list)
        rows = [row for row in store.tasks() if wanted(row)]
        names = {row.workload_hash for row in rows}
        for record in store.records():
            if record.workload_hash in names and not record.simulated:
                by_task[record.workload_hash].append(record)
        hardware = store.hardware_of(record.hardware_id for each in by_task.values() for record in each)
        for row in rows:
            found += _spaces_of_task(row, by_task.get(row.workload_hash, ()), hardware, least)
    if not found:
        raise EmptyDatasetError(
            f"dataset={','.join(map(str, datasets))}: no task has {least} measured programs of one sketch; "
            "generate more with foretune generate"
        )
    return found


def _spaces_of_task(
    row: TaskRow, records: Sequence[Record], hardware: dict[str, Hardware], least: int
) -> Iterator[RecordedSpace]:
    import tvm

    from ...compiler.structure.read_structure import read_structure
    from .task import task_features

    by_sketch: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        instructions = json.dumps(json.loads(record.trace)[0], separators=(",", ":"))
        by_sketch[record.hardware_id, instructions].append(record)
    kept = {key: of_sketch for key, of_sketch in by_sketch.items() if len(of_sketch) >= least}
    if not kept:
        return
    mod = tvm.ir.load_json(row.tir)
    structure, task = read_structure(mod), task_features(mod)
    for (device, _), of_sketch in kept.items():
        traces = [json.loads(record.trace) for record in of_sketch]
        try:
            space = SketchSpace.from_traces(traces, structure)
            values = [space.sketch.values_in(record.trace) for record in of_sketch]
            programs = space.choices(np.array(values, dtype=np.int64))
        except (ValueError, KeyError, IndexError, TypeError):  # of a newer TVM, or of no readable sketch
            continue
        if not len(space.domains) or space.sizes.max() > MOST_TILES or (space.sizes == 1).all():
            continue
        yield RecordedSpace(
            row.workload_hash,
            shape_hash(row),
            row.operator,
            hardware[device],
            space,
            structure,
            task,
            programs,
            np.array([record.latency_s for record in of_sketch]),
        )
