"""The reuse tree of a report."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from foretune.inference.report.facts import facts
from foretune.inference.report.reuse import NO_PAIR, reuse_table
from foretune.inference.report.terminal import print_report
from foretune.inference.report.write import report_page
from foretune.inference.run.result import untuned_by_tasks_s
from foretune.inference.run.result_file import result_from_json, result_to_json
from foretune.page import to_html
from rich.console import Console
from support.results import make_result, make_task


def task(name, parent=None, **changes):
    of = {} if parent is None else {"parent": f"task_{parent}", "parent_hash": parent}
    return make_task(f"task_{name}", workload_hash=name, **of, **changes)


# b and c reuse a, d reuses c, e is alone, f reuses a task of an earlier run, x is a bridge.
TREE = make_result(
    tasks=[
        task("d", "c", weight=1),
        task("e", weight=1, tuned_latency_s=0.0001),
        task("b", "a", weight=4),
        task("a", weight=9, candidates_measured=32),
        task("c", "x", weight=1),
        task("f", "gone", from_database=True, candidates_measured=0, weight=5),
        task("x", "a", weight=0, untuned_latency_s=None),
    ]
)


def test_each_task_stands_below_its_parent():
    names = [row[0].replace("\u00a0", " ") for row in reuse_table(TREE).rows]
    assert names == [
        "task_a",
        "├─ task_b",
        "└─ task_x",
        "   └─ task_c",
        "      └─ task_d",
        "task_gone",
        "└─ task_f",
        "task_e",
    ]


def test_a_row_says_how_a_task_was_searched_and_how_fast_it_is():
    rows = {row[0].split("─ ")[-1]: row[1:] for row in reuse_table(TREE).rows}
    # 0.2 GFLOP in 2 ms; 4 s of search and 1.5 s of measurement.
    assert rows["task_a"] == ["searched", "32", "2.00 ms", "100", "5.5"]
    assert rows["task_b"][0] == "reuses"
    assert rows["task_x"][0] == "bridge, reuses"
    assert rows["task_f"][0] == "in database"
    assert rows["task_gone"] == ["earlier run", "", "", "", ""]


def test_the_terminal_and_the_page_draw_it():
    out = StringIO()
    print_report(TREE, Console(file=out, width=150))
    assert "├─ task_b" in out.getvalue()
    assert "└─ task_x" in to_html(report_page(TREE))
    (fact,) = [fact for fact in facts(TREE) if fact.label == "Reuse"]
    assert fact.value == "5 of 7 tasks follow others"
    assert fact.detail == "12 programs of them measured, and 35 programs of the other 2; 1 bridge added"


def test_a_file_keeps_the_tree():
    again = result_from_json(result_to_json(TREE))
    assert reuse_table(again).rows == reuse_table(TREE).rows


def test_a_run_without_reuse_has_no_tree():
    result = make_result()
    assert reuse_table(result).rows == []
    assert "Reuse between tasks" not in to_html(report_page(result))
    assert not [fact for fact in facts(result) if fact.label == "Reuse"]


def test_a_set_without_any_reuse_pair_says_so():
    result = make_result(settings={"search": {"reuse": "auto"}})
    (fact,) = [fact for fact in facts(result) if fact.label == "Reuse"]
    assert (fact.value, fact.detail) == ("none", NO_PAIR)
    assert reuse_table(result).rows == []


def test_tasks_that_are_parents_of_each_other_are_listed_once():
    circle = replace(TREE, tasks=[task("a", "b"), task("b", "a"), task("c")])
    assert sorted(row[0] for row in reuse_table(circle).rows) == ["task_a", "task_b", "task_c"]


def test_a_bridge_is_no_part_of_the_network():
    assert untuned_by_tasks_s(TREE.tasks) == pytest.approx(sum(t.weight for t in TREE.tasks) * 0.010)
