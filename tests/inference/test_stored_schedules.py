"""Stored schedules beside MetaSchedule's own reading of the same folder."""

import json
import random

import pytest
from foretune.dataset.tvm_compat import trace_as_json
from foretune.inference.stored_schedules import (
    DatabaseUnreadableError,
    StoredSchedules,
    record_content,
)
from support.checkpoints import TARGET, TASK
from tvm import s_tir
from tvm.s_tir import meta_schedule as ms

RECORDS = "database_tuning_record.json"
OTHER_HASH = "0123456789abcdef"


def program(factor: int) -> str:
    """JSON of the whole trace of a program: its first loop, split by a factor."""
    schedule = s_tir.Schedule(TASK.mod)
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[0]
    schedule.split(schedule.get_loops(block)[0], [None, factor])
    return json.dumps(trace_as_json(schedule.trace))


def content(factor: int, *run_secs: float) -> list:
    return record_content(TARGET, TASK, program(factor), list(run_secs))


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
    assert len((tmp_path / "database_workload.json").read_text().splitlines()) == 1
    stored = StoredSchedules(tmp_path)
    assert stored.best_latency_s(TASK.workload_hash) == pytest.approx(1e-3 / 3)
    assert stored.best_latency_s(OTHER_HASH) is None and stored.fastest(OTHER_HASH) == []


def test_failed_measurements_count_for_nothing(tmp_path):
    StoredSchedules(tmp_path).add(TASK, [content(2, 1e-3)])
    with (tmp_path / RECORDS).open("a") as file:
        for run_secs in (None, [], [1e10], [0.0]):
            file.write(json.dumps([0, record_content(TARGET, TASK, program(4), run_secs)]) + "\n")
    assert len(StoredSchedules(tmp_path).fastest(TASK.workload_hash)) == 1


@pytest.mark.parametrize("name", [RECORDS, "database_workload.json"])
def test_an_unreadable_line_is_named(tmp_path, name):
    StoredSchedules(tmp_path).add(TASK, [content(2, 1e-3)])
    with (tmp_path / name).open("a") as file:
        file.write('["broken\n')
    with pytest.raises(DatabaseUnreadableError, match=f"{name}: line 2 cannot be read"):
        StoredSchedules(tmp_path)
