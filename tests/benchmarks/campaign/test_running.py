"""A call ends in time, and what it has begun goes on elsewhere."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks.campaign import crate, running
from benchmarks.campaign.landing import land
from benchmarks.campaign.limits import CampaignError
from benchmarks.campaign.running import Call, next_steps, run_until
from benchmarks.campaign.stages import STAGES
from benchmarks.campaign.step import Stage, Step, runs_left_out
from benchmarks.campaign.workspace import Workspace
from benchmarks.checkouts import KEPT_COMMIT, commit_of
from benchmarks.common import ROOT as CHECKOUT

CHILD = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def stop(number, frame):
    (folder / "stopped").touch()
    sys.exit(7)
signal.signal(signal.SIGINT, stop if sys.argv[2] == "polite" else signal.SIG_IGN)
(folder / "started").touch()
time.sleep(60)
"""


def start(folder: Path, manner: str, deadline_s: float) -> int:
    command = [sys.executable, "-c", CHILD, str(folder), manner]
    return run_until(command, dict(os.environ), time.monotonic() + deadline_s)


def when_started(folder: Path, action) -> threading.Thread:
    def wait_and_act():
        while not (folder / "started").exists():
            time.sleep(0.02)
        action()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_a_run_is_told_to_stop_at_the_deadline(tmp_path):
    deadline_s = 3.0
    begin = time.monotonic()
    assert start(tmp_path, "polite", deadline_s) == 7
    assert (tmp_path / "stopped").exists()
    assert deadline_s <= time.monotonic() - begin < 30


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_stops_when_the_script_is_told_to(tmp_path, number):
    handler = signal.getsignal(number)
    thread = when_started(tmp_path, lambda: os.kill(os.getpid(), number))
    assert start(tmp_path, "polite", 50) == 7
    thread.join()
    assert (tmp_path / "stopped").exists()
    assert signal.getsignal(number) is handler


def test_a_run_that_does_not_stop_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "PATIENCE_S", 0.5)
    thread = when_started(tmp_path, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert start(tmp_path, "stubborn", 50) == -signal.SIGKILL
    thread.join()


# -- calls of a made-up campaign

COUNTING = """
import json, pathlib, signal, sys, time
results, runs = map(pathlib.Path, sys.argv[1:3])
wanted, patience_s = 4, float(sys.argv[3])
runs.mkdir(parents=True, exist_ok=True)
def write(left):
    folder = results / "counting" / "machine"
    folder.mkdir(parents=True, exist_ok=True)
    fields = ("machine command commit versions started_at finished_at load reconstructed notes").split()
    hardware = {"kind": "cuda", "name": "made up"}
    manifest = dict.fromkeys(fields) | {"benchmark": "counting", "variant": "", "hardware": hardware}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "result.json").write_text(json.dumps({"left_out": left}))
def stop(number, frame):
    sys.exit(130)
signal.signal(signal.SIGINT, stop)
for number in range(wanted):
    kept = runs / f"run-{number}.json"
    if not kept.exists():
        time.sleep(patience_s)
        kept.write_text(sys.argv[0])
        write([f"run {other}" for other in range(number + 1, wanted)])
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """One stage of one step that counts to four, slowly, and keeps each number."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "counting.py").write_text(COUNTING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setattr(running, "PACK_S", 0.5)
    words = ("counting", "{results}", "{runs}", "1.0")
    step = Step("count", words, "counting", 1.0, missing=runs_left_out, dry=words, least_s=0.5)
    known = dict(STAGES)
    STAGES.clear()
    STAGES["made up"] = Stage("made up", "four numbers", (step,))
    yield step
    STAGES.clear()
    STAGES.update(known)


def workspace(folder: Path) -> Workspace:
    return Workspace(folder / "work", folder / "results", folder / "data", dry_run=True)


def test_a_step_goes_on_in_the_next_call_on_another_machine(made_up, tmp_path, capsys):
    first, home, second = (workspace(tmp_path / name) for name in ("first", "home", "second"))
    assert next_steps(Call(first, tmp_path / "out", 3.0 / 60)) == 0  # stopped in mid-step
    begun = sorted(path.name for path in first.work.rglob("run-*.json"))
    assert 0 < len(begun) < 4
    assert "begun, lacks" in capsys.readouterr().out

    written = land(tmp_path / "out", home)
    assert written == [f"result {home.results / 'counting' / 'machine'}"]
    assert not made_up.is_done(home)
    (second.work.parent).mkdir()
    home.work.rename(second.work)  # carried to another machine
    assert next_steps(Call(second, tmp_path / "out", 8.0 / 60)) == 0
    assert made_up.is_done(second)
    # What the first machine counted was not counted again.
    for name in begun:
        assert (
            next(second.work.rglob(name)).stat().st_mtime
            < next(second.work.rglob("run-3.json")).stat().st_mtime
        )

    land(tmp_path / "out", home)
    assert made_up.is_done(home) and home.read_state()["calls"] == 2
    before = {path: path.read_bytes() for path in home.results.rglob("*.json")}
    land(tmp_path / "out", home)  # again
    assert {path: path.read_bytes() for path in home.results.rglob("*.json")} == before
    with pytest.raises(CampaignError, match="every step has its result"):
        next_steps(Call(home, tmp_path / "out", 1.0))


def test_an_older_crate_changes_nothing(made_up, tmp_path):
    home, machine = workspace(tmp_path / "home"), workspace(tmp_path / "machine")
    assert next_steps(Call(machine, tmp_path / "one", 3.0 / 60)) == 0
    assert next_steps(Call(machine, tmp_path / "two", 8.0 / 60)) == 0
    land(tmp_path / "two", home)
    with pytest.raises(CampaignError, match="is of call 1, but call 2 has landed"):
        land(tmp_path / "one", home)
    assert made_up.is_done(home)


def test_a_rehearsal_does_not_land_among_results(made_up, tmp_path):
    (tmp_path / "modules" / "counting.py").write_text(COUNTING.replace("time.sleep(patience_s)", "pass"))
    machine = workspace(tmp_path / "machine")
    assert next_steps(Call(machine, tmp_path / "out", 8.0 / 60)) == 0
    home = Workspace(tmp_path / "home" / "work", tmp_path / "home" / "results", tmp_path / "home" / "data")
    with pytest.raises(CampaignError, match="is a rehearsal"):
        land(tmp_path / "out", home)
    assert not home.results.exists()


def test_a_step_that_fails_is_told_and_what_is_there_is_packed(made_up, tmp_path, capsys):
    (tmp_path / "modules" / "counting.py").write_text("raise SystemExit('no disk space')")
    machine = workspace(tmp_path / "machine")
    assert next_steps(Call(machine, tmp_path / "out", 1.0)) == 1
    assert "failed: made up/count (status 1)" in capsys.readouterr().err
    assert crate.read(tmp_path / "out", tmp_path / "scratch").facts["calls"] == 1


def test_a_landed_dataset_is_taken_up_where_the_work_was_not_carried(tmp_path):
    (step,) = (step for step in STAGES["records"].steps if step.name == "ebs")
    here = workspace(tmp_path)
    (here.data / "gpu-ebs").mkdir(parents=True)
    (here.data / "gpu-ebs" / "records-0.parquet").write_text("landed")
    running.take_up(step, here)
    growing = here.work / "data" / "gpu-ebs" / "records-0.parquet"
    assert growing.read_text() == "landed"
    growing.write_text("grown")
    running.take_up(step, here)
    assert growing.read_text() == "grown"


def test_runs_are_kept_by_the_commit_of_the_campaign(monkeypatch, tmp_path):
    monkeypatch.setenv(KEPT_COMMIT, "of the first call")
    assert commit_of(CHECKOUT) == "of the first call"
    assert commit_of(tmp_path) is None  # another checkout
