"""Records that were measured before wide vectors were whole registers: which of them teach."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from foretune.compiler.replay import trace_to_json
from foretune.compiler.task import Task
from foretune.dataset.features import dataset as subject
from foretune.dataset.hardware import named_hardware
from foretune.dataset.records.schema import WIDE_VECTORS_SINCE
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import task_row
from support.products import matmul
from support.records import record
from tvm.s_tir.schedule import Schedule

SIZE = 48


def in_vectors(lanes: int) -> Schedule:
    """Matrix product with its columns in vectors."""
    schedule = Schedule(matmul(SIZE))
    block = schedule.get_sblock("product")
    i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(j, [None, lanes])
    schedule.reorder(i, outer, k, inner)
    schedule.vectorize(inner)
    return schedule


@pytest.fixture
def stored(tmp_path):
    """Makes a dataset of the program, measured at a time."""
    hardware = named_hardware("i9-9900k")
    task = task_row(Task("product", matmul(SIZE), 1, "operator", "dense", {}, 2.0 * SIZE**3))

    def make(lanes, timestamp):
        store = RecordStore(tmp_path / f"{lanes} {timestamp}")
        with store.writing():
            store.put_hardware(hardware)
            store.append_tasks([task])
            measured = replace(
                record(run_secs=(1e-3,), task=task.workload_hash),
                trace=trace_to_json(in_vectors(lanes).trace),
                hardware_id=hardware.hardware_id,
                target=json.dumps({"kind": "llvm", "num-cores": 2}),
                timestamp=timestamp,
            )
            store.append_records([measured])
        return store.folder

    return make


def test_sums_that_were_scalars_do_not_teach(tmp_path, monkeypatch, stored):
    # In this process, as starting processes would take longer than their work.
    monkeypatch.setattr(subject, "process_pool", lambda *_, **__: ThreadPoolExecutor(1))
    cache = tmp_path / "cache"
    for lanes, timestamp in ((24, WIDE_VECTORS_SINCE), (16, WIDE_VECTORS_SINCE - 1)):
        assert len(subject.load_labelled_features(stored(lanes, timestamp), cache)) == 1
    with pytest.raises(subject.EmptyDatasetError):
        subject.load_labelled_features(stored(24, WIDE_VECTORS_SINCE - 1), cache)
