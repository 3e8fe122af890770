"""All stages of the campaign without a GPU, in calls that are stopped, on machines that come and go."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.paths import ROOT

from benchmarks.campaign.landing import land
from benchmarks.campaign.stages import STAGES
from benchmarks.campaign.workspace import Workspace

SCRIPT = ROOT / "benchmarks" / "gpu_campaign.py"
CALLS = 6
"""Calls that the rehearsal may take."""


def started(folder: Path, stage: str, data: Path, minutes: float) -> subprocess.Popen[str]:
    words = [sys.executable, SCRIPT, "next", "--dry-run", "--stage", stage, "--minutes", str(minutes)]
    words += [
        "--work",
        folder / "work",
        "--results",
        folder / "results",
        "--data",
        data,
        "--out",
        folder / "out",
    ]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_stage_is_rehearsed_across_calls_and_machines(tmp_path):
    data = tmp_path / "data"
    for name in ("gpu", "gpu-networks", "gpu-tuned"):
        shutil.copytree(ROOT / "data" / name, data / name)
    home = Workspace(tmp_path / "home", tmp_path / "results", data, dry_run=True)
    stages = [name for name in STAGES if name != "templates" or importlib.util.find_spec("triton")]
    told, stopped = "", False
    for call in range(len(stages) + CALLS):
        opened = [name for name in stages if not STAGES[name].is_done(home)]
        if not opened:
            break
        machine = tmp_path / f"machine-{call}"
        machine.mkdir()
        if home.work.exists():
            shutil.copytree(home.work, machine / "work")
        process = started(machine, opened[0], data, 6.0)
        if not stopped:  # in the middle of the first step
            stopped = True
            while process.poll() is None and not list(machine.glob("work/data/*/records-*.parquet")):
                time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=1000)
        assert process.returncode == 0, told
        land(machine / "out", home)
    assert all(STAGES[name].is_done(home) for name in stages), told
    landed = {path.parent.parent.name for path in home.results.glob("*/*/result.json")}
    assert {"gpu_records", "cost_models", "gpu_networks", "transfer", "reuse_pairs", "rivals"} <= landed
    assert (data / "gpu-ebs").is_dir()
