"""Separately trained checkpoints are combined into an ensemble if their dataset, split and target agree."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from foretune.cli import main
from foretune.configuration import ConfigError, from_hydra
from foretune.dataset.records.split import SplitConfig
from foretune.models.architectures.registry import ModelConfig
from foretune.models.checkpoints.checkpoint import CheckpointExistsError, load_checkpoint, save_checkpoint
from foretune.models.scaling.target import TargetConfig
from foretune.training import combine as module
from foretune.training.combine import CombineConfig, combine, run
from foretune.training.fitting.config import TrainConfig, TrainerConfig
from foretune.training.fitting.datamodule import DataConfig
from foretune.training.train import train_model
from hydra import compose, initialize_config_module
from support.synthetic import dataset

DATA = dataset(tasks=12, per_task=12)


def trained(folder, records=DATA, **changes):
    config = TrainConfig(
        dataset=Path("unused"),
        run_dir=folder / "run",
        checkpoint_dir=folder / "checkpoint",
        **{
            "model": ModelConfig("mlp", {"width": 16}),
            "data": DataConfig(batch_size=32, rivals=8),
            "trainer": TrainerConfig(max_epochs=1, progress_bar=False),
            **changes,
        },
    )
    return load_checkpoint(train_model(config, records, "1").checkpoint_dir)


def test_members_of_a_kind_stand_together_and_each_counts_alike(tmp_path, capsys):
    lstm = ModelConfig("lstm", {"width": 8, "layers": 1})
    parts = [
        trained(tmp_path / "a", model=ModelConfig("mlp", {"width": 16}, 2)),
        trained(tmp_path / "b", model=lstm),
        trained(tmp_path / "c", seed=5),
    ]
    outcome = combine(parts, DATA, tmp_path / "all")
    loaded = load_checkpoint(tmp_path / "all", "1")
    assert loaded.card.model.title == "3 x mlp + lstm"
    assert loaded.card.metrics["test"]["spearman"] == pytest.approx(outcome.metrics["test"].spearman)
    assert "coverage_90" in loaded.card.metrics["test"] and loaded.card.std_scale != 1
    batch = DATA.features.batch(np.arange(6))
    a, b, c = (part.predictor.predict(batch) for part in parts)
    np.testing.assert_allclose(loaded.predictor.predict(batch), (2 * a + b + c) / 4, atol=1e-6)
    told = loaded.card.training
    assert [part["model"] for part in told["combined"]] == ["2 x mlp", "lstm", "mlp"]
    assert [part["weights_sha256"] for part in told["combined"]] == [p.card.weights_sha256 for p in parts]
    assert told["epochs"] == sum(part.card.training["epochs"] for part in parts) == 4
    assert loaded.card.split == parts[0].card.split

    main(["checkpoints", "show", f"{tmp_path}/all"])
    shown = capsys.readouterr().out
    assert "part 2 of 3" in shown and "lstm, seed 0, 1 epoch," in shown and "combined" not in shown

    # rounding to half precision halves the file and hardly moves a score
    combine(parts, DATA, tmp_path / "half", half=True)
    half = load_checkpoint(tmp_path / "half", "1")
    assert all(weights.dtype == torch.float32 for weights in half.predictor.model.parameters())
    np.testing.assert_allclose(half.predictor.predict(batch), loaded.predictor.predict(batch), atol=5e-3)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("half", "all")]
    assert sizes[0] < 0.6 * sizes[1]
    save_checkpoint(tmp_path / "again", half.predictor.model, half.card)
    assert load_checkpoint(tmp_path / "again").card.weights_sha256 == half.card.weights_sha256

    # an ensemble of one kind is what training its members in one run writes
    twice = combine([parts[2], trained(tmp_path / "d", seed=6)], DATA, tmp_path / "twice")
    assert twice.predictor.std_scale > 0
    assert load_checkpoint(tmp_path / "twice").card.model == ModelConfig("mlp", {"width": 16}, 2)


def test_of_other_outputs_it_has_those_that_all_members_have(tmp_path):
    many = ModelConfig("mlp", {"width": 16, "outputs": ["score", "core", "memory"]})
    parts = [
        trained(tmp_path / "a", model=many),
        trained(tmp_path / "b", model=ModelConfig("mlp", {"width": 16, "outputs": ["score", "memory"]})),
    ]
    combine(parts, DATA, tmp_path / "two")
    loaded = load_checkpoint(tmp_path / "two", "1")
    assert loaded.predictor.model.columns == ("score", "memory", "log_variance")
    batch = DATA.features.batch(np.arange(6))
    one, other, both = (c.predictor.predict_all(batch) for c in (*parts, loaded))
    np.testing.assert_allclose(both.score, (one.score + other.score) / 2, atol=1e-6)
    assert both.memory is not None and both.core is None


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"split": SplitConfig(seed=1)}, "split"),
        ({"target": TargetConfig("log_score")}, "target"),
        ({"data": DataConfig(batch_size=32, rivals=8, without=["hardware"])}, "choice of features"),
        ({"data": DataConfig(batch_size=32, rivals=8, keep_failed=True)}, "normaliser"),
        ({"data_too": dataset(tasks=12, per_task=12, seed=1)}, "dataset"),
    ],
)
def test_what_differs_is_named(tmp_path, changes, what):
    failing = dataset(tasks=12, per_task=12, failures=0.2) if what == "normaliser" else DATA
    first = trained(tmp_path / "a", failing)
    other = trained(tmp_path / "b", changes.pop("data_too", failing), **changes)
    with pytest.raises(ConfigError, match=rf"b/checkpoint has another {what} than .*a/checkpoint"):
        module._check_alike([first, other])


def test_other_records_and_fine_tuned_models_are_refused(tmp_path):
    first = trained(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"dataset: .* give the dataset of that training"):
        combine([first, first], dataset(tasks=12, per_task=12, seed=1), tmp_path / "new")
    further = trained(tmp_path / "b", start_from=str(first.path))
    further = replace(further, card=replace(further.card, data=first.card.data, split=first.card.split))
    with pytest.raises(ConfigError, match="trained further"):
        module._check_alike([first, further])
    assert not (tmp_path / "new").exists()


def test_the_command(tmp_path, monkeypatch):
    parts = [str(trained(tmp_path / name, seed=seed).path) for seed, name in enumerate("ab")]
    monkeypatch.setattr(module, "feature_version_of", lambda name: "1")
    monkeypatch.setattr(module, "load_features", lambda dataset, version: DATA)
    with initialize_config_module("foretune.conf", version_base="1.3"):
        given = [f"checkpoint=[{','.join(parts)}]", "dataset=data/x", f"checkpoint_dir={tmp_path / 'new'}"]
        config = from_hydra(compose("combine", given), CombineConfig)
    run(config)
    assert load_checkpoint(tmp_path / "new").card.model.members == 2
    with pytest.raises(CheckpointExistsError, match="choose another"):
        run(config)
    with pytest.raises(ConfigError, match="name two or more"):
        CombineConfig(["cpu"], Path("data/x"), tmp_path / "other")
