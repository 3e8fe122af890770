"""Tests of counted memory traffic, from a measurement to Fasor's memory score."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from foretune.dataset import generate
from foretune.dataset.features import dataset as features_dataset
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.features.roofline import dataset_scores
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.records.database_export import export_database
from foretune.dataset.records.merge import merge_datasets
from foretune.dataset.records.schema import RECORD_SCHEMA
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.verification import problems
from foretune.dataset.sampling.programs import ProgramSamplingConfig
from rich.console import Console
from support.fake_executor import HARDWARE, FakeExecutor
from support.records import put_shard

LATENCY_S, MOVED_BYTES = 1e-3, 5e5


def generated(folder, monkeypatch, moved_bytes):
    """Dataset of one task measured by a fake device, and the printed text."""
    executor = FakeExecutor(lambda job: MeasureOutcome((LATENCY_S,), moved_bytes=moved_bytes))
    monkeypatch.setattr(generate, "make_executor", lambda *_: executor)
    monkeypatch.setattr(generate, "uncounted_reason", lambda: "made to fail")
    printed = io.StringIO()
    config = GenerateConfig(
        dataset=folder,
        tasks=1,
        records_per_task=6,
        per_round=6,
        task_sampling={"sampler": "uniform", "operators": {"dense": 1.0}, "max_flops": 2e6},
        program_sampling=ProgramSamplingConfig(sampler="random"),
        self_check=False,
        datasheet=False,
        samplers=0,
    )
    generate.run(config, Console(file=printed, width=200))
    assert all(job.count_bytes for job in executor.asked)
    return RecordStore(folder), printed.getvalue()


def test_a_run_keeps_what_was_counted(tmp_path, monkeypatch):
    store, printed = generated(tmp_path / "set", monkeypatch, MOVED_BYTES)
    assert [record.moved_bytes for record in store.records()] == [MOVED_BYTES] * 6
    assert "performance counters measured the memory traffic of 6 programs" in printed


def test_a_run_says_why_nothing_was_counted(tmp_path, monkeypatch):
    store, printed = generated(tmp_path / "set", monkeypatch, None)
    assert {record.moved_bytes for record in store.records()} == {None}
    assert "memory traffic was not counted: made to fail" in printed


def test_old_and_counted_records_unite_and_each_has_its_score(tmp_path, monkeypatch):
    counted, _ = generated(tmp_path / "counted", monkeypatch, MOVED_BYTES)
    (task,) = counted.tasks()
    rows = counted.columns(*RECORD_SCHEMA.names)
    old, new = RecordStore(tmp_path / "old"), RecordStore(tmp_path / "new")
    for store in (old, new):
        with store.writing():
            store.put_hardware(HARDWARE)
            store.append_tasks([task])
    put_shard(old, rows.slice(0, 2).drop_columns("moved_bytes"), "2")
    put_shard(new, rows.slice(2), "3")
    united = RecordStore(tmp_path / "united")
    assert merge_datasets([old, new], united).records == 6
    assert list(problems(united, replays=2)) == []
    assert sorted(record.moved_bytes or 0 for record in united.records()) == [0] * 2 + [MOVED_BYTES] * 4
    (exported,) = export_database(united, tmp_path / "databases")
    assert exported.records == 6

    # Run in this process, as starting processes would take longer than their work.
    monkeypatch.setattr(features_dataset, "process_pool", lambda *_, **__: ThreadPoolExecutor(1))
    data = load_labelled_features(united.folder, cache=tmp_path / "cache")
    memory = dataset_scores(data).memory
    # The fake device moves 1 GB/s, so 0.5 MB take half of the millisecond.
    past_caches = data.moved_bytes[:, -1]
    has_counter = past_caches == MOVED_BYTES
    assert has_counter.sum() == 4
    # Features are known before a program is measured.
    counts = np.column_stack([data.instructions, data.moved_bytes])
    past_last = counts.shape[1] - 1
    np.testing.assert_allclose(
        np.exp2(data.features.counts[:, :past_last]) - 1, counts[:, :past_last], rtol=1e-4
    )
    assert (data.features.counts[has_counter, past_last] != np.log2(1 + np.float32(MOVED_BYTES))).all()
    # The other levels come from the program throughout. Without them, 1 GB/s of the fake device decide.
    assert (data.moved_bytes[:, :-1] > 0).all() and data.instructions.min() > 0
    assert (memory >= np.minimum(past_caches / 1e9 / LATENCY_S, 1) * (1 - 1e-4)).all()
    last = dataset_scores(replace(data, moved_bytes=data.moved_bytes * [0, 0, 0, 1])).memory
    assert last[has_counter] == pytest.approx(0.5, rel=1e-4)
    assert last[~has_counter] == pytest.approx(
        np.minimum(past_caches[~has_counter] / 1e9 / LATENCY_S, 1), rel=1e-4
    )


def test_a_count_that_cannot_be_is_a_problem(tmp_path, monkeypatch):
    store, _ = generated(tmp_path / "set", monkeypatch, -1.0)
    assert any(
        text.startswith("6 records have moved_bytes that are not finite and positive")
        for text in problems(store)
    )
