"""A network whose tuning a limit has stopped: the next run completes the rounds of its tasks alone."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureOutcome
from foretune.inference.database.tuning_database import ROUNDS_FILE, TuningDatabase
from foretune.inference.search.limits import Limits
from foretune.inference.workers.searchers import start_searchers
from support.drafts import CPU
from support.fake_executor import FakeExecutor
from support.searchers import network_tuner
from support.tuning import SHORT_SEARCH

TARGET = parse_target({"kind": "llvm", "num-cores": 2})


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    network = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])
    found = extract_tasks(to_relax(network, TARGET), TARGET, network.name)
    return [task for task in found if task.operator != "elementwise"][:3]


def run(tasks: list[Task], folder: Path, limits: Limits):
    """Tunes with real searches and made-up latencies, each shorter than the one before."""
    seconds = (1e-3 / n for n in itertools.count(1))
    database = TuningDatabase(folder, TARGET, CPU)
    executor = FakeExecutor(lambda job: MeasureOutcome((next(seconds),)))
    searchers = start_searchers(SHORT_SEARCH, TARGET, "cpu", CPU)
    tuner = network_tuner(SHORT_SEARCH, executor, searchers, database, limits=limits)
    return tuner, tuner.tune(tasks, [1.0] * len(tasks)), database


def test_what_had_its_quick_round_alone_gets_its_rounds_in_the_next_run(tasks, tmp_path):
    # The target is reached once each task has had its quick round.
    quick = Limits(breadth_first=True, latency_target_s=0.5)
    _, first, database = run(tasks, tmp_path, quick)
    assert [result.tuned_latency_s is not None for result in first] == [True] * 3
    assert [database.rounds_of_unfinished(task) for task in tasks] == [0, 0, 0]

    _, second, database = run(tasks, tmp_path, Limits())
    assert not any(result.from_database for result in second)
    assert [result.candidates_measured for result in second] == [4, 4, 4]
    for before, after in zip(first, second, strict=True):
        assert after.tuned_latency_s <= before.tuned_latency_s
    for task in tasks:  # nothing was measured twice
        assert len(database.latencies_s(task)) == 4 + len(first[0].measured_latencies_s)
    assert [database.rounds_of_unfinished(task) for task in tasks] == [None] * 3

    tuner, third, _ = run(tasks, tmp_path, Limits())
    assert all(result.from_database for result in third)
    assert tuner.tuned == 3


def test_rounds_survive_a_torn_line_and_databases_without_them_count_as_finished(tasks, tmp_path):
    database = TuningDatabase(tmp_path, TARGET, CPU)
    assert database.rounds_of_unfinished(tasks[0]) is None
    database.note_rounds(tasks[0], 0, 2)
    database.note_rounds(tasks[0], 1, 2)
    database.note_rounds(tasks[1], 2, 2)
    file = database.folder / ROUNDS_FILE
    whole = file.read_text()
    assert len(whole.splitlines()) == 3
    file.write_text(whole + '{"workload": "0')
    again = TuningDatabase(tmp_path, TARGET, CPU)
    assert again.dropped_lines == 1
    assert [again.rounds_of_unfinished(task) for task in tasks] == [1, None, None]
    again.note_rounds(tasks[0], 1, 2)
    assert file.read_text() == whole  # nothing new, nothing written
