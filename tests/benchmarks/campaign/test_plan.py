"""The plan: what is done by result files alone, what waits, and what a call carries."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from support.paths import ROOT

from benchmarks.campaign import plan as planning
from benchmarks.campaign.limits import MB, CampaignError, Limits
from benchmarks.campaign.stages import STAGES
from benchmarks.campaign.step import Step
from benchmarks.campaign.wheels import MANIFEST
from benchmarks.campaign.workspace import Workspace, is_of
from benchmarks.gpu_campaign import main
from benchmarks.tables import TABLES
from benchmarks.tables.reading import Results

CUDA = {"kind": "cuda", "name": "NVIDIA H200", "cores": 132}
CPU = {"kind": "cpu", "name": "AMD EPYC", "cores": 2, "vector_bits": 512, "details": {}}


def put(workspace: Workspace, benchmark: str, folder: str, result, hardware=CUDA, variant: str = "") -> None:
    target = workspace.results / benchmark / folder
    target.mkdir(parents=True)
    (target / "result.json").write_text(json.dumps(result))
    manifest = {"benchmark": benchmark, "variant": variant, "hardware": hardware, "machine": "nvidia-h200"}
    manifest |= {"commit": "abcdef0", "started_at": "2026-11-29T00:00:00+00:00", "reconstructed": False}
    (target / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def empty(tmp_path):
    return Workspace(tmp_path / "work", tmp_path / "results", tmp_path / "data")


def step_of(stage: str, name: str) -> Step:
    (found,) = (step for step in STAGES[stage].steps if step.name == name)
    return found


def test_without_results_nothing_is_done_and_each_step_names_its_command(empty):
    assert not any(step.state(empty) is not None for stage in STAGES.values() for step in stage.steps)
    table = TABLES["gpu-campaign"](Results(empty.results))
    assert table.count("not measured |") == sum(len(stage.steps) for stage in STAGES.values())
    assert all(f"next --stage {name}`" in table for name in STAGES)
    for name in ("gpu-records", "gpu-models", "gpu-networks", "gpu-families"):
        assert TABLES[name](Results(empty.results)).startswith(
            "Not measured yet: `python benchmarks/gpu_campaign.py"
        )


@pytest.mark.parametrize(
    ("valid", "finished", "state"),
    [
        (35_000, False, ""),
        (20_000, True, ""),
        (100, False, "34,900 of 35,000 valid records"),
        (100, True, "34,900 of 35,000 valid records, although all tasks were measured"),
    ],
)
def test_records_are_done_by_what_is_valid(empty, valid, finished, state):
    put(
        *(empty, "gpu_records", "h200-ebs", {"valid": valid, "goal": 35_000, "finished": finished}),
        variant="ebs",
    )
    assert step_of("records", "ebs").state(empty) == state
    assert step_of("records", "ebs").is_done(empty) == (not state)
    assert step_of("records", "random").state(empty) is None


def test_a_result_of_another_kind_of_machine_does_not_count(empty):
    put(empty, "gpu_networks", "zen5", {"left_out": []}, CPU, "float32")
    assert step_of("networks", "float32").state(empty) is None
    assert not is_of({"hardware": {**CUDA, "name": "dry run of NVIDIA H100"}}, "cuda")
    assert not is_of({"hardware": CPU}, "cpu-16") and is_of({"hardware": {**CPU, "cores": 16}}, "cpu-16")


def test_a_step_waits_for_its_datasets(empty):
    assert step_of("models", "fits").lacks(empty) == ["gpu-ebs", "gpu-tensor", "gpu-held-out"]
    shutil.copytree(ROOT / "data" / "gpu-tuned", empty.data / "gpu-ebs")
    assert step_of("models", "fits").lacks(empty) == ["gpu-tensor", "gpu-held-out"]
    words = step_of("models", "fits").command(empty, "models", 5.0, "cuda")
    assert words[:2] == ["-m", "benchmarks.cost_models"] and str(empty.data / "gpu-ebs") in words
    assert not any("{" in word for word in words)


def test_a_step_of_twelve_minutes_takes_two_calls():
    step = step_of("templates", "problems")
    assert planning.calls(replace(step, minutes=12.0)) == 2
    assert planning.calls(replace(step, minutes=8.0)) == 1


def test_the_plan_says_what_a_call_carries(empty, tmp_path, monkeypatch):
    files = {"cli.py": MB, "data/big/records-0.parquet": 50 * MB, "checkpoints/cuda/weights": 20 * MB}
    monkeypatch.setattr(planning, "tree", files.items)
    for number, size in enumerate((30, 10)):
        load = tmp_path / "bundle" / f"load-{number:02d}"
        load.mkdir(parents=True)
        (load / MANIFEST).write_text("[]")
        (load / "piece").write_bytes(bytes(size * 1000))
    told = "\n".join(planning.loading(STAGES["records"], empty, tmp_path / "bundle", Limits(sent=2 * MB)))
    assert "'!/checkpoints/cuda/' '!/data/big/'" in told
    assert told.count("TOO LARGE") == 0
    told = "\n".join(
        planning.loading(STAGES["records"], empty, tmp_path / "bundle", Limits(sent=MB + 20_000))
    )
    assert told.count("TOO LARGE") == 1 and "call 1: carry" in told and "next --bundle" in told
    with pytest.raises(CampaignError, match="has no load"):
        planning.plan(empty, tmp_path)


def test_the_plan_compares_each_call_with_the_limit(empty, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "tree", {"cli.py": MB}.items)
    bundle = tmp_path / "bundle"
    for number in (0, 1):
        load = bundle / f"load-{number:02d}"
        load.mkdir(parents=True)
        (load / MANIFEST).write_text("")
        (load / "piece").write_bytes(bytes(10_000))
    empty.work.mkdir()
    (empty.work / "kept").write_bytes(bytes(20_000))

    def too_large(sent: int, bundle) -> list[str]:
        lines = planning.loading(STAGES["records"], empty, bundle, Limits(sent=sent))
        return [line.split(" carr")[0] for line in lines if "TOO LARGE" in line]

    # The last call carries the work of earlier calls, too.
    assert too_large(MB + 30_000, bundle) == []
    assert too_large(MB + 29_999, bundle) == ["call 2:"]
    assert too_large(MB + 9_999, bundle) == ["call 1:", "call 2:"]
    # Without a bundle, a call carries the checkout and the work.
    assert too_large(MB + 20_000, None) == []
    assert too_large(MB + 19_999, None) == ["the call"]


def test_a_rehearsal_is_never_landed_among_the_results(tmp_path, capsys):
    assert main(["land", str(tmp_path), "--dry-run"]) == 2
    assert "a rehearsal lands elsewhere" in capsys.readouterr().err


def test_networks_are_shown_without_disturbed_timings(empty):
    def row(contestant: str, seed: int, latency_s: float, **more):
        of = {"contestant": contestant, "seed": seed, "network": "resnet18", "latency_s": latency_s}
        return {**of, "measured": 300, "ready_s": 60.0, "disturbed": False, "error": "", **more}

    rows = [row("checkpoint=cuda", seed, latency_s) for seed, latency_s in enumerate((1e-3, 2e-3, 4e-3))]
    rows.append(row("eager", 0, 1e-4, disturbed=True))
    put(empty, "gpu_networks", "h200-float32", {"rows": rows, "dtype": "float32"}, variant="float32")
    table = TABLES["gpu-networks"](Results(empty.results))
    assert "| checkpoint=cuda | 3 | 2.00 ms | 300 | 1 min 0 s |" in table and "eager" not in table
