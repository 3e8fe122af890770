"""Contestants of a comparison: a model to train, XGBoost, an existing checkpoint, and chance.

Each contestant predicts the scores of the same test rows after training on the same training rows.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.structure import DRAFT_VERSION
from ...configuration import as_json
from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import Split, SplitConfig
from ...errors import UserError
from ...models.architectures.gbdt import GbdtConfig, GbdtPredictor
from ...models.architectures.registry import ModelConfig, feature_version_of
from ...models.checkpoints.checkpoint import Checkpoint, load_card, load_checkpoint
from ...models.scaling.target import TargetConfig, TargetError
from ...wording import part_of
from ..evaluation.prediction import predict
from ..fitting.config import TrainConfig
from ..fitting.labels import Labels
from ..fitting.training import train_model


class SeenTasksError(UserError, ValueError):
    """A checkpoint has seen tasks that it is to be tested on."""


@dataclass(frozen=True)
class ContestantInput:
    """Input of a contestant: training data with its split, and the rows to predict."""

    data: LabelledFeatures
    """Records of the training, validation and test tasks."""
    split: Split
    """Rows of `data`."""
    feature_version: str
    seed: int
    training: Path
    """Folder for the contestant's files; kept after an interrupt, and shared by trials that differ only in
    test rows."""
    log: Callable[[str], None]
    """Reports progress."""


@dataclass(frozen=True)
class Fit:
    """Predictions of a contestant."""

    prediction: NDArray[np.float32]  # scores of the test rows, [len(split.test)]
    facts: dict[str, Any] = field(default_factory=dict)  # such as seconds and epochs


@dataclass(frozen=True)
class ModelContestant(ABC):
    """Method that predicts scores; one row of the table."""

    name: str

    @property
    def seeded(self) -> bool:
        """Whether the result depends on the seed."""
        return True

    @property
    def drafts(self) -> bool:
        """Whether the contestant reads draft vectors instead of the features of programs."""
        return False

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything besides the trial that the predictions depend on, as JSON values."""

    @abstractmethod
    def fit(self, trial: ContestantInput) -> Fit:
        """Trains on the training rows and predicts the test rows."""


@dataclass(frozen=True)
class TrainedContestant(ModelContestant):
    """Model trained as by `foretune train`; dataset, split, seed and folders come from the trial."""

    config: TrainConfig

    @property
    def drafts(self) -> bool:
        """Whether its model is a draft model."""
        start = self.config.start_from
        return _drafts(load_card(start).model if start else self.config.model)

    def settings(self) -> dict[str, Any]:
        """Settings of the training, with the hash of the weights that it starts from."""
        of_trial = ("dataset", "run_dir", "checkpoint_dir", "split", "seed", "resume")
        own = {name: value for name, value in as_json(self.config).items() if name not in of_trial}
        start = self.config.start_from
        return own | ({"weights_sha256": load_card(start).weights_sha256} if start else {})

    def fit(self, trial: ContestantInput) -> Fit:
        """Trains, or continues an interrupted training.

        Raises:
          SeenTasksError: the checkpoint that it starts from has seen a test task.
        """
        validation = set(trial.data.workload_hash[trial.split.validation].tolist())
        if self.config.start_from:
            before = load_checkpoint(self.config.start_from)
            _refuse_seen_tests(self.name, before, trial)
            validation -= set(before.card.split.seen_in(trial.data))
        run_dir, checkpoint_dir = trial.training / "train", trial.training / "checkpoint"
        if not checkpoint_dir.exists():
            interrupted = any(run_dir.rglob("last.ckpt"))
            if interrupted:
                trial.log("continues its interrupted training")
            config = replace(
                self.config,
                run_dir=run_dir,
                checkpoint_dir=checkpoint_dir,
                split=SplitConfig(by="list", validation_tasks=sorted(validation)),
                seed=trial.seed,
                resume=interrupted,
            )
            # Without the test rows, on which nothing of the training may depend.
            known = np.sort(np.concatenate([trial.split.train, trial.split.validation]))
            train_model(config, trial.data.take(known), trial.feature_version)
        checkpoint = load_checkpoint(checkpoint_dir, trial.feature_version)
        training = checkpoint.card.training
        facts = {"seconds": training["seconds"], "epochs": training["epochs"]}
        prediction, of_model = predict(checkpoint, trial.data, trial.split.test)
        return Fit(prediction, facts | of_model)


@dataclass(frozen=True)
class TreesContestant(ModelContestant):
    """XGBoost as TVM's cost model uses it; see `models/architectures/gbdt.py`."""

    config: GbdtConfig
    target: TargetConfig = field(default_factory=TargetConfig)

    def __post_init__(self) -> None:
        if self.target.is_absolute:
            raise TargetError(
                f"contestants.{self.name}.target.name={self.target.name}: these trees are fitted to scores; "
                "choose score or log_score"
            )

    @property
    def seeded(self) -> bool:
        """False: the trees use all rows and columns."""
        return False

    def settings(self) -> dict[str, Any]:
        """Settings of the trees, except the number of threads, which has no effect on the trees."""
        trees = {name: value for name, value in asdict(self.config).items() if name != "threads"}
        return {"trees": trees, "target": asdict(self.target)}

    def fit(self, trial: ContestantInput) -> Fit:
        """Fits the trees to all training rows, including slow and failed ones, as TVM does."""
        labels = Labels.of(trial.data)
        train, validation = (
            labels.usable(rows, self.target.max_slowdown, keep_slow=True, keep_failed=True)
            for rows in (trial.split.train, trial.split.validation)
        )
        started = time.monotonic()

        def progress(rounds: int) -> None:
            if rounds % 100 == 0:
                trial.log(f"{rounds} rounds of boosting")

        features = trial.data.features
        trees = GbdtPredictor.fit(
            features, train, labels.score, self.target, self.config, validation, progress
        )
        seconds = time.monotonic() - started
        prediction = trees.predict_table(features, trial.split.test)
        return Fit(prediction, {"seconds": round(seconds, 1), "rounds": trees.rounds})


@dataclass(frozen=True)
class CheckpointContestant(ModelContestant):
    """Existing checkpoint, which must not have seen a test task."""

    checkpoint: Checkpoint

    @property
    def seeded(self) -> bool:
        """False: the weights are fixed."""
        return False

    @property
    def drafts(self) -> bool:
        """Whether its model is a draft model."""
        return _drafts(self.checkpoint.card.model)

    def settings(self) -> dict[str, Any]:
        """Hash of the weights."""
        return {"weights_sha256": self.checkpoint.card.weights_sha256}

    def fit(self, trial: ContestantInput) -> Fit:
        """Predicts the test rows; raises SeenTasksError if the checkpoint has seen one of their tasks."""
        _refuse_seen_tests(self.name, self.checkpoint, trial)
        return Fit(*predict(self.checkpoint, trial.data, trial.split.test))


@dataclass(frozen=True)
class ChanceContestant(ModelContestant):
    """Uniform random numbers: the value of every metric for a random order."""

    def settings(self) -> dict[str, Any]:
        """No settings."""
        return {}

    def fit(self, trial: ContestantInput) -> Fit:
        """Random numbers from the seed."""
        draw = np.random.default_rng(trial.seed).random(len(trial.split.test), dtype=np.float32)
        return Fit(draw)


def _refuse_seen_tests(name: str, checkpoint: Checkpoint, trial: ContestantInput) -> None:
    """Raises SeenTasksError if the checkpoint has seen a test task, or another task of its shape."""
    test = np.unique(trial.data.workload_hash[trial.split.test])
    seen = np.isin(test, checkpoint.card.split.seen_in(trial.data))
    if seen.any():
        raise SeenTasksError(
            f"{name}: the checkpoint {checkpoint.path} has seen "
            f"{part_of(int(seen.sum()), len(test), 'test task')}, or their shapes: give the split that it "
            f"was trained with ({_split_text(checkpoint)}), or leave it out"
        )


def _split_text(checkpoint: Checkpoint) -> str:
    split = checkpoint.card.split
    config = split.config
    if config.get("by") == "list":
        if not split.test_tasks:
            return "the split of its comparison; its card does not list the test tasks"
        return "split.by=checkpoint, as its card lists the tasks"
    return ", ".join(f"split.{name}={value}" for name, value in config.items() if value)


def load_contestant(name_or_path: str, feature_version: str) -> CheckpointContestant:
    """Contestant of a checkpoint or draft checkpoint; raises CheckpointError if it cannot be loaded."""
    model = load_checkpoint(name_or_path).card.model
    version = DRAFT_VERSION if _drafts(model) else feature_version
    return CheckpointContestant(name_or_path, load_checkpoint(name_or_path, version))


def _drafts(model: ModelConfig) -> bool:
    return feature_version_of(model.name) == DRAFT_VERSION
