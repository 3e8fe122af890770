"""Tests of measuring the tasks of another dataset, as few-shot transfer needs it."""

from __future__ import annotations

import io

import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.dataset import generate
from foretune.dataset.generation.config import GenerateConfig
from foretune.dataset.records.store import RecordStore, StoreError
from foretune.dataset.records.stored_tasks import stored_rows, stored_task, task_row
from foretune.dataset.sampling.programs import ProgramSamplingConfig
from foretune.training.transfer.chosen_tasks import write_tasks
from rich.console import Console
from support.fake_executor import HARDWARE, FakeExecutor

TASKS = [to_task(Dense(rows=rows, in_features=32, out_features=64)) for rows in (16, 8, 32)]


@pytest.fixture
def known(tmp_path):
    """Dataset of three tasks."""
    store = RecordStore(tmp_path / "known")
    with store.writing():
        store.append_tasks([task_row(task) for task in TASKS])
    return store.folder


def run(monkeypatch, dataset, **changes):
    monkeypatch.setattr(generate, "make_executor", lambda *arguments: FakeExecutor())
    config = GenerateConfig(
        dataset=dataset,
        records_per_task=2,
        per_round=2,
        self_check=False,
        datasheet=False,
        program_sampling=ProgramSamplingConfig(sampler="random"),
        samplers=0,
        **changes,
    )
    return generate.run(config, Console(file=io.StringIO()))


def test_a_stored_task_is_the_task_that_was_stored(known):
    for task, row in zip(TASKS, stored_rows(known), strict=True):
        read = stored_task(row)
        assert read.workload_hash == row.workload_hash == task.workload_hash
        assert (read.name, read.operator, read.settings, read.flops) == (
            task.name,
            task.operator,
            dict(task.settings),
            task.flops,
        )


def test_chosen_tasks_are_measured_where_they_lie(monkeypatch, tmp_path, known):
    chosen = [TASKS[2].workload_hash, TASKS[0].workload_hash]
    folder = write_tasks(known, chosen, tmp_path / "few").folder
    assert run(monkeypatch, folder, tasks_from=folder).measured == 4
    store = RecordStore(folder)
    assert {row.workload_hash for row in store.tasks()} == set(chosen)
    assert {record.workload_hash for record in store.records()} == set(chosen)
    assert {record.hardware_id for record in store.records()} == {HARDWARE.hardware_id}
    # The same command finds everything measured.
    assert run(monkeypatch, folder, tasks_from=folder).measured == 0


def test_so_many_of_the_first_tasks_are_measured(monkeypatch, tmp_path, known):
    run(monkeypatch, tmp_path / "new", tasks_from=known, tasks=1)
    assert {row.workload_hash for row in RecordStore(tmp_path / "new").tasks()} == {TASKS[0].workload_hash}


def test_tasks_from_nowhere_are_refused(monkeypatch, tmp_path):
    with pytest.raises(StoreError, match="has no dataset"):
        run(monkeypatch, tmp_path / "new", tasks_from=tmp_path / "nothing")
