"""Runs of whole networks: what is kept of a report, which checkout runs, which networks are unseen."""

from __future__ import annotations

import json
import subprocess

import pytest
from foretune.compiler.networks.known import ZOO
from foretune.compiler.operators import Dense, to_task
from foretune.dataset.records.stored_tasks import task_row
from foretune.dataset.records.task_shapes import shape_hash
from support.paths import ROOT

from benchmarks.checkouts import cause_of, python_in, tune_command
from benchmarks.networks import runs
from benchmarks.networks.__main__ import SETS, arguments_of, describe
from benchmarks.networks.overlap import overlap
from benchmarks.networks.runs import of_report

REPORT = {
    "started_at": "2026-11-24T17:18:33+00:00",
    "total_s": 70.0,
    "stage_s": {"search and measure": 59.0, "export": 4.0},
    "latencies": [{"name": "tuned TVM", "median_s": 0.008}, {"name": "PyTorch eager", "median_s": 0.014}],
    "max_abs_difference": 1e-5,
    "tolerance": 1e-3,
    "tasks": [
        {"candidates_scored": 9, "candidates_measured": 4, "candidates_failed": 1},
        {"candidates_scored": 5, "candidates_measured": 2, "candidates_failed": 0},
    ],
}


def test_a_run_is_what_its_report_says_without_the_time_of_the_export():
    run = of_report(REPORT)
    assert run["total_s"] == 66.0
    assert run["latency_s"] == {"tuned TVM": 0.008, "PyTorch eager": 0.014}
    assert (run["tasks"], run["scored"], run["measured"], run["failed"]) == (2, 14, 6, 1)


def test_the_time_of_the_comparison_is_no_part_of_a_run():
    stages = {**REPORT["stage_s"], "start the rivals": 9.0, "time the network": 7.0}
    rows = [{"name": "tuned TVM", "median_s": 0.008}, {"name": "OpenVINO", "median_s": None}]
    report = {name: value for name, value in REPORT.items() if name != "latencies"}
    run = of_report({**report, "stage_s": stages, "contestants": rows})
    assert run["total_s"] == 70.0 - 4.0 - 9.0 - 7.0
    assert run["latency_s"] == {"tuned TVM": 0.008}


def test_networks_side_by_side_are_timed_in_three_processes_each_with_another_first(monkeypatch, tmp_path):
    orders = []
    latencies = iter([(3.0, 1.0), (1.0, 5.0), (2.0, 9.0)])

    def python_in(checkout, words, *, timeout_s):
        assert words[:3] == ["-m", "benchmarks.networks.timing", "net"]
        orders.append(words[3:])
        return "loaded\n" + json.dumps(dict(zip(("one", "two"), next(latencies), strict=True)))

    monkeypatch.setattr(runs, "python_in", python_in)
    found = runs.side_by_side("net", {"one": tmp_path / "1.so", "two": tmp_path / "2.so"})
    assert found == {"one": 2.0, "two": 5.0}
    one, two = f"one={tmp_path / '1.so'}", f"two={tmp_path / '2.so'}"
    assert orders[:2] == [[one, two], [two, one]] and len(orders) == runs.PROCESSES == 3


def test_lines_of_runs_and_of_pairs():
    run = of_report(REPORT)
    assert describe("a", 1, run) == "a, seed 1: 66.0 s, tuned TVM 8.000 ms, PyTorch eager 14.000 ms"
    pair = {"this": run, "other": run, "side_by_side_s": {"this": 0.007, "other": 0.009}}
    assert "this 66.0 s" in describe("a", 1, pair) and "side by side 9.000 ms" in describe("a", 1, pair)


def test_the_sets_are_known_networks_and_share_none():
    assert not set(SETS["headline"]) & set(SETS["unseen"])
    assert set(SETS["headline"]) | set(SETS["unseen"]) <= set(ZOO)
    assert len(SETS["unseen"]) == 8


def test_overrides_follow_two_dashes():
    arguments = arguments_of(["--set", "unseen", "--", "search.rounds=1"])
    assert (arguments.set, arguments.overrides) == ("unseen", ["search.rounds=1"])


def test_a_checkout_without_a_main_module_is_tuned_with_by_its_inference_module(tmp_path):
    assert tune_command(tmp_path) == ["-m", "foretune.inference.tune"]
    (tmp_path / "__main__.py").touch()
    assert tune_command(tmp_path) == ["-m", "foretune", "tune"]


def test_a_process_imports_foretune_from_its_checkout(tmp_path):
    package = tmp_path / ".typing" / "foretune"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("where = 'there'")
    assert (
        python_in(tmp_path, ["-c", "import foretune; print(foretune.where)"], cwd=tmp_path).strip() == "there"
    )
    here = python_in(ROOT, ["-c", "import foretune; print(foretune.__file__)"], cwd=tmp_path).strip()
    assert here == str(ROOT / ".typing" / "foretune" / "__init__.py")


def test_a_process_that_fails_says_why(tmp_path, capfd):
    with pytest.raises(subprocess.CalledProcessError):
        python_in(tmp_path, ["-c", "raise SystemExit('no such network')"], cwd=tmp_path)
    assert "no such network" in capfd.readouterr().err


def test_the_part_that_records_know_is_by_operations():
    def dense(rows, epilogue="none"):
        return to_task(Dense(rows=rows, in_features=8, out_features=8, epilogue=epilogue))

    known = {shape_hash(task_row(dense(2)))}
    found = overlap([dense(2, "bias"), dense(6)], known)
    assert found["tasks"] == 1  # another epilogue is the same shape
    assert found["share_of_operations"] == pytest.approx(0.25, abs=0.05)
    assert overlap([dense(6)], known) == {"tasks": 0, "share_of_operations": 0.0}


def test_the_cause_of_a_failed_run_is_the_last_line_that_it_wrote():
    failed = subprocess.CalledProcessError(2, ["foretune"], stderr="warning\nerror: network=x: unknown\n\n")
    assert cause_of(failed) == "error: network=x: unknown"
    assert cause_of(OSError("no such file")) == "no such file"
