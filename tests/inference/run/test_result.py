"""The result of a tuning run, and its file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.inference.run.result import EAGER, TUNED, UNTUNED, ComparisonRun, Contestant
from foretune.inference.run.result_file import (
    ResultFormatError,
    load_result,
    result_from_json,
    result_to_json,
    save_result,
)
from foretune.inference.run.written_library import WrittenLibrary
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import TESTS
from support.results import make_contestant, make_result, make_task


def test_derived_figures_of_a_task() -> None:
    task = make_task()
    assert task.speedup == pytest.approx(5.0)
    assert task.network_s == pytest.approx(0.004)
    assert task.measured_scores == [1.0, 0.5, 0.0]


def test_untuned_task_counts_with_its_untuned_latency() -> None:
    task = make_task(
        tuned_latency_s=None, predicted_scores=[], measured_latencies_s=[], reason="no design space"
    )
    assert task.speedup is None
    assert task.network_s == pytest.approx(0.020)
    assert task.measured_scores == []


def test_all_candidates_failed() -> None:
    task = make_task(tuned_latency_s=None, measured_latencies_s=[math.inf] * 3)
    assert task.measured_scores == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("latency", [math.inf, math.nan, 0.0, -1.0])
def test_impossible_latency_is_refused(latency: float) -> None:
    with pytest.raises(ValueError, match=r"tuned_latency_s=.*fused_conv2d_add_relu.*use None"):
        make_task(tuned_latency_s=latency)


def test_scores_without_latencies_are_refused() -> None:
    with pytest.raises(ValueError, match="3 predicted_scores and 1 measured_latencies_s"):
        make_task(measured_latencies_s=[0.002])


def test_derived_figures_of_a_result() -> None:
    result = make_result()
    assert result.speedup_over(UNTUNED) == pytest.approx(5.0)
    assert result.speedup_over(EAGER) == pytest.approx(0.5)
    assert result.speedup_over("nothing") is None
    assert result.shares() == [pytest.approx(0.2), pytest.approx(0.8)]


@pytest.mark.parametrize(
    ("difference", "match"),
    [(2e-6, True), (1e-3, True), (2e-3, False), (math.inf, False), (math.nan, False), (None, None)],
)
def test_outputs_match(difference: float | None, match: bool | None) -> None:
    assert make_result(max_abs_difference=difference).outputs_match is match


# The file

seconds = st.floats(1e-9, 1e3)


@settings(deadline=None)  # a busy machine is no failure
@given(
    untuned=st.none() | seconds,
    tuned=st.none() | seconds,
    candidates=st.lists(st.tuples(st.floats(allow_nan=False), seconds | st.just(math.inf))),
    difference=st.none() | st.floats(0, allow_nan=False),
    name=st.text(),
)
def test_file_gives_back_the_result(
    tmp_path_factory: pytest.TempPathFactory,
    untuned: float | None,
    tuned: float | None,
    candidates: list[tuple[float, float]],
    difference: float | None,
    name: str,
) -> None:
    task = make_task(
        name.encode("utf-8", "replace").decode(),
        untuned_latency_s=untuned,
        tuned_latency_s=tuned,
        predicted_scores=[score for score, _ in candidates],
        measured_latencies_s=[latency for _, latency in candidates],
    )
    curve = [(0.0, math.inf), (1.5, 0.25)]
    libraries = [WrittenLibrary(20.5, 0.25), WrittenLibrary(90.0)]
    result = make_result(tasks=[task], max_abs_difference=difference, curve=curve, libraries=libraries)
    path = tmp_path_factory.mktemp("result") / "report.json"
    save_result(result, path)
    assert load_result(path) == result


def test_file_is_strict_json(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    settings = {"seed": np.int64(3), "folder": tmp_path, "rate": np.float32(0.5)}
    save_result(make_result(settings=settings, max_abs_difference=math.nan), tmp_path / "report.json")
    document = json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)
    assert document["schema_version"] == 1
    assert document["settings"] == {"seed": 3, "folder": str(tmp_path), "rate": 0.5}
    assert document["tasks"][0]["measured_latencies_s"] == [0.002, 0.004, None]
    restored = load_result(tmp_path / "report.json").max_abs_difference
    assert restored is not None and math.isnan(restored)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda document: document.update(schema_version=99), "schema_version=99: this release reads 1"),
        (lambda document: document.pop("network"), r"TuneResult lacks the fields \['network'\]"),
        (lambda document: document.update(extra=1), r"unknown fields \['extra'\]"),
        (lambda document: document["tasks"][0].pop("weight"), r"TaskResult lacks the fields \['weight'\]"),
        (lambda document: document["tasks"].append(3), "value of the wrong kind"),
        (lambda document: document["tasks"][0].update(tuned_latency_s=-1), "tuned_latency_s=-1"),
        (lambda document: document.update(curve=[[1]]), "value of the wrong kind"),
    ],
)
def test_broken_document_is_named(
    tmp_path: Path, edit: Callable[[dict[str, Any]], Any], message: str
) -> None:
    path = tmp_path / "report.json"
    document = result_to_json(make_result())
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ResultFormatError, match=message) as caught:
        load_result(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "not json", "[1, 2]", '"text"'])
def test_file_of_another_kind_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ResultFormatError, match=r"report\.json: (not JSON|the result is a (list|str))"):
        load_result(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultFormatError, match=r"nowhere\.json: No such file"):
        load_result(tmp_path / "nowhere.json")


def test_comparison_runs_and_profile_survive_the_file(tmp_path: Path) -> None:
    result = make_result(
        comparison_runs=[ComparisonRun("other", [(1.0, math.inf), (2.0, 0.5)])],
        profile_s={"features": 1.5},
        power_w=65.0,
    )
    save_result(result, tmp_path / "report.json")
    assert load_result(tmp_path / "report.json") == result


def test_a_file_of_before_these_fields_is_read() -> None:
    document = result_to_json(make_result())
    for name in ("comparison_runs", "profile_s", "power_w", "co2_kg_per_kwh", "simulated", "left_out"):
        del document[name]
    assert result_from_json(document) == make_result()


def test_latencies_of_older_files_are_contestants_of_one_process() -> None:
    document = result_to_json(make_result())
    kept = ("name", "median_s", "min_s", "samples_s")
    document["latencies"] = [{name: one[name] for name in kept} for one in document.pop("contestants")]
    result = result_from_json(document)
    assert [one.own_process for one in result.contestants] == [False] * 3
    assert result.speedup_over(UNTUNED) == pytest.approx(5.0)


def test_contestants_survive_the_file(tmp_path: Path) -> None:
    failed = Contestant("OpenVINO", "openvino 2026.4", error="other outputs", max_abs_difference=math.inf)
    result = make_result(contestants=[make_contestant(TUNED, 0.006, disturbed=True), failed])
    save_result(result, tmp_path / "report.json")
    assert load_result(tmp_path / "report.json") == result


def test_a_disturbed_contestant_gives_no_speed_up_and_is_not_the_best() -> None:
    contestants = [
        make_contestant(TUNED, 0.006),
        make_contestant("a", 0.001, disturbed=True),
        make_contestant("b", 0.002, error="died"),
        make_contestant("c", 0.003),
        make_contestant(UNTUNED, 0.0005),
    ]
    result = make_result(contestants=contestants)
    assert result.speedup_over("a") is None and result.speedup_over("b") is None
    best = result.best_rival()
    assert best is not None and best.name == "c"
    assert [one.name for one in result.rivals()] == ["a", "c", "b"]


def test_comparison_runs_are_read_under_their_old_name() -> None:
    result = make_result(comparison_runs=[ComparisonRun("other", [(1.0, math.inf), (2.0, 0.5)])])
    document = result_to_json(result)
    document["rivals"] = document.pop("comparison_runs")
    assert result_from_json(document) == result


def test_stored_reports_are_read() -> None:
    """Reports that earlier releases wrote."""
    paths = sorted((TESTS / "support" / "reports").glob("*.json"))
    assert len(paths) == 2
    assert all(load_result(path).tasks for path in paths)
