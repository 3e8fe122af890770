"""Sweep over public networks: its list and its runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from foretune.compiler.networks import load_network
from foretune.inference.run.result_file import result_to_json
from support.results import make_result

from benchmarks import common
from benchmarks.coverage import __main__ as command
from benchmarks.coverage import process
from benchmarks.coverage.networks import FACTORY, NETWORKS


def test_the_list_is_broad() -> None:
    assert len(NETWORKS) >= 100
    families = [entry.family for entry in NETWORKS.values()]
    assert len(set(families)) == 8
    assert {"pytorchcv", "transformers", "torchvision", "timm"} <= {entry.zoo for entry in NETWORKS.values()}


@pytest.mark.parametrize("name", ["lstm", "dcgan"])
def test_a_network_of_the_list_loads_by_its_import_path(name: str) -> None:
    network = load_network(FACTORY, inputs=NETWORKS[name].inputs, kwargs={"name": name})
    assert all(output.size for output in network.reference_outputs())


def test_inputs_are_written_as_overrides() -> None:
    entry = NETWORKS["hf_bert"]
    assert process.network_words("hf_bert", entry) == [
        f"network={FACTORY}",
        "kwargs={name:hf_bert}",
        "inputs=[{shape:[1,64],dtype:int64,high:512}]",
    ]


@pytest.mark.parametrize(
    ("status", "log", "step"),
    [
        (0, "wrote report.json", ""),
        (2, "error: network=a: torch.export failed: ValueError: no", "export"),
        (2, "noise\nerror: network=a: conversion to Relax failed: no aten.x", "conversion"),
        (2, "error: target=llvm: TVM cannot build the network with 0 of 3", "compile"),
        (2, "error: network=a: its outputs depend on random numbers of aten.x", "load"),
        (2, "error: network=a: after its conversion, output 0 differs", "outputs"),
        (2, "error: network=a: after tuning, output 0 differs", "outputs"),
        (1, "Traceback\nValueError: no", "crash"),
        (-11, "", "crash"),
    ],
)
def test_the_end_of_a_run_names_its_step(status: int, log: str, step: str) -> None:
    found, cause = process.of_end(status, log)
    assert found == step and bool(cause) == bool(step)
    assert not cause.startswith("error")


def run_of(code: str, monkeypatch: pytest.MonkeyPatch, **limits: float) -> dict[str, Any]:
    """A row of a process that runs `code` in place of `foretune tune`."""
    monkeypatch.setattr(process, "tune_command", lambda _: ["-c", code])
    allowed = {"limit_s": 60.0, "limit_mb": 4000.0, **limits}
    return process.sweep_one("lstm", NETWORKS["lstm"], [], **allowed)


def copying(report: Path) -> str:
    """Code of a process that leaves this report."""
    return (
        "import sys, shutil, pathlib; "
        "folder = pathlib.Path(next(w for w in sys.argv if w.startswith('output='))[7:]); "
        f"folder.mkdir(); shutil.copy({str(report)!r}, folder)"
    )


def test_a_row_has_what_the_report_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    made = make_result(recast=["equal of bool in int32"], profile_s={"torch.export": 2.0, "features": 1.0})
    report.write_text(json.dumps(result_to_json(made)))
    row = run_of(copying(report), monkeypatch)
    assert row["passed"] and row["family"] == "speech and sequence" and row["peak_mb"] > 0
    assert row["tasks"] == len(make_result().tasks) and row["recast"] == ["equal of bool in int32"]
    assert row["stage_s"]["torch.export"] == 2.0 and "features" not in row["stage_s"]
    assert "passed in" in command.describe(row)


def test_a_network_without_a_searched_task_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = result_to_json(make_result())
    for task in made["tasks"]:
        task.update(predicted=False, tuned_latency_s=None)
    report = tmp_path / "report.json"
    report.write_text(json.dumps(made))
    row = run_of(copying(report), monkeypatch)
    assert (row["passed"], row["step"]) == (False, "search") and row["scheduled"] == 0


def test_limits_end_a_process_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    late = run_of("import time; time.sleep(600)", monkeypatch, limit_s=0.5)
    assert (late["passed"], late["step"]) == (False, "time")
    child = (
        "import subprocess, sys; "
        "subprocess.run([sys.executable, '-c', 'import time; x = bytes([1]) * 10**8; time.sleep(600)'])"
    )
    large = run_of(child, monkeypatch, limit_mb=100.0)
    assert large["step"] == "memory" and "more than 100 MB" in large["cause"]


def row(name: str, family: str, step: str = "") -> dict[str, Any]:
    return {
        "network": name,
        "zoo": "timm",
        "family": family,
        "passed": not step,
        "step": step,
        "cause": f"network=build: {step} failed: a | b" if step else "",
        "seconds": 12.0,
        "tasks": 30,
        "recast": [],
        "stage_s": {"network to tasks": 8.0, "check that TVM builds it": 2.0},
    }


def test_a_sweep_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def sweep(name: str, entry: Any, overrides: Any, **limits: float) -> dict[str, Any]:
        ran.append(name)
        return {**row(name, entry.family), "passed": name != "gru"}

    monkeypatch.setattr(command, "sweep_one", sweep)
    hardware = {"name": "AMD EPYC", "vector_bits": 512, "details": {"vendor": "AuthenticAMD", "family": "26"}}
    monkeypatch.setattr(command, "this_machine", lambda: hardware)

    def run(*words: str) -> Any:
        ran.clear()
        folders = ["--runs-in", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", ["coverage", "--networks", "lstm", "gru", "dcgan", *folders, *words])
        command.main()
        return common.read_json(tmp_path / "out" / "coverage" / "zen5" / "result.json")

    first = run("--most", "2")
    assert ran == ["lstm", "gru"] and first["pending"] == ["dcgan"]
    assert "[2 of 3, " in capsys.readouterr().out
    second = run()
    assert ran == ["dcgan"] and (second["networks"], second["passed"], second["pending"]) == (3, 2, [])
    run("--failed")
    assert ran == ["gru"]
