"""Share of a network that is among the training records of the shipped models."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import task_row
from foretune.dataset.records.task_shapes import shape_hash

from ..common import ROOT
from ..trained_on import CPUS


@cache
def trained_shapes() -> frozenset[str]:
    """Shapes of all tasks with records, including held-out ones."""
    found = set()
    for name in CPUS:
        store = RecordStore(ROOT / "data" / name).require()
        measured = {record.workload_hash for record in store.records()}
        found |= {shape_hash(row) for row in store.tasks() if row.workload_hash in measured}
    return frozenset(found)


def in_records(network: str) -> dict[str, Any]:
    """Number of a network's tasks whose shape is in the records, and their share of its operations."""
    target = parse_target("llvm")
    tasks = extract_tasks(to_relax(load_network(network), target), target, network)
    return overlap(tasks, trained_shapes())


def overlap(tasks: Collection[Task], shapes: Collection[str]) -> dict[str, Any]:
    """The same for given tasks and shapes."""
    known = [task for task in tasks if shape_hash(task_row(task)) in shapes]
    operations = sum(task.weight * task.flops for task in tasks)
    return {
        "tasks": len(known),
        "share_of_operations": sum(task.weight * task.flops for task in known) / operations,
    }
