"""Which tasks of datasets compute the same shape, whatever they are fused with.

A layer of a network and an operator drawn from settings may be one convolution with other epilogues: other
workloads by their hashes, but a model that was trained on the one has all but seen the other.
"""

from __future__ import annotations

import json
from pathlib import Path

from .records import TaskRow
from .store import RecordStore


def shape_key(row: TaskRow) -> str:
    """Equal for tasks of one operator type with the same settings but for the epilogue."""
    settings = json.loads(row.settings)
    settings.pop("epilogue", None)
    # Settings of before layouts were drawn do not name the one that there was.
    if settings.get("layout", "NC").startswith("NC"):
        settings.pop("layout", None)
    return f"{row.operator} {json.dumps(settings, sort_keys=True)}"


def task_shapes(dataset: Path) -> dict[str, str]:
    """Workload hash -> shape key of the tasks of a dataset; empty where there is none. Raises StoreError."""
    return {row.workload_hash: shape_key(row) for row in RecordStore(dataset).tasks()}


def tasks_of_known_shape(tests: Path, known: Path) -> set[str]:
    """Workload hashes of the tasks of `tests` whose shape a task of `known` has, too."""
    shapes = set(task_shapes(known).values())
    return {name for name, shape in task_shapes(tests).items() if shape in shapes}
