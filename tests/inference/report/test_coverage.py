"""The line and the table about the candidates of a run."""

from __future__ import annotations

from foretune.inference.report.coverage import coverage_facts, coverage_table
from foretune.inference.report.write import report_page
from foretune.page import to_html
from support.results import NO_DATA, make_result, make_task

SEARCHED = {
    "candidates_drafted": 4000,
    "candidates_tried": 30,
    "candidates_rejected": {"duplicate": 4, "code size": 6},
    "candidates_proposed": 20,
    "failures": {"build_error": 1},
}


def test_the_line_adds_the_tasks_up_and_names_causes_by_their_number() -> None:
    tasks = [
        make_task(**SEARCHED),
        make_task("other", **{**SEARCHED, "candidates_rejected": {"duplicate": 10}}),
    ]
    (line,) = coverage_facts(tasks)
    assert (line.label, line.value) == ("Candidates", "6 measured")
    assert line.detail == (
        "8,000 drafted, 60 tried, 20 rejected (14 duplicate, 6 code size), 40 proposed, 1,024 scored, "
        "2 failed (2 build error)"
    )


def test_a_report_of_before_the_counts_tells_what_it_knows() -> None:
    (line,) = coverage_facts([make_task()])
    assert line.detail == "512 scored, 1 failed"


def test_counts_of_zero_are_left_out() -> None:
    counts = {**SEARCHED, "candidates_rejected": {}, "candidates_measured": 0, "candidates_failed": 0}
    lists: dict[str, list[float]] = {"predicted_scores": [], "measured_latencies_s": []}
    (line,) = coverage_facts([make_task(**{**counts, **lists, "candidates_drafted": 0, "failures": {}})])
    assert (line.value, line.detail) == ("none measured", "30 tried, 20 proposed, 512 scored")


def test_a_run_without_a_search_has_no_line() -> None:
    assert coverage_facts(NO_DATA.tasks) == []
    idle = make_task(candidates_measured=0, candidates_failed=0, predicted_scores=[], measured_latencies_s=[])
    assert coverage_facts([idle]) == coverage_table([idle]).rows == []
    assert "Proposed" not in to_html(report_page(make_result(tasks=[idle])))


def test_the_page_has_a_row_for_each_task_that_was_searched() -> None:
    task = make_task(**SEARCHED)
    assert coverage_table([task]).rows == [
        [task.name, "4,000", "30", "10 (6 code size, 4 duplicate)", "20", "3", "1 (1 build error)"]
    ]
    assert "10 (6 code size, 4 duplicate)" in to_html(report_page(make_result(tasks=[task])))
