"""Alternatives in the report."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from foretune.inference.report.alternatives import alternative_facts, alternatives_table
from foretune.inference.report.reuse import reuse_facts
from foretune.inference.report.terminal import print_report
from foretune.inference.report.write import report_page
from foretune.inference.run.result import AlternativeResult
from foretune.inference.run.result_file import result_from_json, result_to_json
from foretune.page import to_html
from rich.console import Console
from support.results import make_result, make_task

TAKEN = AlternativeResult("fast of conv", ["conv"], ["conv_fast"], 3, 2, direct_s=4e-3, alternative_s=1e-3)
LEFT = AlternativeResult("slow of conv", ["conv"], ["conv_slow"], 3, 0, direct_s=4e-3, alternative_s=5e-3)
UNKNOWN = AlternativeResult("none of conv", ["conv"], ["conv_none"], 3, 0, direct_s=4e-3, alternative_s=None)
RESULT = make_result(alternatives=[TAKEN, LEFT, UNKNOWN])


def test_rows_have_both_latencies_and_what_was_taken() -> None:
    table = alternatives_table(RESULT)
    assert [column.title for column in table.columns] == ["Algorithm", "Direct", "Instead", "Ratio", "Taken"]
    assert table.rows == [
        ["fast of conv", "4.00 ms", "1.00 ms", "4.00x", "2 of 3"],
        ["slow of conv", "4.00 ms", "5.00 ms", "0.800x", "0 of 3"],
        ["none of conv", "4.00 ms", "-", "-", "0 of 3"],
    ]


def test_the_summary_counts_what_is_saved() -> None:
    (fact,) = alternative_facts(RESULT)
    assert fact.value == "1 of 3 alternatives taken"
    # Two places save 3 ms each.
    assert fact.detail == "taken at 2 places, where their tasks save 6.00 ms"
    assert alternative_facts(make_result()) == []
    (none,) = alternative_facts(make_result(alternatives=[LEFT]))
    assert (none.value, none.detail) == ("no alternative taken", "")


def test_page_and_terminal_show_them() -> None:
    text = StringIO()
    print_report(RESULT, Console(file=text, width=100))
    for shown in (text.getvalue(), to_html(report_page(RESULT))):
        assert "Algorithms" in shown and "slow of conv" in shown and "4.00x" in shown
    assert "<h2>Algorithms</h2>" not in to_html(report_page(make_result()))


def test_long_names_leave_room_for_the_numbers() -> None:
    text = StringIO()
    long = replace(TAKEN, name="Winograd F(2x2, 3x3) of fused_conv2d1_add1_add2_relu11")
    print_report(make_result(alternatives=[long]), Console(file=text, width=80))
    (line,) = [line for line in text.getvalue().splitlines() if "Winograd F(" in line]
    assert "_relu11" in line and "4.00x" in line and "2 of 3" in line


def test_they_survive_the_file() -> None:
    assert result_from_json(result_to_json(RESULT)).alternatives == RESULT.alternatives
    older = result_to_json(RESULT)
    del older["alternatives"]
    assert result_from_json(older).alternatives == []


def test_tasks_that_the_network_does_without_are_no_bridges() -> None:
    tasks = [
        make_task("conv", weight=0, parent="other", parent_hash="1"),
        make_task("conv_slow", weight=0, alternative=True),
        make_task("bridge", weight=0),
        make_task("other"),
    ]
    result = make_result(tasks=tasks, alternatives=[LEFT])
    assert [task.name for task in result.bridges()] == ["bridge"]
    (fact,) = reuse_facts(result)
    assert fact.detail.endswith("; 1 bridge added")
