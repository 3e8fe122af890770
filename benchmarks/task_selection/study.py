"""Rounds of one way to choose tasks: an ensemble is trained on known tasks, tested, and asked for more."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from foretune.configuration import from_hydra
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.split import SplitConfig, split_rows
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.models.metrics.task_metrics import evaluate
from foretune.training.fitting.config import TrainConfig
from foretune.training.fitting.labels import Labels
from foretune.training.train import train_model
from hydra import compose
from numpy.typing import NDArray

SIZES = (100, 200, 400)
"""Known tasks by round."""

MEMBERS = 3

SEEN = 2 / 3
"""Share of the known tasks to which a member is fitted."""

TRAIN = ("model=trees", "target.name=log_score", "data.keep_slow=true", "trainer.threads=1")

Predict: TypeAlias = Callable[[LabelledFeatures], NDArray[np.float32]]
"""Predictions of a trained model for each record."""

Train: TypeAlias = Callable[[Sequence[str], int], Predict]
"""Trains a model on tasks with a seed."""

Choose: TypeAlias = Callable[[Mapping[str, float], int, np.random.Generator], list[str]]
"""Chooses a number of unknown tasks by their disagreement."""


def at_random(disagreement: Mapping[str, float], count: int, rng: np.random.Generator) -> list[str]:
    """Random tasks."""
    return [str(name) for name in rng.choice(sorted(disagreement), count, replace=False)]


def by_disagreement(disagreement: Mapping[str, float], count: int, rng: np.random.Generator) -> list[str]:
    """The tasks on which the members disagree most."""
    return sorted(disagreement, key=lambda name: (-disagreement[name], name))[:count]


def half_by_disagreement(
    disagreement: Mapping[str, float], count: int, rng: np.random.Generator
) -> list[str]:
    """Half of the tasks by disagreement, the others at random."""
    first = by_disagreement(disagreement, count // 2, rng)
    others = {name: value for name, value in disagreement.items() if name not in first}
    return first + at_random(others, count - len(first), rng)


CHOICES: Mapping[str, Choose] = {
    "random": at_random,
    "disagreement": by_disagreement,
    "half by disagreement": half_by_disagreement,
}


@dataclass(frozen=True)
class Parts:
    """Tasks of a dataset by their role."""

    data: LabelledFeatures
    pool: list[str]
    validation: list[str]
    test: list[str]

    @classmethod
    def of(cls, data: LabelledFeatures) -> Parts:
        """A tenth of the tasks for validation and a fifth for the test, equal for all choices."""
        split = split_rows(data, SplitConfig(validation=0.1, test=0.2, seed=0))
        named = [
            np.unique(data.workload_hash[rows]).tolist()
            for rows in (split.train, split.validation, split.test)
        ]
        return cls(data, *named)

    def records(self, tasks: Sequence[str]) -> LabelledFeatures:
        """Records of these tasks."""
        return self.data.take(np.flatnonzero(np.isin(self.data.workload_hash, list(tasks))))


def rounds(parts: Parts, choice: str, seed: int, train: Train) -> list[dict[str, float]]:
    """Metrics on the test tasks by number of known tasks; equal seeds begin with equal known tasks."""
    rng = np.random.default_rng(seed)
    known = at_random(dict.fromkeys(parts.pool, 0.0), SIZES[0], rng)
    members: list[Predict] = []
    test, found = parts.records(parts.test), []
    group = Labels.of(test).group
    for size in SIZES:
        if len(known) < size:
            rest = parts.records([name for name in parts.pool if name not in set(known)])
            known += CHOICES[choice](disagreement(members, rest), size - len(known), rng)
        members = [train(seen(known, rng), MEMBERS * seed + number) for number in range(MEMBERS)]
        metrics = evaluate(np.mean([predict(test) for predict in members], axis=0), test.latency_s, group)
        row = {name: getattr(metrics, name) for name in ("spearman", "pairwise_accuracy", "top_1")}
        found.append({"tasks": size, "records": len(parts.records(known)), **row})
    return found


def seen(known: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Tasks to which one member is fitted."""
    return [str(name) for name in rng.choice(sorted(known), round(SEEN * len(known)), replace=False)]


def disagreement(members: Sequence[Predict], data: LabelledFeatures) -> dict[str, float]:
    """Mean variance over the programs of each task; a constant offset between members does not count."""
    predictions = np.stack([predict(data) for predict in members])
    found = {}
    for name in np.unique(data.workload_hash):
        own = predictions[:, data.workload_hash == name]
        ranks = own - own.mean(axis=1, keepdims=True)
        found[str(name)] = float(ranks.var(axis=0).mean())
    return found


def trees(parts: Parts) -> Train:
    """Training of boosted trees by `foretune train`'s own code."""

    def train(tasks: Sequence[str], seed: int) -> Predict:
        with tempfile.TemporaryDirectory() as scratch:
            given = ["dataset=unused", f"run_dir={scratch}", f"seed={seed}", *TRAIN]
            split = SplitConfig(by="list", seed=0, validation_tasks=parts.validation)
            config = replace(from_hydra(compose("train", given), TrainConfig), split=split)
            train_model(config, parts.records([*tasks, *parts.validation]), FEATURE_VERSION)
            predictor = load_checkpoint(Path(config.checkpoint_dir), FEATURE_VERSION).predictor
        return lambda data: predictor.predict_table(data.features, np.arange(len(data)))

    return train
