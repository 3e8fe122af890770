"""Training of an explorer on a toy environment: it learns, resumes, repeats itself, and splits tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from foretune.configuration import ConfigError, as_json, from_hydra
from foretune.dataset.records.schema import TaskRow
from foretune.models.architectures.registry import ModelConfig, ModelConfigError, build_model
from foretune.models.checkpoints.card import SplitSummary
from foretune.models.checkpoints.checkpoint import CheckpointExistsError, load_explorer, load_network
from foretune.models.checkpoints.verification import problems
from foretune.models.scaling.normaliser import FeatureDims, Normaliser
from foretune.training.exploration.config import JudgingConfig, LearningConfig, ReinforceConfig, WalkConfig
from foretune.training.exploration.tasks import ExplorationTasks, parts_of
from foretune.training.exploration.train import run, train_explorer
from foretune.training.fitting.config import TrainConfig
from hydra import compose, initialize_config_module
from support.exploration import JudgedByHand, recorded
from support.synthetic import make_card, table

SIZES = [(64, 64, 64), (32, 128, 64), (128, 32, 32), (64, 16, 256)]


def toy_time(values: np.ndarray) -> np.ndarray:
    """Programs are fast with an inner tile of 8 x 16, and with a long inner reduction."""
    apart = np.abs(np.log2(values[:, 3]) - 3) + np.abs(np.log2(values[:, 7]) - 4)
    return 0.4 * apart + 0.2 * np.abs(np.log2(values[:, 9]) - 3)


def toy_tasks() -> ExplorationTasks:
    train = [recorded(*size, name=f"t{number}") for number, size in enumerate(SIZES)]
    return ExplorationTasks(
        train,
        [recorded(64, 128, 64, name="v"), recorded(32, 64, 64, name="w")],
        [recorded(128, 128, 32, name="test")],
        [recorded(32, 64, 128, name="other", operator="conv1d")],
    )


def settings(folder, **changes):
    return ReinforceConfig(
        **{
            "dataset": ["unused"],
            "run_dir": folder / "run",
            "checkpoint_dir": folder / "checkpoint",
            "epochs": 10,
            "width": 64,
            "walk": WalkConfig(spaces=4, starts=8, steps=8),
            "learning": LearningConfig(updates=60, batch_size=64, learning_rate=2e-3, epsilon_decay=3.0),
            "judging": JudgingConfig(spaces=2, candidates=24, draws=4),
            "threads": 1,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def judge_of():
    """Card of the environment."""
    features = table(8)
    return SimpleNamespace(card=make_card(Normaliser.fit(features, np.arange(8)), ModelConfig("draft")))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, judge_of):
    folder = tmp_path_factory.mktemp("toy")
    config = settings(folder)
    return config, train_explorer(config, JudgedByHand(toy_time), judge_of, toy_tasks())


def test_an_explorer_finds_better_programs_than_chance(trained):
    _, result = trained
    for mode in ("high_efficiency", "high_quality"):
        parts = [result.metrics[f"{part}, {mode}"] for part in ("validation", "test", "unseen_operators")]
        scores = np.array(
            [[found[f"{name}_score"] for name in ("explorer", "random_moves", "random")] for found in parts]
        ).mean(axis=0)
        assert scores[0] > scores[1] + 0.02 and scores[0] > scores[2] + 0.1
        assert np.mean([found["gain"] for found in parts]) > 0.1


def test_the_checkpoint_has_a_card_and_no_problem(trained):
    config, result = trained
    _, card = load_explorer(result.checkpoint_dir)
    assert list(problems(str(result.checkpoint_dir))) == []
    assert card.split.train_tasks == ["t0", "t1", "t2", "t3"]
    assert card.split.test_tasks == ["other", "test"]
    assert card.training["reward"]["high_efficiency"] == {"time": 0.35, "ratio": 0.25, "iteration": 0.4}
    assert card.training["learning"]["discount"] == 0.95
    assert load_network(result.checkpoint_dir).predictor is None
    with pytest.raises(CheckpointExistsError):
        train_explorer(config, JudgedByHand(toy_time), None, toy_tasks())


def test_a_seed_decides_on_the_result_and_an_interrupted_training_goes_on(tmp_path, judge_of):
    short = {"epochs": 2, "learning": LearningConfig(updates=5, batch_size=32)}

    def weights(folder, **changes):
        config = settings(folder, **{**short, **changes})
        train_explorer(config, JudgedByHand(toy_time), judge_of, toy_tasks())
        return load_explorer(config.checkpoint_dir)[0].network.state_dict()["network.0.weight"]

    once, again = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert (once == again).all()
    # The folder of the run is kept, as after an interruption; two more epochs follow the first two.
    (tmp_path / "a" / "checkpoint").rename(tmp_path / "a" / "before")
    weights(tmp_path / "a", epochs=4, resume=True)
    last = torch.load(tmp_path / "a" / "run" / "last.ckpt", weights_only=True)
    assert last["epoch"] == 3 and last["global_step"] == 4 * 5


def test_a_run_with_other_settings_is_not_resumed(tmp_path):
    config = settings(tmp_path, resume=True)
    with pytest.raises(ConfigError, match="no interrupted run"):
        run(config)
    config.run_dir.mkdir(parents=True)
    (config.run_dir / "last.ckpt").touch()
    (config.run_dir / "config.json").write_text(json.dumps(as_json(replace(config, width=8))))
    with pytest.raises(ConfigError, match="width differ from"):
        run(config)


def row(name: str, operator: str = "dense", features: int = 8) -> TaskRow:
    shape = json.dumps({"rows": 4, "in_features": features, "out_features": 8})
    return TaskRow(name, name, operator, shape, "operator", 1.0, "")


def test_tasks_keep_the_part_of_the_environment_and_operators_are_held_out():
    rows = [
        row("a", features=1),
        row("b", features=2),
        row("like b", features=2),  # another layout or epilogue of b, say
        row("c", features=3),
        row("new", features=5),
        row("other", "made_up", features=6),
    ]
    known = SplitSummary({}, ["a"], ["c"], ["b"])
    assert parts_of(rows, known, ["made_up"]) == {
        "train": {"a", "new"},
        "validation": {"c"},
        "test": {"b", "like b"},
        "unseen_operators": {"other"},
    }


def test_the_configuration_is_that_of_the_code():
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = compose("reinforce", overrides=["dataset=[x]", "run_dir=r", "checkpoint_dir=c"])
        found = from_hydra(composed, ReinforceConfig)
    assert found == ReinforceConfig(found.dataset, found.run_dir, found.checkpoint_dir)


def test_cost_models_are_trained_elsewhere(tmp_path):
    with pytest.raises(ConfigError, match=r"model\.name=dqn: an explorer scores no programs"):
        TrainConfig(tmp_path, tmp_path, tmp_path, model=ModelConfig("dqn"))
    with pytest.raises(ModelConfigError, match=r"model\.members=2: an explorer \(dqn\) has one network"):
        ModelConfig("dqn", members=2)
    with pytest.raises(ModelConfigError, match="chooses moves and scores no programs"):
        build_model(ModelConfig("dqn"), FeatureDims(1, 1, 8, 8))


def test_a_run_without_datasets_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"dataset=\[\]"):
        settings(tmp_path, dataset=[])
