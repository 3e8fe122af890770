"""The benchmark of random faults: its plan, its sums, and a sample that hits a small training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from support.paths import ROOT

from benchmarks.faults import __main__ as command
from benchmarks.faults.kinds import KILL_CHILD, KINDS, Fault, planned
from benchmarks.faults.subjects import SUBJECTS
from benchmarks.faults.trial import _message, is_right


def test_a_seed_plans_all_kinds_of_all_commands():
    faults = planned(72, 3, list(SUBJECTS), list(KINDS))
    assert (
        faults == planned(72, 3, list(SUBJECTS), list(KINDS)) != planned(72, 4, list(SUBJECTS), list(KINDS))
    )
    counts = Counter((fault.command, fault.kind) for fault in faults)
    assert len(counts) == 5 * 8 - 3 and set(counts.values()) <= {1, 2}
    assert {name for name, kind in counts if kind == KILL_CHILD} == {"generate", "tune"}
    assert planned(8, 3, list(SUBJECTS), list(KINDS)) == faults[:8]  # a longer plan begins with a shorter one


def test_what_must_not_happen_is_counted():
    row = {
        "lost": 2,
        "left_running": 1,
        "tracebacks": 0,
        "hung": True,
        "wrong_status": True,
        "continued": False,
    }
    fine = {**dict.fromkeys(row, 0), "continued": True}
    counts = {"lost": 2, "left_running": 1, "tracebacks": 0, "hung": 1, "wrong_status": 1, "not_continued": 1}
    assert command.summary([row, fine]) == {"faults": 2, **counts}


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ("a warning\nerror: dataset=d: is missing\nleaked 3 types", "error: dataset=d: is missing"),
        ("Traceback (most recent call last):\n  File x\n    y\nOSError: full\nmore", "OSError: full"),
        ("one\ntwo\n", "two"),
        ("", ""),
    ],
)
def test_the_line_that_says_why_is_kept(errors, message):
    assert _message(errors) == message


@pytest.mark.parametrize(
    ("command", "kind", "status", "message", "finished", "right"),
    [
        ("tune", "terminate", 143, "interrupted; the same command", False, True),
        ("tune", "terminate", 143, "", False, False),  # without a word
        ("tune", "terminate", -15, "interrupted; the same command", False, False),
        ("tune", "terminate", 0, "", True, True),  # the signal came at its end
        ("tune", "terminate", 0, "", False, False),  # the signal was swallowed
        ("tune", "hang_up", 129, "interrupted after epoch 3", False, True),
        ("tune", "hang_up", 143, "interrupted after epoch 3", False, False),
        ("tune", "kill", -9, "", False, True),
        ("load", "terminate", -15, "", False, True),  # a user's process without handlers
        ("tune", "full_disk", 2, "error: a: cannot be written", False, True),
        ("tune", "full_disk", 2, "Aborted", False, False),
        ("tune", "full_disk", 1, "error: a: cannot be written", False, False),
        ("tune", "memory", -6, "", False, False),
        ("tune", "memory", 0, "", False, True),
    ],
)
def test_exit_statuses_tell_what_happened(command, kind, status, message, finished, right):
    assert is_right(Fault(0, command, kind, 0.5, 0), status, message, finished=finished) == right


DISK = """
import os, sys, time
from pathlib import Path
from benchmarks.faults.kinds import disk, private_mounts
with disk(Path(sys.argv[1])):
    print(private_mounts(), Path(sys.argv[1]).is_mount(), flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk")
def test_a_killed_benchmark_leaves_no_disk_mounted(tmp_path):
    words = [sys.executable, "-c", DISK, str(tmp_path / "disk")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as child:
        private, mounted = child.stdout.readline().split()
        seen_here = (tmp_path / "disk").is_mount()
        child.kill()
    if private == "False":
        pytest.skip("this container allows no private mounts")
    assert (mounted, seen_here) == ("True", False)
    assert not (tmp_path / "disk").is_mount()
    (tmp_path / "disk").rmdir()  # it would be busy


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_fault_of_a_training_loses_nothing_and_leaves_nothing(tmp_path, monkeypatch):
    kinds = [kind for kind in KINDS if kind != KILL_CHILD]
    words = ["--faults", str(len(kinds)), "--commands", "train", "--kinds", *kinds]
    places = ["--runs-in", str(tmp_path / "runs"), "--dataset", str(ROOT / "data/cpu")]
    arguments = command.arguments_of([*words, *places])
    result = command.run(arguments)
    assert result["pending"] == 0 and {row["kind"] for row in result["rows"]} == set(kinds)
    assert {name: result[name] for name in command.COUNTS} == dict.fromkeys(command.COUNTS, 0), result["rows"]
    # What is kept is not run again.
    monkeypatch.setattr(command.Trials, "run", lambda *_: pytest.fail("ran again"))
    assert json.loads(json.dumps(command.run(arguments))) == result
