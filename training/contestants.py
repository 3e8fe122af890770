"""What can be compared: a model to train, trees to fit, a checkpoint that exists, and chance.

Each contestant predicts the scores of the same test rows from the same training rows; none sees the others.
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

from ..dataset.drafting import DRAFT_VERSION
from ..dataset.features.table import LabelledFeatures
from ..dataset.split import Split, SplitConfig
from ..errors import UserError
from ..models.checkpoint import Checkpoint, load_checkpoint
from ..models.gbdt import GbdtConfig, GbdtPredictor
from ..models.registry import ModelConfig, feature_version_of
from ..models.target import TargetConfig, TargetError
from .config import TrainConfig, plain
from .labels import Labels
from .prediction import predict
from .train import train_model


class SeenTasksError(UserError, ValueError):
    """A checkpoint was trained on tasks that it is to be tested on."""


@dataclass(frozen=True)
class Trial:
    """What a contestant is given: training data with its split, and the rows to predict."""

    data: LabelledFeatures
    """Records of the training, validation and test tasks."""
    config: SplitConfig
    split: Split
    """The rows of `data` by `config`."""
    feature_version: str
    seed: int
    training: Path
    """For the contestant's own files; kept when interrupted, and the same where only test rows differ."""
    tell: Callable[[str], None]
    """Says what is going on."""


@dataclass(frozen=True)
class Fit:
    """What came of it."""

    prediction: NDArray[np.float32]  # scores of the test rows, [len(split.test)]
    facts: dict[str, Any] = field(default_factory=dict)  # seconds, epochs and such


@dataclass(frozen=True)
class Contestant(ABC):
    """One row of the table."""

    name: str

    @property
    def seeded(self) -> bool:
        """Whether another seed gives another result."""
        return True

    @property
    def drafts(self) -> bool:
        """Whether it reads draft vectors in place of the features of programs."""
        return False

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that its predictions follow from beside the trial, as JSON values."""

    @abstractmethod
    def fit(self, trial: Trial) -> Fit:
        """Trains on the training rows and predicts the test rows."""


@dataclass(frozen=True)
class TrainedContestant(Contestant):
    """A model that `foretune-train` trains; dataset, split, seed and folders come from the trial."""

    config: TrainConfig

    @property
    def drafts(self) -> bool:
        """As its model does."""
        return _drafts(self.config.model)

    def settings(self) -> dict[str, Any]:
        """The settings of the training."""
        trial_decides = ("dataset", "run_dir", "checkpoint_dir", "split", "seed", "resume")
        return {name: value for name, value in plain(self.config).items() if name not in trial_decides}

    def fit(self, trial: Trial) -> Fit:
        """Trains, or goes on with a training that was interrupted."""
        run_dir, checkpoint_dir = trial.training / "train", trial.training / "checkpoint"
        if not checkpoint_dir.exists():
            interrupted = any(run_dir.rglob("last.ckpt"))
            if interrupted:
                trial.tell("goes on with its interrupted training")
            config = replace(
                self.config,
                run_dir=run_dir,
                checkpoint_dir=checkpoint_dir,
                split=trial.config,
                seed=trial.seed,
                resume=interrupted,
            )
            train_model(config, trial.data, trial.feature_version)
        checkpoint = load_checkpoint(checkpoint_dir, trial.feature_version)
        training = checkpoint.card.training
        facts = {"seconds": training["seconds"], "epochs": training["epochs"]}
        prediction, told = predict(checkpoint, trial.data, trial.split.test)
        return Fit(prediction, facts | told)


@dataclass(frozen=True)
class TreesContestant(Contestant):
    """XGBoost as TVM's cost model, see `models/gbdt.py`."""

    config: GbdtConfig
    target: TargetConfig = field(default_factory=TargetConfig)

    def __post_init__(self) -> None:
        if self.target.is_absolute:
            raise TargetError(
                f"contestants.{self.name}.target.name={self.target.name}: trees are fitted to scores; choose "
                "score or log_score"
            )

    @property
    def seeded(self) -> bool:
        """Not: the trees neither drop rows nor columns at random."""
        return False

    def settings(self) -> dict[str, Any]:
        """The settings of the trees but the number of threads, which changes the time alone."""
        trees = {name: value for name, value in asdict(self.config).items() if name != "threads"}
        return {"trees": trees, "target": asdict(self.target)}

    def fit(self, trial: Trial) -> Fit:
        """Fits to all training rows, also slow and failed ones, as TVM does."""
        labels = Labels.of(trial.data)
        train, validation = (
            labels.usable(rows, self.target.max_slowdown, keep_slow=True, keep_failed=True)
            for rows in (trial.split.train, trial.split.validation)
        )
        started = time.monotonic()

        def tell(rounds: int) -> None:
            if rounds % 100 == 0:
                trial.tell(f"{rounds} rounds of boosting")

        features = trial.data.features
        trees = GbdtPredictor.fit(features, train, labels.score, self.target, self.config, validation, tell)
        seconds = time.monotonic() - started
        prediction = trees.predict_table(features, trial.split.test)
        return Fit(prediction, {"seconds": round(seconds, 1), "rounds": trees.rounds})


@dataclass(frozen=True)
class CheckpointContestant(Contestant):
    """A checkpoint that exists, which must not have seen a test task."""

    checkpoint: Checkpoint

    @property
    def seeded(self) -> bool:
        """Not: its weights are fixed."""
        return False

    @property
    def drafts(self) -> bool:
        """As its model does."""
        return _drafts(self.checkpoint.card.model)

    def settings(self) -> dict[str, Any]:
        """The hash of its weights."""
        return {"weights_sha256": self.checkpoint.card.weights_sha256}

    def fit(self, trial: Trial) -> Fit:
        """Predicts; raises SeenTasksError where the prediction would be no test."""
        test = np.unique(trial.data.workload_hash[trial.split.test])
        seen = np.isin(test, self.checkpoint.card.split.seen_in(trial.data))
        if seen.any():
            raise SeenTasksError(
                f"{self.name}: the checkpoint {self.checkpoint.path} has seen {seen.sum()} of the "
                f"{len(test)} test tasks: give the split that it was trained with "
                f"({_told(self.checkpoint)}), or leave it out"
            )
        return Fit(*predict(self.checkpoint, trial.data, trial.split.test))


@dataclass(frozen=True)
class ChanceContestant(Contestant):
    """Uniform random numbers: what every metric gives for nothing."""

    def settings(self) -> dict[str, Any]:
        """None."""
        return {}

    def fit(self, trial: Trial) -> Fit:
        """Draws from the seed."""
        draw = np.random.default_rng(trial.seed).random(len(trial.split.test), dtype=np.float32)
        return Fit(draw)


def _told(checkpoint: Checkpoint) -> str:
    config = checkpoint.card.split.config
    if config.get("by") == "list":
        return "lists of tasks, which are on its card"
    return ", ".join(f"split.{name}={value}" for name, value in config.items() if value)


def load_contestant(name_or_path: str, feature_version: str) -> CheckpointContestant:
    """A checkpoint as a contestant, one of draft features too; raises CheckpointError where it is none."""
    model = load_checkpoint(name_or_path).card.model
    version = DRAFT_VERSION if _drafts(model) else feature_version
    return CheckpointContestant(name_or_path, load_checkpoint(name_or_path, version))


def _drafts(model: ModelConfig) -> bool:
    return feature_version_of(model.name) == DRAFT_VERSION
