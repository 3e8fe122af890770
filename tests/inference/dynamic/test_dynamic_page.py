"""The page of a run with dynamic shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from foretune.inference.dynamic.families import families_table, first_uses
from foretune.inference.dynamic.page import HTML, dynamic_page, sizes_table, write_page
from foretune.page import Facts, Plots, to_html
from support.made_up_dynamic import RESULT, TABLE


def test_kernels_are_named_by_the_size_from_which_they_run() -> None:
    assert first_uses(TABLE) == ["1x16", "6x16 from 6"]
    assert first_uses({**TABLE, "breakpoints": [], "chosen": [1]}) == ["6x16"]


def test_each_family_has_a_row_and_other_tasks_are_counted() -> None:
    table = families_table(RESULT.tasks)
    assert table.rows == [["fused_matmul", "n", "1", "1x16, 6x16 from 6", "2", "2.1%", "25.0%"]]
    assert table.remarks == [
        "1 further task: one kernel for all sizes.",
        "1 further task: a plain schedule for all sizes.",
    ]


def test_a_kernel_of_winograds_algorithm_is_named_by_its_tile() -> None:
    member = {"rows": 14, "panels": 1, "width": 32}
    use = {"kernel": {"tile": 4, "member": member}, "per_tile": 8.8, "at_least": 22.0}
    tasks = [{**task, "winograd": use} if task.get("tables") else task for task in RESULT.tasks]
    assert families_table(tasks).rows[0][3] == "1x16, 6x16 from 6, Winograd F(4x4, 3x3) 14x32"


def test_sizes_have_differences_and_latencies() -> None:
    table = sizes_table(RESULT)
    assert [row[0] for row in table.rows] == ["n=1, b=1", "n=40, b=2", "n=41, b=3 (beyond)"]
    assert table.rows[1][3] == "4.00" and "plain schedules" in table.note
    assert "plain schedules" not in sizes_table(replace(RESULT, sizes=RESULT.sizes[:2])).note


def test_the_headline_names_the_size_that_is_nearest_to_the_tolerance() -> None:
    facts = next(part for part in dynamic_page(RESULT).parts if isinstance(part, Facts)).facts
    assert "50 % of the tolerance, at n=40, b=2" in facts[0].detail
    assert facts[1].value == "2" and "1 of 3 symbolic tasks; 1 task with plain schedules" in facts[1].detail


def test_each_symbol_has_a_plot_of_the_latency() -> None:
    plots = next(part for part in dynamic_page(RESULT).parts if isinstance(part, Plots)).plots
    assert [plot.title for plot in plots] == ["Latency over n", "Latency over b"]


def test_a_library_for_another_machine_has_no_sizes() -> None:
    page = dynamic_page(replace(RESULT, sizes=()))
    assert "does not run here" in page.banner and "<svg" not in to_html(page)


def test_the_page_is_written_beside_the_numbers(tmp_path: Path) -> None:
    assert write_page(RESULT, tmp_path) == tmp_path / HTML
    assert "Kernels by size" in (tmp_path / HTML).read_text()
