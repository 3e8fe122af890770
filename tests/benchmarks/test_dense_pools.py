"""Dense pools: drawn and extended, refused for other devices or as training data, and rated by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.task import Task
from foretune.dataset import generate
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.measure import MeasureJob
from foretune.dataset.measure.executors.replay import ReplayExecutor
from foretune.dataset.records.network_weights import read_networks
from foretune.dataset.records.program_pool import ProgramPool
from foretune.dataset.records.split import SplitConfig
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import task_row
from foretune.dataset.sampling.programs import EvolutionaryConfig, ProgramSamplingConfig
from foretune.models.architectures.ensemble import members_of
from foretune.models.architectures.registry import MemberConfig, ModelConfig
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig
from foretune.training.train import train_model
from support.checkpoints import HARDWARE
from support.fake_executor import FakeExecutor
from support.pools import pooled_record, write_pool
from support.synthetic import dataset

from benchmarks.common import write_json
from benchmarks.cost_models.__main__ import Table
from benchmarks.dense_pools import drawing
from benchmarks.dense_pools.__main__ import arguments_of
from benchmarks.dense_pools.drawing import PoolsError, check_apart, check_held_out, check_pools, draw
from benchmarks.dense_pools.rating import parts_of, rated
from benchmarks.tables.declare import declared
from benchmarks.tables.reading import Results

NETWORK = {"network": "support.networks:Residual", "inputs": [[1, 8, 6, 6]]}
TASK = to_task(Dense(rows=4, in_features=8, out_features=8))


def test_pools_are_drawn_extended_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evolution = EvolutionaryConfig(population_size=4, generations=1)
    quick = ProgramSamplingConfig(scorer="random", random_share=0.5, evolutionary=evolution)
    monkeypatch.setattr(drawing, "SAMPLING", quick)
    monkeypatch.setattr(drawing, "check_held_out", lambda tasks: None)  # the network is of the tests
    monkeypatch.setattr(generate, "make_executor", lambda *arguments: FakeExecutor())
    monkeypatch.setattr(generate, "check_measurement", lambda *arguments: None)
    folder = tmp_path / "pools"
    draw(folder, [NETWORK], 2, samplers=0)
    first = RecordStore(folder).records()
    tasks = set(read_networks(folder)["Residual"])
    counts = Counter(record.workload_hash for record in first)
    assert set(counts) <= tasks and min(counts.values()) >= 2
    summary = draw(folder, [NETWORK], 3, samplers=0)
    records = RecordStore(folder).records()
    assert {record.key for record in first} < {record.key for record in records}
    assert summary.measured == len(records) - len(first)
    # The pool serves a search without measuring.
    pool = ProgramPool(folder)
    assert check_pools(folder) == pool.hardware
    jobs = [MeasureJob("", trace=record.trace, task=record.workload_hash) for record in records]
    outcomes = ReplayExecutor(pool).measure(jobs)
    assert [outcome.run_secs for outcome in outcomes] == [record.run_secs for record in records]


def test_the_recipe_is_half_random_and_half_evolved_by_a_model_that_learns() -> None:
    sampling = drawing.SAMPLING
    assert (sampling.sampler, sampling.scorer, sampling.random_share) == ("evolutionary", "xgboost", 0.5)


def record(trace: str, **changes: Any) -> Any:
    known = pooled_record(TASK.workload_hash, trace, 1e-3)
    return replace(known, **{"tvm_version": tvm.__version__, **changes})


def test_pools_of_other_devices_and_versions_are_refused(tmp_path: Path) -> None:
    other = replace(HARDWARE, name="other")
    devices = (HARDWARE, other)
    pools = write_pool(tmp_path / "one", [TASK], [record("a"), record("b")], devices)
    assert check_pools(pools, HARDWARE) == HARDWARE
    with pytest.raises(PoolsError, match=r"and this is other .*give another folder to --pools"):
        check_pools(pools, other)
    two = [record("a"), record("a", hardware_id=other.hardware_id)]
    with pytest.raises(PoolsError, match="its programs have 2 values of hardware_id"):
        check_pools(write_pool(tmp_path / "two", [TASK], two, devices))
    versions = [record("a"), record("b", tvm_version="0.1")]
    with pytest.raises(PoolsError, match=r"2 values of tvm_version \(0.1, "):
        check_pools(write_pool(tmp_path / "versions", [TASK], versions))
    with pytest.raises(PoolsError, match=r"TVM 0.1 compiled its programs, .* install that version"):
        check_pools(write_pool(tmp_path / "old", [TASK], versions[1:]))


def test_a_program_for_tests_and_training_is_refused(tmp_path: Path) -> None:
    pools = write_pool(tmp_path / "pools", [TASK], [record("a"), record("b")])
    apart = write_pool(tmp_path / "apart", [TASK], [record("c")])
    check_apart(pools, [apart])
    shared = write_pool(tmp_path / "shared", [TASK], [record("b", timestamp=7.0)])
    with pytest.raises(PoolsError, match=r"1 of its 2 programs are in .*shared, too"):
        check_apart(pools, [apart, shared])


def test_shapes_that_training_may_sample_are_refused() -> None:
    def row(task: Task) -> Any:
        return task_row(replace(task, source="network:x"))

    # A layer of ResNet-50, and one of no network.
    check_held_out([row(to_task(Dense(rows=1, in_features=2048, out_features=1000, epilogue="bias")))])
    with pytest.raises(PoolsError, match=r"\(network:x\): foretune generate may sample its shape"):
        check_held_out([row(to_task(Dense(rows=3, in_features=77, out_features=5)))])


DATA = dataset(tasks=10, per_task=16)
POOLS = dataset(tasks=16, per_task=8, seed=3)  # ten tasks have the names and shapes of `DATA`


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small ensemble of two kinds, trained on `DATA`."""
    folder = tmp_path_factory.mktemp("model")
    train_model(
        TrainConfig(
            dataset=Path("unused"),
            run_dir=folder / "run",
            checkpoint_dir=folder / "checkpoint",
            model=ModelConfig("mlp", {"width": 8}, 1, [MemberConfig("lstm", {"width": 8})]),
            data=DataConfig(batch_size=32, rivals=8),
            split=SplitConfig(test=0.3, validation=0.2),
            trainer=TrainerConfig(max_epochs=1, threads=1, progress_bar=False),
        ),
        DATA,
        FEATURE_VERSION,
    )
    return str(folder / "checkpoint")


def options(tmp_path: Path, *words: str) -> Any:
    own = ["--part", "models", "--pools", "pools", "--runs-in", str(tmp_path), "--epochs", "1"]
    own += ["--models", "xgb", "tenset"]
    return arguments_of([*own, *words, "--", "+contestants.xgb.trees.rounds=5", "++train.data.rivals=8"])


def test_models_are_rated_on_tasks_that_none_has_seen(checkpoint: str, tmp_path: Path) -> None:
    found = rated(Table((checkpoint,), ("one",)), DATA, POOLS, options(tmp_path))
    assert (found["tasks"], found["records"], found["left_out_tasks"]) == (6, 48, 10)
    assert found["trained_on"]["tasks"] == 5
    names = [row["model"] for row in found["models"]]
    assert names == [checkpoint, f"{checkpoint}: mlp", f"{checkpoint}: lstm", "xgb", "tenset"]
    for row in found["models"]:
        assert 0 < row["top_1_sums"] <= row["top_5_sums"] <= 1
        assert 0 <= row["pairs"] <= 1 and "all networks" in row["networks"]
    # Members of the ensemble alone differ from it.
    assert len({row["pairs"] for row in found["models"][:3]}) > 1


def test_without_the_shapes_in_training_all_tasks_test(tmp_path: Path) -> None:
    pools = POOLS.take(np.arange(8, len(POOLS)))  # tasks 1 to 15
    found = rated(Table((), ("one",)), dataset(tasks=40, per_task=8), pools, options(tmp_path, "--apart"))
    assert (found["tasks"], found["left_out_tasks"]) == (15, 0)
    # Task 0 and 24 others, a tenth of them for validation.
    assert found["trained_on"]["tasks"] in (22, 23)
    assert [row["model"] for row in found["models"]] == ["xgb", "tenset"]


def test_pools_whose_shapes_are_all_known_are_refused(checkpoint: str, tmp_path: Path) -> None:
    with pytest.raises(PoolsError, match="give --apart to train without them"):
        rated(Table((checkpoint,), ("one",)), DATA, DATA, options(tmp_path))


def test_a_part_of_an_ensemble_predicts_as_its_members(checkpoint: str, tmp_path: Path) -> None:
    parts = parts_of(checkpoint, tmp_path / "parts")
    assert list(parts) == [f"{checkpoint}: mlp", f"{checkpoint}: lstm"]
    members = members_of(load_checkpoint(checkpoint).predictor.model)
    for path, member, name in zip(parts.values(), members, ("mlp", "lstm"), strict=True):
        part = load_checkpoint(path)
        assert part.card.model == ModelConfig(name, {"width": 8})
        weights = part.predictor.model.state_dict()
        assert all(torch.equal(weights[key], value) for key, value in member.state_dict().items())
    assert parts_of(parts[f"{checkpoint}: mlp"], tmp_path / "none") == {}


def test_an_ensemble_needs_training_without_the_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments_of(["--part", "models", "--ensemble", "trees"])
    assert "--ensemble needs --apart" in capsys.readouterr().err


def test_the_table_has_a_row_for_each_model(tmp_path: Path) -> None:
    scores = {"top_1_sums": 0.5, "top_5_sums": 0.75, "top_1": 0.625, "top_5": 0.875, "pairs": 0.8125}
    models = [{"model": name, **scores, "networks": {}} for name in ("random", "cpu: trees")]
    result = {"tasks": 3, "records": 3000, "trained_on": {"tasks": 9, "records": 1234}, "models": models}
    manifest = {"machine": "zen4", "variant": "", "commit": "a" * 40, "reconstructed": False, "notes": ""}
    manifest["started_at"] = "2026-11-29T10:00:00+00:00"
    for variant, apart in (("", False), ("apart", True)):
        folder = tmp_path / "dense_pools" / f"zen4{variant and '-apart'}"
        write_json(folder / "result.json", {**result, "apart": apart})
        write_json(folder / "manifest.json", {**manifest, "variant": variant})
    text = declared()["dense-pools"](Results(tmp_path))
    numbers = "3 tasks (3,000 programs) | 0.500 | 0.750 | 0.625 | 0.875 | 0.812"
    assert f"| its boosted trees alone | 1,234 records | {numbers} |" in text
    assert f"| random order | 1,234 records without the tested shapes | {numbers} |" in text
    missing = declared()["dense-pools"](Results(tmp_path / "none"))
    assert missing == "Not measured yet: `python -m benchmarks.dense_pools --part models`."
