"""One new device: the roles of its records, and the models that are compared on it."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from foretune.configuration import from_hydra
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.split import SplitConfig
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.task_shapes import shape_hash
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.models.metrics.task_metrics import Metrics
from foretune.training.finetune import evaluate_records
from foretune.training.fitting.config import TrainConfig
from foretune.training.train import train_model
from foretune.training.transfer.config import FinetuneConfig
from foretune.training.transfer.finetuned_weights import finetune_weights
from foretune.training.transfer.recorded_transfer import mean_recovery, of_device, of_tasks, split_target
from foretune.training.transfer.task_choice import ChoiceConfig, choose_tasks
from hydra import compose

METRICS = ("spearman", "pairwise_accuracy", "top_1", "top_5", "r2")
CHOICES = ("fasor", "k_means", "random")


@dataclass(frozen=True)
class Source:
    """A checkpoint to transfer from, and the shapes on which it may have been trained."""

    checkpoint: str
    shapes: list[str]

    @classmethod
    def of(cls, checkpoint: str, dataset: str) -> Source:
        tasks = RecordStore(Path(dataset)).require().tasks()
        return cls(checkpoint, [shape_hash(task) for task in tasks])


@dataclass(frozen=True)
class Study:
    """One new device: its records, the source's records, and the roles of the tasks."""

    target: str
    source: LabelledFeatures | str
    """Records to train the source model on, or a checkpoint."""
    pool: LabelledFeatures
    test: LabelledFeatures
    shared_in_pool: int

    @classmethod
    def of(cls, data: LabelledFeatures, target: str, share: float, seed: int, source: Source | None) -> Study:
        device = of_device(data, target)
        others = data.take(np.flatnonzero(data.hardware_id != target))
        shapes = others.shape if source is None else source.shapes
        known = np.unique(device.workload_hash[np.isin(device.shape, shapes)]).tolist()
        split = split_target(device, known, share, seed)
        return cls(
            target,
            others if source is None else source.checkpoint,
            of_tasks(device, split.pool),
            of_tasks(device, split.test),
            len(set(split.pool) & set(known)),
        )

    def describe(self) -> dict[str, Any]:
        parts = {"pool": self.pool, "test": self.test}
        devices: dict[str, Any]
        if isinstance(self.source, str):
            devices = {"source": self.source}
        else:
            parts["source"] = self.source
            devices = {"source_devices": np.unique(self.source.hardware_id).tolist()}
        return {
            **{f"{name}_records": len(part) for name, part in parts.items()},
            **{f"{name}_tasks": tasks_of(part) for name, part in parts.items()},
            **devices,
            "pool_tasks_of_shapes_that_the_source_has": self.shared_in_pool,
        }


class Runner:
    """Trains the models of one study; each stays in its own folder until its cell is finished."""

    def __init__(self, study: Study, options: Namespace, work: Path) -> None:
        self.study, self._options, self._work = study, options, work

    def cells(self) -> dict[str, Callable[[], Metrics]]:
        """Runs by the name of the cell: kind/k/seed; k is 0 for all tasks of the pool."""
        options, found = self._options, {"none/0/0": self._none}
        for seed in range(options.seeds):
            found[f"full/0/{seed}"] = lambda seed=seed: self._scratch(None, seed)
            found[f"full_finetuned/0/{seed}"] = lambda seed=seed: self._finetuned(None, seed)
            for k in options.k:
                if k >= tasks_of(self.study.pool):
                    continue
                for method in CHOICES:
                    choice = ChoiceConfig(k=k, method=method, features=options.features, seed=seed)
                    found[f"{method}/{k}/{seed}"] = lambda c=choice, s=seed: self._finetuned(c, s)
                choice = ChoiceConfig(k=k, features=options.features)
                found[f"scratch/{k}/{seed}"] = lambda c=choice, s=seed: self._scratch(c, s)
        return found

    def _none(self) -> Metrics:
        return self._evaluated(self._source())

    def _finetuned(self, choice: ChoiceConfig | None, seed: int) -> Metrics:
        checkpoint = load_checkpoint(self._source(), FEATURE_VERSION)
        tasks, few = self._few(choice, seed)
        with emptied(self._work / "cell") as folder:
            config = from_hydra(
                compose(
                    "finetune",
                    [
                        f"checkpoint={self._source()}",
                        "dataset=unused",
                        f"run_dir={folder}",
                        f"seed={seed}",
                        *self._options.finetune,
                    ],
                ),
                FinetuneConfig,
            )
            if choice is not None:
                config = replace(config, choice=choice)
            finetune_weights(config, checkpoint, few, tasks, self.study.target)
            return self._evaluated(config.checkpoint_dir)

    def _scratch(self, choice: ChoiceConfig | None, seed: int) -> Metrics:
        tasks, few = self._few(choice, seed)
        with emptied(self._work / "cell") as folder:
            # As in fine-tuning, a fifth of the tasks selects the epoch, if that is at least two tasks.
            validation = 0.2 if round(0.2 * len(tasks)) >= 2 else 0.0
            config = self._training(folder, seed, SplitConfig(test=0.0, validation=validation, seed=seed))
            train_model(config, few, FEATURE_VERSION)
            return self._evaluated(config.checkpoint_dir)

    def _source(self) -> Path | str:
        """The checkpoint of the source, trained on the first call if it was not given."""
        if isinstance(self.study.source, str):
            return self.study.source
        done = self._work / "source" / "checkpoint"
        if not done.exists():
            with emptied(self._work / "training-source") as folder:
                config = self._training(folder, 0, SplitConfig(test=0.0, validation=0.1))
                train_model(config, self.study.source, FEATURE_VERSION)
                done.parent.mkdir(exist_ok=True)
                config.checkpoint_dir.rename(done)
        return done

    def _training(self, folder: Path, seed: int, split: SplitConfig) -> TrainConfig:
        given = ["dataset=unused", f"run_dir={folder}", f"seed={seed}", *self._options.train]
        return replace(from_hydra(compose("train", given), TrainConfig), split=split)

    def _few(self, choice: ChoiceConfig | None, seed: int) -> tuple[list[str], LabelledFeatures]:
        pool = self.study.pool
        if choice is None:
            return np.unique(pool.workload_hash).tolist(), pool
        tasks = choose_tasks(pool, choice)
        return tasks, of_tasks(pool, tasks, self._options.records_per_task, seed)

    def _evaluated(self, checkpoint: Path | str) -> Metrics:
        metrics = evaluate_records(load_checkpoint(checkpoint, FEATURE_VERSION), self.study.test)
        assert metrics is not None, "of_tasks takes records of which one ran"
        return metrics


class emptied:
    """A fresh folder for the duration of a `with` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Path:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        return self._folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def tasks_of(data: LabelledFeatures) -> int:
    return len(np.unique(data.workload_hash))


def pending(
    runners: dict[str, Runner], finished: dict[str, dict[str, Any]]
) -> list[tuple[str, str, Callable[[], Metrics]]]:
    """Target, name and function of each unfinished cell, seed by seed with the targets in turn."""
    cells = [
        (int(name.rpartition("/")[2]), number, target, name, run)
        for target, runner in runners.items()
        for number, (name, run) in enumerate(runner.cells().items())
        if name not in finished[target]["cells"]
    ]
    return [(target, name, run) for *_, target, name, run in sorted(cells, key=lambda cell: cell[:2])]


def summarised(cells: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Mean and spread over the seeds of each kind and k, and the recovery against both full models."""
    seeds: dict[tuple[str, int], list[dict[str, float]]] = {}
    for name, metrics in cells.items():
        kind, k, _ = name.split("/")
        seeds.setdefault((kind, int(k)), []).append(metrics)
    rows = []
    for (kind, k), found in sorted(seeds.items(), key=lambda item: (item[0][1], item[0][0])):
        row: dict[str, Any] = {"kind": kind, "k": k or None, "seeds": len(found)}
        for metric in METRICS:
            values = {key: [cell[metric] for cell in many] for key, many in seeds.items()}
            row[metric] = {"mean": np.mean(values[kind, k]), "deviation": np.std(values[kind, k])}
            for full in ("full", "full_finetuned"):
                if ("none", 0) in values and (full, 0) in values:
                    recovery = mean_recovery(values["none", 0], values[kind, k], values[full, 0])
                    row[metric][f"against_{full}"] = asdict(recovery)
        rows.append(row)
    return rows
