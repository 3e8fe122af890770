"""The database of a tuning run."""

import json
import math
import os
import random
import subprocess
import sys
from threading import Thread

import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.replay import trace_to_json
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target, trace_as_json
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureConfig, MeasureOutcome, WorkerPool
from foretune.dataset.sampling.programs import EvolutionaryConfig
from foretune.inference.database.folder import DatabaseUnreadableError, drop_unfinished_lines, held_briefly
from foretune.inference.database.schedule_lines import record_content
from foretune.inference.database.tuning_database import StoredSchedules, TuningDatabase
from foretune.inference.search.candidate import Candidate, MeasuredCandidate, record_json
from support.checkpoints import HARDWARE, TARGET, TASK, random_checkpoint
from support.paths import TESTS
from support.tuning import tuned
from tvm import s_tir
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return random_checkpoint(tmp_path_factory.mktemp("checkpoint") / "random")


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(TARGET, MeasureConfig(repeats=2, groups=1), workers=1) as pool:
        yield pool


def test_the_database_keeps_the_best_and_survives_a_torn_line(checkpoint, pool, tmp_path):
    assert TuningDatabase(tmp_path, TARGET, HARDWARE).best_latency_s(TASK) is None
    evolution = EvolutionaryConfig(population_size=16, generations=1)
    result, database = tuned(checkpoint, pool, tmp_path, evolution, rounds=1, top_k=4)
    ran = [latency_s for latency_s in result.measured_latencies_s if math.isfinite(latency_s)]
    assert sorted(database.latencies_s(TASK).values()) == pytest.approx(sorted(ran), rel=1e-6)
    best = result.tuned_latency_s
    assert math.isclose(database.best_latency_s(TASK), best, rel_tol=1e-6)

    records = database.folder / "database_tuning_record.json"
    whole = records.read_text()
    with records.open("a") as file:
        file.write(whole.splitlines()[0][:50])
    again = TuningDatabase(tmp_path, TARGET, HARDWARE)
    assert again.dropped_lines == 1
    assert math.isclose(again.best_latency_s(TASK), best, rel_tol=1e-6)
    assert records.read_text() == whole


def test_a_program_that_was_timed_again_has_its_shortest_latency(tmp_path):
    database = TuningDatabase(tmp_path, TARGET, HARDWARE)
    trace = Schedule(TASK.mod).trace
    program = Candidate(trace_to_json(trace), 0.5, record=record_json(trace))
    outcomes = [MeasureOutcome((seconds,)) for seconds in (3e-3, 2e-3)]
    database.commit(TASK, [MeasuredCandidate(program, outcome) for outcome in outcomes])
    assert database.latencies_s(TASK) == {program.trace: 2e-3}


def test_each_target_and_device_has_a_database_of_its_own(tmp_path):
    one_core = parse_target({"kind": "llvm", "num-cores": 1})
    folders = {
        TuningDatabase(tmp_path, target, hardware).folder
        for target in (TARGET, one_core)
        for hardware in (HARDWARE, Hardware("Other", "cpu", 2, 2.5, 256, 1, 1, 1, 1.0, 1.0))
    }
    assert len(folders) == 4


WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
OTHER_HASH = "0123456789abcdef"
OTHERS = [to_task(Dense(rows=rows, in_features=32, out_features=16)) for rows in (2, 4, 6, 10)]


def program(factor: int, task: Task = TASK) -> str:
    """JSON of the whole trace of a program: its first loop, split by a factor."""
    schedule = s_tir.Schedule(task.mod)
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[0]
    schedule.split(schedule.get_loops(block)[0], [None, factor])
    return json.dumps(trace_as_json(schedule.trace))


def content(factor: int, *run_secs: float, task: Task = TASK) -> list:
    return record_content(TARGET, task, program(factor, task), list(run_secs))


def stock(folder) -> ms.database.JSONDatabase:
    return ms.database.JSONDatabase(work_dir=str(folder), module_equality="structural")


def as_json(records) -> list[str]:
    return [json.dumps(record.as_json()) for record in records]


def test_records_are_those_of_stock_tvm_in_its_order(tmp_path):
    draw = random.Random(0)
    stored = StoredSchedules(tmp_path)
    for factor in range(1, 9):
        # Equal means stay in the order of their age.
        stored.add(TASK, [content(factor, *draw.choice([(2e-3,), (1e-3, 3e-3), (5e-4,), (7e-4, 7e-4)]))])
    again = StoredSchedules(tmp_path)
    theirs = stock(tmp_path)
    expected = as_json(theirs.get_top_k(theirs.commit_workload(TASK.mod), 100))
    assert len(expected) == 8
    for found in (stored, again):
        assert as_json(found.fastest(TASK.workload_hash)) == expected
        assert as_json(found.fastest(TASK.workload_hash, 3)) == expected[:3]
        assert found.best_latency_s(TASK.workload_hash) == 5e-4


def test_the_best_of_each_task_compile_as_stock_tvm_compiles_them(tmp_path):
    stored = StoredSchedules(tmp_path)
    stored.add(TASK, [content(2, 2e-3), content(4, 1e-3), content(8, 3e-3)])
    best = stored.best([TASK.workload_hash, OTHER_HASH])
    assert len(best) == 1
    ours, theirs = (
        database.query_ir_module(TASK.mod, TARGET, "main") for database in (best, stock(tmp_path))
    )
    assert ours.script() == theirs.script()


def test_a_task_is_written_once_and_an_unknown_one_has_nothing(tmp_path):
    for number in range(3):
        StoredSchedules(tmp_path).add(TASK, [content(2, 1e-3 / (number + 1))])
    assert len((tmp_path / WORKLOADS).read_text().splitlines()) == 1
    stored = StoredSchedules(tmp_path)
    assert stored.best_latency_s(TASK.workload_hash) == pytest.approx(1e-3 / 3)
    assert stored.best_latency_s(OTHER_HASH) is None and stored.fastest(OTHER_HASH) == []


def test_records_are_replaced_but_for_those_that_another_run_has_added_since(tmp_path):
    stored = StoredSchedules(tmp_path)
    stored.add(TASK, [content(2, 1e-3)])
    stored.add(OTHERS[0], [content(2, 2e-3, task=OTHERS[0])])
    StoredSchedules(tmp_path).add(TASK, [content(4, 6e-3)])
    stored.add(TASK, [content(8, 5e-3)], replaces=True)
    assert stored.best_latency_s(TASK.workload_hash) == 5e-3
    again = StoredSchedules(tmp_path)
    found = again.fastest(TASK.workload_hash)
    assert [float(record.run_secs[0]) for record in found] == [5e-3, 6e-3]
    assert again.best_latency_s(OTHERS[0].workload_hash) == 2e-3
    again.add(TASK, [], replaces=True)
    assert again.best_latency_s(TASK.workload_hash) is None
    assert StoredSchedules(tmp_path).best_latency_s(TASK.workload_hash) is None


def test_failed_measurements_count_for_nothing(tmp_path):
    StoredSchedules(tmp_path).add(TASK, [content(2, 1e-3)])
    with (tmp_path / RECORDS).open("a") as file:
        for run_secs in (None, [], [1e10], [0.0]):
            file.write(json.dumps([0, record_content(TARGET, TASK, program(4), run_secs)]) + "\n")
    assert len(StoredSchedules(tmp_path).fastest(TASK.workload_hash)) == 1


@pytest.mark.parametrize("name", [RECORDS, WORKLOADS])
def test_an_unreadable_line_is_named(tmp_path, name):
    StoredSchedules(tmp_path).add(TASK, [content(2, 1e-3)])
    with (tmp_path / name).open("a") as file:
        file.write('["broken\n')
    with pytest.raises(DatabaseUnreadableError, match=f"{name}: line 2 cannot be read"):
        StoredSchedules(tmp_path)


# --- several runs at once


def test_two_open_databases_keep_each_record_under_its_own_task(tmp_path):
    first, second = StoredSchedules(tmp_path), StoredSchedules(tmp_path)
    first.add(OTHERS[0], [content(2, 1e-3, task=OTHERS[0])])
    second.add(OTHERS[1], [content(2, 2e-3, task=OTHERS[1])])
    first.add(OTHERS[1], [content(1, 3e-3, task=OTHERS[1])])
    second.add(OTHERS[0], [content(1, 4e-3, task=OTHERS[0])])
    assert len((tmp_path / WORKLOADS).read_text().splitlines()) == 2
    stored, theirs = StoredSchedules(tmp_path), stock(tmp_path)
    for task, latencies_s in ((OTHERS[0], [1e-3, 4e-3]), (OTHERS[1], [2e-3, 3e-3])):
        found = stored.fastest(task.workload_hash)
        assert [float(record.run_secs[0]) for record in found] == latencies_s
        assert theirs.query_ir_module(task.mod, TARGET, "main") is not None


ADDS = """
import os, sys
from pathlib import Path

from foretune.inference.database.tuning_database import StoredSchedules
from test_tuning_database import OTHERS, content

def add(first):
    stored = StoredSchedules(Path(sys.argv[1]))
    os.write(1, b"opened\\n")  # in one piece, beside the other process
    sys.stdin.read()  # until it is closed
    for step in range(8):
        number = (first + step) % 4 if first else -step % 4
        stored.add(OTHERS[number], [content(2, 1e-3 * (number + 1), task=OTHERS[number])] * 5)

for first in (0, 2):
    if not os.fork():
        add(first)
        os._exit(0)
sys.exit(any([os.wait()[1], os.wait()[1]]))
"""
"""Two processes add records of four tasks, each with a latency of its own, in orders that `first` decides."""


def test_two_processes_keep_each_record_under_its_own_task(tmp_path):
    path = os.pathsep.join([*sys.path, str(TESTS / "inference" / "database")])
    runs = subprocess.Popen(
        [sys.executable, "-c", ADDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert [runs.stdout.readline() for _ in range(2)] == ["opened\n"] * 2
    runs.communicate(timeout=300)
    assert runs.returncode == 0
    assert len((tmp_path / WORKLOADS).read_text().splitlines()) == 4
    stored = StoredSchedules(tmp_path)
    for number, task in enumerate(OTHERS):
        found = stored.fastest(task.workload_hash)
        assert [float(record.run_secs[0]) for record in found] == [1e-3 * (number + 1)] * 20


def test_a_line_that_another_run_is_writing_is_not_cut_off(tmp_path):
    StoredSchedules(tmp_path).add(TASK, [content(2, 1e-3)])
    records, dropped = tmp_path / RECORDS, []
    (line,) = records.read_text().splitlines()
    opening = Thread(target=lambda: dropped.append(drop_unfinished_lines(tmp_path)))
    with held_briefly(tmp_path), records.open("a") as file:
        file.write(line[:50])
        file.flush()
        opening.start()
        opening.join(0.2)
        assert opening.is_alive()
        file.write(line[50:] + "\n")
    opening.join()
    assert dropped == [0]
    assert records.read_text() == f"{line}\n{line}\n"


def test_lines_that_a_killed_run_left_unfinished_do_not_spoil_those_of_another(tmp_path):
    stored = StoredSchedules(tmp_path)
    for name in (WORKLOADS, RECORDS):
        (tmp_path / name).write_text('["unfinished')
    stored.add(TASK, [content(2, 1e-3)])
    assert StoredSchedules(tmp_path).best_latency_s(TASK.workload_hash) == 1e-3
    assert len((tmp_path / RECORDS).read_text().splitlines()) == 1
