"""The task table, and the times in it."""

from __future__ import annotations

import pytest
from foretune.inference.report.table import rows, tasks_table
from foretune.inference.run.result import TuneResult
from foretune.wording import duration
from support.results import make_result, make_task


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (125, "2 min 05 s"), (4020, "1 h 07 min")],
)
def test_duration(time_s: float, text: str) -> None:
    assert duration(time_s) == text


def test_rows_are_sorted_by_share_with_unknown_ones_last() -> None:
    unknown = make_task("unknown", untuned_latency_s=None, tuned_latency_s=None)
    result = make_result(tasks=[unknown, *make_result().tasks])
    assert [(row.task.name, row.share) for row in rows(result)] == [
        ("fused_conv2d_add_relu", pytest.approx(0.8)),
        ("fused_dense_add", pytest.approx(0.2)),
        ("unknown", None),
    ]


def totals(result: TuneResult) -> dict[str, str]:
    """Last line of the table by column."""
    table = tasks_table(result)
    return {column.title: cell for column, cell in zip(table.columns, table.total, strict=True)}


def test_last_line_is_the_whole_network() -> None:
    footer = totals(make_result())
    assert footer == {
        "Task": "one run of the network",
        "Weight": "3",
        "GFLOP": "0.401",
        "Untuned ms": "30.0",
        "Tuned ms": "5.00",
        "Speed-up": "6.00x",
        "Scored": "1,024",
        "Measured": "6",
        "Tuning s": "11.0",
        "Of peak": "-",
        "Share": "",
    }


def test_last_line_claims_no_sum_of_a_part() -> None:
    footer = totals(make_result(tasks=[make_task(), make_task("new", untuned_latency_s=None)]))
    assert (footer["Untuned ms"], footer["Tuned ms"], footer["Speed-up"]) == ("-", "8.00", "-")
