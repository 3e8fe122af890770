"""Plots of a report."""

from __future__ import annotations

import math
import re

import pytest
from foretune.inference.report.libraries import MARKS
from foretune.inference.report.plots import MAX_TASKS, plots, rank_correlation
from foretune.inference.run.result import ComparisonRun
from foretune.inference.run.written_library import WrittenLibrary
from support.results import NO_DATA, make_result, make_task


def test_a_comparison_run_is_drawn_and_told_beside_the_run() -> None:
    """It ended at 20 ms after 60 s; this run was there after 6 s."""
    other = ComparisonRun("stock MetaSchedule", [(5.0, math.inf), (30.0, 0.025), (60.0, 0.020)])
    (curve,) = (plot for plot in plots(make_result(comparison_runs=[other])) if plot.title == "Tuning curve")
    assert curve.caption.endswith(
        "stock MetaSchedule reached 20.0 ms after 1 min 00 s; "
        "this run reached that after 6.0 s (10.0x less time)."
    )
    assert "stock MetaSchedule" in curve.panels[0]
    early = ComparisonRun("early", [(4.0, 0.020)])
    (curve,) = (plot for plot in plots(make_result(comparison_runs=[early])) if plot.title == "Tuning curve")
    assert curve.caption.endswith("early reached 20.0 ms after 4.0 s; this run reached that after 6.0 s.")
    better = ComparisonRun("other", [(30.0, 0.001)])
    (curve,) = (plot for plot in plots(make_result(comparison_runs=[better])) if plot.title == "Tuning curve")
    assert curve.caption.endswith("other reached 1.00 ms after 30.0 s.")


def test_rank_correlation_is_averaged_over_tasks() -> None:
    reversed_order = make_task("reversed", predicted_scores=[0.1, 0.2, 0.3])
    too_few = make_task("few", predicted_scores=[0.1, 0.2], measured_latencies_s=[0.002, 0.004])
    same = make_task("same", measured_latencies_s=[0.002, 0.002, 0.002])
    # Orders: agreement is 1, reversal is -1; the other two say nothing.
    assert rank_correlation(make_result(tasks=[make_task(), too_few, same])) == pytest.approx(1.0)
    assert rank_correlation(make_result(tasks=[make_task(), reversed_order])) == pytest.approx(0.0)
    assert rank_correlation(make_result(tasks=[too_few, same])) is None


def test_plots_are_left_out_where_there_is_no_data() -> None:
    assert plots(NO_DATA) == []


def test_plots_survive_a_run_in_which_everything_failed() -> None:
    failed = make_task(untuned_latency_s=None, tuned_latency_s=None, measured_latencies_s=[math.inf] * 3)
    result = make_result(tasks=[failed], curve=[(0.0, 0.01)])
    assert [plot.title for plot in plots(result)] == [
        "Latency of the network",
        "Wall time by stage",
        "Predicted and measured scores",
    ]


def test_task_plot_is_limited_and_says_so() -> None:
    tasks = [make_task(f"task_{index:03d}_{'x' * 60}") for index in range(MAX_TASKS + 5)]
    plot = plots(make_result(tasks=tasks, contestants=[], curve=[], stage_s={}))[0]
    assert plot.caption.startswith(f"{MAX_TASKS} of {MAX_TASKS + 5} tasks")
    assert all("task_039_xxx" in panel and "task_040_xxx" not in panel for panel in plot.panels)


def test_the_tuning_curve_starts_at_the_first_measurement() -> None:
    result = make_result(curve=[(5.0, math.inf), (30.0, 0.02), (40.0, 0.01)])
    (curve,) = (plot for plot in plots(result) if plot.title == "Tuning curve")
    ticks = [int(text) for text in re.findall(r">(\d+)</text>", curve.panels[0])]
    assert ticks[0] == 30


def test_libraries_are_marked_in_the_tuning_curve() -> None:
    """One of them was written before the first measurement, and the last one was not timed."""
    curve = [(10.0, 0.02), (40.0, 0.01)]
    written = [WrittenLibrary(4.0, 0.03), WrittenLibrary(20.0, 0.01), WrittenLibrary(60.0)]
    marked, plain = (
        next(plot for plot in plots(make_result(curve=curve, libraries=libraries)) if "curve" in plot.title)
        for libraries in (written, written[2:])
    )
    assert MARKS in marked.caption and MARKS not in plain.caption
    ticks = [int(text) for text in re.findall(r">(\d+)</text>", marked.panels[0])]
    assert ticks[0] < 10
