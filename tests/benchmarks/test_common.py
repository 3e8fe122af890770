"""Results carry manifests, machines have names, kept runs are taken up, means are right."""

from __future__ import annotations

import json
import math

import pytest
from foretune.dataset.hardware import Hardware
from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT

from benchmarks.common import (
    MANIFEST_FIELDS,
    command_line,
    geometric_mean,
    geometric_spread,
    in_turns,
    kept_run,
    log_standard_error,
    machine_name,
    median_spread,
    rounded,
    start,
    warm_seconds,
    write_result,
)
from benchmarks.kept_runs import Progress

ZEN3 = Hardware.from_json((ROOT / "data/cpu-zen3/hardware-a3b528cb67c5.json").read_text())


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("cpu-zen3/hardware-a3b528cb67c5", "zen3"),
        ("cpu-targets/hardware-2c255348cce7", "zen4"),  # 256-bit code on a machine of 512 bits
        ("networks/hardware-a2cf6075101d", "zen4"),
        ("cpu-zen5/hardware-1d5f57630ccc", "zen5"),
        ("cpu-last/hardware-b499a7a85bfa", "xeon-167"),
    ],
)
def test_machines_are_named_by_their_description(file, name):
    assert machine_name(json.loads((ROOT / "data" / f"{file}.json").read_text())) == name


def test_a_gpu_is_named_by_what_it_calls_itself():
    assert machine_name({"name": "NVIDIA H100 80GB", "details": {}}) == "nvidia-h100-80gb"


def test_a_result_is_written_with_its_manifest(tmp_path):
    folder = write_result("networks", {"a_s": 0.12345678, "b": [math.inf]}, start(), ZEN3, results=tmp_path)
    assert folder == tmp_path / "networks" / "zen3"
    assert json.loads((folder / "result.json").read_text()) == {"a_s": 0.123457, "b": [None]}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert tuple(manifest) == MANIFEST_FIELDS
    assert (manifest["machine"], manifest["reconstructed"]) == ("zen3", False)
    assert manifest["hardware"]["l2_bytes"] == ZEN3.l2_bytes
    assert manifest["versions"]["apache-tvm"] and 0 <= manifest["load"]["stolen_share"] <= 1


def test_variants_of_one_machine_lie_side_by_side(tmp_path):
    folder = write_result(
        "a", {}, start(), ZEN3, variant="warm", checkouts={"old": tmp_path}, results=tmp_path
    )
    assert folder.name == "zen3-warm"
    assert json.loads((folder / "manifest.json").read_text())["checkouts"] == {"old": None}


def test_a_command_is_told_from_the_root():
    words = [str(ROOT / "benchmarks/networks/__main__.py"), "--set", "unseen", "a b"]
    assert command_line(words) == "python -m benchmarks.networks --set unseen 'a b'"
    assert command_line([str(ROOT / "benchmarks/figures.py")]) == "python -m benchmarks.figures"


def test_a_kept_run_is_taken_up_unless_its_settings_differ(tmp_path):
    made = []

    def make():
        made.append(len(made))
        return {"run": made[-1], "inf": math.inf}

    path = tmp_path / "runs" / "0.json"
    assert kept_run(path, {"seed": 0, "of": (1, 2)}, make)["run"] == 0
    assert kept_run(path, {"seed": 0, "of": (1, 2)}, make) == {"run": 0, "inf": math.inf}
    assert kept_run(path, {"seed": 1, "of": (1, 2)}, make)["run"] == 1
    assert kept_run(path, {"seed": 1, "of": (1, 2)}, make, again=True)["run"] == 2
    assert kept_run(path, {"seed": 3, "of": (1, 2)}, make, free=["seed"])["run"] == 2
    assert kept_run(path, {"seed": 3, "of": (2, 2)}, make, free=["seed"])["run"] == 3


def test_a_kept_run_counts_only_with_the_file_that_it_wrote(tmp_path):
    path, library = tmp_path / "run.json", tmp_path / "run.so"
    made = []

    def make(content):
        made.append(content)
        library.write_text(content)
        if content == "interrupted":
            raise KeyboardInterrupt
        return content

    def kept(seed, content):
        return kept_run(path, {"seed": seed}, lambda: make(content), library=library)

    assert [kept(0, "first"), kept(0, "other")] == ["first", "first"]
    with pytest.raises(KeyboardInterrupt):
        kept(1, "interrupted")
    assert kept(0, "second") == "second"  # the library of the first run is gone
    library.unlink()
    assert kept(0, "third") == "third"
    assert made == ["first", "interrupted", "second", "third"]


def test_progress_estimates_from_the_new_runs_alone(monkeypatch, capsys):
    clock = iter([0.0, 60.0, 100.0, 280.0])
    monkeypatch.setattr("benchmarks.kept_runs.time.monotonic", lambda: next(clock))
    progress = Progress()
    progress.expect(4)
    assert progress.timed(lambda: "new")() == "new"
    progress.timed(lambda: "kept")  # the kept run is not made
    progress.timed(lambda: "new")()
    said = ["3 runs left, 3 min 00 s at most at this pace", "1 run left, 2 min 00 s at most at this pace"]
    assert capsys.readouterr().out.splitlines() == said


def test_turns_begin_with_another_contestant_each_round():
    assert list(in_turns("ab", 3)) == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


def test_means_by_hand():
    assert geometric_mean([1, 4]) == pytest.approx(2)
    assert geometric_spread([2, 8, 4]).middle == pytest.approx(4)
    assert median_spread([3, 1, 2]) == median_spread([2, 1, 3])
    assert (median_spread([3, 1, 2]).least, median_spread([3, 1, 2]).most) == (1, 3)
    # The logarithms are 0 and 1, so that their standard deviation is the root of a half.
    assert log_standard_error([1, math.e]) == pytest.approx(0.5)
    assert log_standard_error([2.0]) is None


@pytest.mark.parametrize("values", [[], [1.0, 0.0]])
def test_a_geometric_mean_needs_positive_numbers(values):
    with pytest.raises(ValueError, match="geometric mean of"):
        geometric_mean(values)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_keeps_six_digits(value):
    assert rounded({"a": (value,)})["a"][0] == pytest.approx(value, rel=1e-5)


def test_warm_calls_are_timed_after_one_that_is_not(monkeypatch):
    now = [0.0]

    def run():
        now[0] += 0.02 if now[0] else 1.0

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    assert warm_seconds(run, 0.05) == pytest.approx(0.02)
    assert now[0] == pytest.approx(1.06)  # three calls behind the first
