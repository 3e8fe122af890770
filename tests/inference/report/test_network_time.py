"""Time of the network beside its tasks and beside the cores' peak."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from foretune.inference.report.network_time import time_notes, time_table
from foretune.inference.report.table import tasks_table
from foretune.inference.run.network_profile import CallTime, NetworkProfile
from foretune.inference.run.result import EAGER, TUNED, TuneResult
from support.results import make_contestant, make_result, make_task

CALLS = [
    CallTime("fused_conv2d_add_relu_prepacked", 1, 0.0025, "fused_conv2d_add_relu"),
    CallTime("fused_conv2d1_add_relu_prepacked", 1, 0.0023, "fused_conv2d_add_relu"),
    CallTime("fused_dense_add_prepacked", 1, 0.0007, "fused_dense_add"),
    CallTime("cumsum", 1, 0.0004),
    CallTime("vm.builtin.alloc_tensor", 5, 0.0001),
    CallTime("vm.builtin.reshape", 1, 0.00001),
]


def profiled(tuned_s: float = 0.0062, **changes: Any) -> TuneResult:
    """Tasks that take 4 ms and 1 ms alone, 4.8 ms and 0.7 ms in a run of 6.2 ms."""
    contestants = [make_contestant(TUNED, tuned_s)]
    return make_result(contestants=contestants, network_profile=NetworkProfile(0.0062, CALLS), **changes)


def test_a_network_that_its_tasks_do_not_explain_is_told_by_its_calls() -> None:
    (note,) = time_notes(profiled(0.0064))
    assert note == (
        "A run of the network takes 6.40 ms, and 6.20 ms at best; its tasks, measured alone, add up to "
        "5.00 ms at best. In the network they take 5.50 ms (fused_conv2d_add_relu +0.800 ms, fused_dense_add "
        "-0.300 ms), functions outside of tasks 0.400 ms, TVM's virtual machine 0.110 ms, and 0.190 ms pass "
        "between calls."
    )
    (cold,) = time_notes(profiled(0.0064, settings={"measure": {"cache_flush": True}}))
    assert cold.startswith(note) and "cold caches" in cold


@pytest.mark.parametrize(
    ("tuned_s", "told"), [(0.0055, False), (0.0056, True), (0.0046, False), (0.0045, True)]
)
def test_a_difference_of_up_to_a_tenth_is_not_told(tuned_s: float, told: bool) -> None:
    """5 ms is a tenth less than 5.56 ms, and a tenth more than 4.55 ms."""
    assert bool(time_notes(profiled(tuned_s))) is told


def test_the_table_groups_functions_by_task_and_sums_small_parts() -> None:
    assert time_table(profiled()).rows == [
        ["fused_conv2d_add_relu", "2", "4.80", "77.4%", "4.00"],
        ["fused_dense_add", "1", "0.700", "11.3%", "1.00"],
        ["cumsum", "1", "0.400", "6.5%", "-"],
        ["vm.builtin.alloc_tensor", "5", "0.100", "1.6%", "-"],
        ["1 other", "1", "0.0100", "0.2%", "-"],
        ["between calls", "-", "0.190", "3.1%", "-"],
        ["one run", "-", "6.20", "100.0%", "5.00"],
    ]
    assert time_table(make_result()).rows == []


def test_tasks_that_lose_most_to_the_peak_are_named_where_a_rival_is_faster() -> None:
    """At 200 GFLOP/s two convolutions of 0.2 GFLOP take 2 ms, and 1 MFLOP takes 5 us."""
    faster = [make_contestant(TUNED, 0.005), make_contestant(EAGER, 0.003)]
    (note,) = time_notes(make_result(contestants=faster, peak_gflops=200.0))
    assert note == (
        "PyTorch eager is faster by 2.00 ms. Of the time over what the cores' peak of 200 GFLOP/s allows, "
        "most is lost in fused_conv2d_add_relu 2.00 ms of 4.00 ms, fused_dense_add 0.995 ms of 1.00 ms."
    )
    slower = [make_contestant(TUNED, 0.005), make_contestant(EAGER, 0.008)]
    assert time_notes(make_result(contestants=slower, peak_gflops=200.0)) == []
    assert time_notes(make_result(contestants=faster)) == []


def test_the_task_table_tells_the_share_of_the_peak() -> None:
    assert _of_peak(make_result(peak_gflops=200.0)) == ["50%", "0%", "40%"]
    assert _of_peak(make_result()) == ["-", "-", "-"]
    unknown = make_task(untuned_latency_s=None, tuned_latency_s=None)
    assert _of_peak(make_result(tasks=[unknown], peak_gflops=200.0)) == ["-", "-"]


def test_a_peak_below_the_rate_of_a_task_is_said_to_be_disturbed_and_not_used() -> None:
    """0.2 GFLOP in 2 ms are 100 GFLOP/s."""
    disturbed = make_result(peak_gflops=80.0, contestants=[make_contestant(TUNED, 0.006)])
    assert _of_peak(disturbed) == ["-", "-", "-"]
    table = tasks_table(disturbed)
    assert "Of peak" not in [table.columns[number].title for number in table.shown]
    assert "Of peak" not in table.note
    assert time_notes(disturbed) == [
        "1 task runs faster than the cores' measured peak of 80.0 GFLOP/s: other work disturbed its "
        "measurement, so no share of it is given."
    ]
    assert _of_peak(replace(disturbed, peak_gflops=98.0))[0] == "102%"  # both are measured


def _of_peak(result: TuneResult) -> list[str]:
    """Cells of the tasks and of the last line. At 200 GFLOP/s, 0.2 GFLOP in 2 ms is half of the peak, 1 MFLOP
    in 1 ms next to nothing, and 401 MFLOP in 5 ms 40 %."""
    table = tasks_table(result)
    number = [column.title for column in table.columns].index("Of peak")
    return [row[number] for row in [*table.rows, table.total]]


def test_nothing_is_told_between_calls_that_add_up_to_more_than_the_run() -> None:
    calls = [CallTime("fused_conv2d_add_relu", 2, 0.0065, "fused_conv2d_add_relu")]
    contestants = [make_contestant(TUNED, 0.0064)]
    result = make_result(contestants=contestants, network_profile=NetworkProfile(0.0062, calls))
    (note,) = time_notes(result)
    assert "between calls" not in note and not re.search(r"(?<!\()-\d", note)
    assert "between calls" not in [row[0] for row in time_table(result).rows]
