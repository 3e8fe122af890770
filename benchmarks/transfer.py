"""Few-shot transfer of a cost model to another device (Fasor, section 4.2), and what to compare it with.

    python benchmarks/transfer.py --dataset data/cpu
    python benchmarks/transfer.py --dataset data/cpu --target ID --train model=transformer --seeds 1
    python benchmarks/transfer.py --dataset data/cpu-targets --source cpu data/cpu

Each device of the dataset is in turn the new one, and all others together are the source; or the source is
a checkpoint, given with the dataset that it was trained on. A third of the new device's tasks, whose shapes
the source does not have, are for the test; from the rest, the pool, k tasks are chosen. Compared on the test
tasks: the source model as it is (none), fine-tuned on k tasks chosen by Fasor's clusters, by k-means and at
random, trained from scratch on Fasor's k tasks, and, as what could be reached, trained and fine-tuned on the
whole pool. The seed decides random choices, batches and initial weights; the source model and the split are
the same for all.

Cells run seed by seed, the devices in turn, and after --minutes none begins. Stopped or out of time, the same
command goes on from the cells that are finished; `cells_left` in the results tells of those that are not.
`--train` and `--finetune` take Hydra overrides of foretune-train and foretune-finetune, and `--epochs` bounds
the trainings of both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from foretune.configuration import from_hydra
from foretune.dataset.features import FEATURE_VERSION
from foretune.dataset.features.dataset import load_labelled_features
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.split import SplitConfig
from foretune.dataset.store import RecordStore
from foretune.dataset.task_shapes import shape_hash
from foretune.models.checkpoint import load_checkpoint
from foretune.models.metrics import Metrics, evaluate
from foretune.training.config import TrainConfig
from foretune.training.finetune_config import FinetuneConfig
from foretune.training.finetuned_weights import finetune_weights
from foretune.training.labels import Labels
from foretune.training.task_choice import ChoiceConfig, choose_tasks
from foretune.training.train import data_sha256, train_model
from foretune.training.transfer import mean_recovery, of_device, of_tasks, split_target
from hydra import compose, initialize_config_module
from transfer_page import write_page

RESULTS = Path(__file__).parent / "results" / "transfer.json"
METRICS = ("spearman", "pairwise_accuracy", "top_1", "top_5", "r2")
CHOICES = ("fasor", "k_means", "random")
MIN_TASKS = 30
"""A device with fewer tasks is no target: too few would be left for the test."""

log = logging.getLogger("transfer")


@dataclass(frozen=True)
class Source:
    """A checkpoint to transfer from, and the shapes that it may have been trained on."""

    checkpoint: str
    shapes: list[str]

    @classmethod
    def of(cls, checkpoint: str, dataset: str) -> Source:
        tasks = RecordStore(Path(dataset)).require().tasks()
        return cls(checkpoint, [shape_hash(task) for task in tasks])


@dataclass(frozen=True)
class Study:
    """One new device: its records, the source's, and which tasks are for what."""

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
    """Trains the models of one study; each lies in its own folder until its cell is finished."""

    def __init__(self, study: Study, options: argparse.Namespace, work: Path) -> None:
        self.study, self._options, self._work = study, options, work

    def cells(self) -> dict[str, Callable[[], Metrics]]:
        """What to run, by the name of the cell: kind/k/seed, k of 0 for all tasks of the pool."""
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
            # As in fine-tuning: an epoch is chosen by a fifth of the tasks, where that is at least two.
            validation = 0.2 if round(0.2 * len(tasks)) >= 2 else 0.0
            config = self._training(folder, seed, SplitConfig(test=0.0, validation=validation, seed=seed))
            train_model(config, few, FEATURE_VERSION)
            return self._evaluated(config.checkpoint_dir)

    def _source(self) -> Path | str:
        """The checkpoint of the source, trained on the first call where it was not given."""
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
        predictor, test = load_checkpoint(checkpoint, FEATURE_VERSION).predictor, self.study.test
        prediction = predictor.predict_table(test.features, np.arange(len(test)))
        return evaluate(prediction, test.latency_s, Labels.of(test).group)


class emptied:
    """A fresh folder for the time of a `with` block."""

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
    """Target, name and function of each cell that is not finished, seed by seed and the targets in turn."""
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


def save(results: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    partial.rename(path)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument(
        "--source", nargs=2, metavar=("CHECKPOINT", "DATASET"), help="in place of the other devices"
    )
    parser.add_argument("--target", action="append", help="id of a new device; may be given again")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 20, 50])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test-share", type=float, default=1 / 3)
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--records-per-task", type=int)
    parser.add_argument("--features", nargs="+", default=["task"], help="what tasks are compared by")
    parser.add_argument("--epochs", type=int, help="at most, of every training; else as --train says")
    parser.add_argument("--minutes", type=float, default=20.0, help="after which no cell begins")
    parser.add_argument("--train", nargs="+", default=list(TRAIN))
    parser.add_argument("--finetune", nargs="+", default=list(FINETUNE))
    parser.add_argument("--work", type=Path, default=Path("outputs/transfer"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


TRAIN = (
    *("model=mlp", "target.name=log_score", "data.keep_slow=true", "data.batch_size=256", "loss.rank=0.1"),
    *("trainer.max_epochs=30", "trainer.patience=8", "trainer.threads=1", "trainer.progress_bar=false"),
)
FINETUNE = ("trainer.threads=1", "trainer.progress_bar=false")


def main() -> None:
    options = parsed()
    deadline = time.monotonic() + 60 * options.minutes
    if options.epochs:
        options.train.append(f"trainer.max_epochs={options.epochs}")
        options.finetune.append(f"trainer.max_epochs={options.epochs}")
    logging.basicConfig(level=logging.WARNING)
    log.setLevel(logging.INFO)
    for name in ("pytorch_lightning", "lightning.pytorch"):  # which tell of themselves at each training
        logging.getLogger(name).setLevel(logging.WARNING)
    data = load_labelled_features(options.dataset)
    ids = np.unique(data.hardware_id)
    names = {id_: device.name for id_, device in RecordStore(options.dataset).hardware().items()}
    targets = options.target or [
        str(id_)
        for id_ in ids
        if tasks_of(of_device(data, id_)) >= MIN_TASKS and (len(ids) > 1 or options.source)
    ]
    if not targets:
        raise SystemExit(f"{options.dataset}: no device with {MIN_TASKS} tasks beside another device")
    source = Source.of(*options.source) if options.source else None
    settings = {
        "source": options.source,
        "data_sha256": data_sha256(data),
        "feature_version": FEATURE_VERSION,
        **{name: getattr(options, name) for name in ("test_share", "split_seed", "records_per_task")},
        **{name: getattr(options, name) for name in ("features", "train", "finetune")},
    }
    fingerprint = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    before = json.loads(options.results.read_text()) if options.results.exists() else {}
    results = before if before.get("settings") == settings else {"settings": settings, "targets": {}}
    with initialize_config_module("foretune.conf", version_base="1.3"):
        runners = {}
        for target in targets:
            study = Study.of(data, target, options.test_share, options.split_seed, source)
            entry = results["targets"].setdefault(target, {"cells": {}, "seconds": {}})
            entry |= {"name": names.get(target, target), **study.describe()}
            runners[target] = Runner(study, options, options.work / fingerprint / target)
        todo = pending(runners, results["targets"])
        results["cells_left"] = len(todo)
        for number, (target, name, run) in enumerate(todo, start=1):
            if time.monotonic() > deadline:
                break
            entry = results["targets"][target]
            start = time.monotonic()
            metrics = run().summary()
            entry["cells"][name] = {metric: float(metrics[metric]) for metric in METRICS}
            entry["seconds"][name] = round(time.monotonic() - start, 1)
            entry["summary"] = summarised(entry["cells"])
            results["cells_left"] -= 1
            save(results, options.results)
            log.info(
                "%3d of %d  %s %-20s %s", number, len(todo), target, name,
                "  ".join(f"{metric} {value:.3f}" for metric, value in entry["cells"][name].items()),
            )  # fmt: skip
    save(results, options.results)
    write_page(results, options.results.with_suffix(".html"))
    if results["cells_left"]:
        print(f"no time for {results['cells_left']} cells: the same command goes on")
    print(f"wrote {options.results} and {options.results.with_suffix('.html')}")


if __name__ == "__main__":
    main()
