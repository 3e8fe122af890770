"""Schedules before a search: the most promising template of each task."""

from __future__ import annotations

import pytest
from foretune.compiler.described_task import described_task
from foretune.compiler.replay import trace_to_json
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware.target_hardware import target_hardware
from foretune.inference.anytime.first_schedules import FirstSchedules
from foretune.inference.starts.templates import TemplateStarts
from support.schedules import database_of
from tvm.s_tir import meta_schedule as ms

from tests.support.contractions import Product

pytestmark = pytest.mark.cpu

TARGET = parse_target("llvm")


def product(columns: int) -> Task:
    return described_task(Product(32, columns, 64, epilogue="relu").module(), "dense", 1)


def test_a_task_has_its_most_promising_template_unless_a_schedule_was_measured() -> None:
    starts = TemplateStarts(TARGET, target_hardware(TARGET, measured=False), 3)
    task, without = product(64), product(67)
    schedules = FirstSchedules(TARGET, starts.first(), None)
    schedules.add([task, without])
    assert task.workload_hash in schedules and without.workload_hash not in schedules
    names = [task.workload_hash, without.workload_hash]
    both = schedules.behind(ms.database.MemoryDatabase(), names)
    found = both.query_tuning_record(task.mod, TARGET, "main")
    assert trace_to_json(found.trace) == starts.starts(task)[0].trace
    assert both.query_tuning_record(without.mod, TARGET, "main") is None
    measured = database_of([task], TARGET)
    expected = measured.query_tuning_record(task.mod, TARGET, "main")
    found = schedules.behind(measured, names).query_tuning_record(task.mod, TARGET, "main")
    assert str(found.trace) == str(expected.trace)


def test_code_that_is_too_long_is_left_out_as_in_a_search() -> None:
    starts = TemplateStarts(TARGET, target_hardware(TARGET, measured=False), 1)
    task = product(64)
    schedules = FirstSchedules(TARGET, starts, max_code=1)
    schedules.add([task])
    assert task.workload_hash not in schedules
    FirstSchedules(TARGET, None, None).add([task])  # a CPU without templates
