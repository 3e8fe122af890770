"""Rehearsal of the campaign without a GPU: plan, calls on machines that come and go, landing."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.paths import ROOT
from support.small_datasets import small_dataset

from benchmarks.campaign.stages import STAGES
from benchmarks.campaign.workspace import Workspace
from benchmarks.gpu_campaign import main

SCRIPT = ROOT / "benchmarks" / "gpu_campaign.py"
CALLS = 6
"""Calls that a rehearsal may take in addition to one for each stage."""

HAS_TRITON = importlib.util.find_spec("triton") is not None


def small_workspace(folder: Path, records: int, tasks: dict[str, int]) -> Workspace:
    """Workspace of the checkout, with some tasks of some datasets and so many records of each task."""
    data = folder / "data"
    for name, count in tasks.items():
        small_dataset(ROOT / "data" / name, data / name, tasks=count, records=records)
    return Workspace(folder / "home", folder / "results", data, dry_run=True)


def places(workspace: Workspace) -> list[str]:
    """Options of a rehearsal in a workspace."""
    folders = {"work": workspace.work, "results": workspace.results, "data": workspace.data}
    return ["--dry-run", *(word for name, folder in folders.items() for word in (f"--{name}", str(folder)))]


def started(stage: str, machine: Path, home: Workspace) -> subprocess.Popen[str]:
    """A call on a machine that has the work of earlier calls."""
    machine.mkdir()
    if home.work.exists():
        shutil.copytree(home.work, machine / "work")
    options = places(Workspace(machine / "work", machine / "results", home.data))
    words = [sys.executable, SCRIPT, "next", "--stage", stage, "--minutes", "6", "--out", machine / "out"]
    return subprocess.Popen(
        [*words, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=machine
    )


def rehearsed(home: Workspace, stages: Sequence[str], stop_at: str) -> str:
    """Runs the stages in calls on machines of their own, and returns what the last call printed.

    The first call is stopped as soon as a file of its work matches `stop_at`.
    """
    told = ""
    for call in range(len(stages) + CALLS):
        opened = [name for name in stages if not STAGES[name].is_done(home)]
        if not opened:
            break
        machine = home.work.with_name(f"machine-{call}")
        process = started(opened[0], machine, home)
        try:
            if not call:
                while process.poll() is None and not list(machine.glob(stop_at)):
                    time.sleep(0.2)
                process.send_signal(signal.SIGTERM)
            told, _ = process.communicate(timeout=1000)
        finally:
            process.terminate()  # if the test ends early
        assert process.returncode == 0, told
        assert main(["land", str(machine / "out"), *places(home)]) == 0
    assert all(STAGES[name].is_done(home) for name in stages), told
    return told


def planned(home: Workspace, capsys: pytest.CaptureFixture[str]) -> str:
    """Output of `plan`."""
    capsys.readouterr()
    assert main(["plan", *places(home)]) == 0
    return capsys.readouterr().out


def landed(home: Workspace) -> set[str]:
    """Benchmarks with a landed result."""
    return {path.parent.parent.name for path in home.results.glob("*/*/result.json")}


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_quick_stage_is_rehearsed_across_calls_and_machines(tmp_path, capsys):
    home = small_workspace(tmp_path, 3, {"gpu": 20, "gpu-tuned": 21})
    stages = ["transfer"]
    assert planned(home, capsys).count("  not measured  ") == sum(len(one.steps) for one in STAGES.values())
    rehearsed(home, stages, stop_at="work/runs/transfer-gpus/*/cells.json")
    plan = planned(home, capsys)
    assert "gpus  done" in plan and "cpu-to-gpu  done" in plan and "next: records." in plan
    assert landed(home) == {"transfer"}
    assert home.read_state()["calls"] > len(stages)  # the first was stopped


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_every_stage_is_rehearsed_across_calls_and_machines(tmp_path, capsys):
    home = small_workspace(tmp_path, 8, {"gpu": 40, "gpu-networks": 24, "gpu-tuned": 21})
    stages = [name for name in STAGES if name != "templates" or HAS_TRITON]
    assert "next: records." in planned(home, capsys)
    rehearsed(home, stages, stop_at="work/data/*/records-*.parquet")
    plan = planned(home, capsys)
    assert ("every step has its result" if HAS_TRITON else "next: templates.") in plan
    benchmarks = {"gpu_records", "cost_models", "gpu_networks", "transfer", "reuse_pairs", "rivals"}
    assert benchmarks <= landed(home)
    assert (home.data / "gpu-ebs").is_dir()
