"""Moves a checkpoint to a new device with the records of few tasks (`foretune-finetune`, Fasor section 4.2).

Where the new device has no records yet, `tasks_into` writes the tasks to measure there. Where the dataset has
its records, those of the chosen tasks alone are trained on, and all others tell what that was worth.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path

import hydra
import numpy as np
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from ..configuration import from_hydra
from ..dataset.features.table import LabelledFeatures
from ..errors import exits_cleanly
from ..models.checkpoint import Checkpoint, load_checkpoint, refuse_to_overwrite
from ..models.metrics import Metrics, evaluate
from .chosen_tasks import ChosenTasks, write_tasks
from .feature_source import load_with_features
from .finetune_config import FinetuneConfig
from .finetuned_weights import finetune_weights
from .labels import Labels
from .task_choice import choose_tasks
from .transfer import device_of, knows_backend, of_device, of_tasks

log = logging.getLogger(__name__)

COLUMNS = {
    "spearman": "spearman",
    "pairwise_accuracy": "pairs",
    "top_1": "top-1",
    "top_5": "top-5",
    "r2": "R2",
}
"""Metrics of the printed table and their titles."""


@dataclass(frozen=True)
class FinetuneResult:
    """A checkpoint of the new device, and how the model did there before and after.

    Both are of the device's tasks that neither the source model nor the fine-tuning has seen; None where the
    dataset has none.
    """

    checkpoint_dir: Path
    hardware: str
    tasks: list[str]
    before: Metrics | None
    after: Metrics | None
    epochs: int
    seconds: float


def run(config: FinetuneConfig) -> FinetuneResult | ChosenTasks:
    """Reads the dataset of `config`, and writes tasks or a checkpoint.

    Raises:
      UserError: settings, dataset or checkpoint are not usable; the message says what to do.
    """
    if config.tasks_into is None:
        refuse_to_overwrite(config.checkpoint_dir)
    checkpoint, data = load_with_features(config.checkpoint, config.dataset)
    if config.tasks_into is not None:
        pool = of_device(data, device_of(data, config.hardware)) if config.hardware else data
        return write_tasks(config.dataset, _chosen(config, pool), config.tasks_into)
    return finetune(config, checkpoint, data)


def finetune(config: FinetuneConfig, checkpoint: Checkpoint, data: LabelledFeatures) -> FinetuneResult:
    """Fine-tunes on the chosen tasks of a device of `data`, and evaluates on its other tasks.

    Raises:
      TransferError, TaskChoiceError: the dataset does not hold what is asked for.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    hardware = device_of(data, config.hardware)
    target = of_device(data, hardware)
    tasks = _chosen(config, target)
    if not knows_backend(checkpoint.predictor.normaliser, target):
        log.warning(
            "the checkpoint was trained on no %s before: expect little of a transfer", _backend(target)
        )
    few = of_tasks(target, tasks, config.records_per_task, config.seed)
    log.info("fine-tuning on %d records of %d tasks of device %s", len(few), len(tasks), hardware)
    trained = finetune_weights(config, checkpoint, few, tasks, hardware)

    after = load_checkpoint(config.checkpoint_dir, checkpoint.card.feature_version)
    shapes = target.shape[np.isin(target.workload_hash, tasks)]
    unseen = target.take(np.flatnonzero(~checkpoint.card.split.saw(target) & ~np.isin(target.shape, shapes)))
    result = FinetuneResult(
        config.checkpoint_dir,
        hardware,
        tasks,
        evaluate_records(checkpoint, unseen),
        evaluate_records(after, unseen),
        trained.epochs,
        trained.seconds,
    )
    _write(result, config)
    return result


def evaluate_records(checkpoint: Checkpoint, data: LabelledFeatures) -> Metrics | None:
    """Metrics over all records of `data`; None where no program of them ran."""
    if not np.isfinite(data.latency_s).any():
        return None
    prediction = checkpoint.predictor.predict_table(data.features, np.arange(len(data)))
    return evaluate(prediction, data.latency_s, Labels.of(data).group)


def _chosen(config: FinetuneConfig, pool: LabelledFeatures) -> list[str]:
    """The tasks that are given or chosen; all of the pool where it has no more than k."""
    if config.tasks:
        return list(dict.fromkeys(config.tasks))
    tasks = len(np.unique(pool.workload_hash))
    if tasks < config.choice.k:
        log.warning("choice.k=%d, and there are %d tasks: taking all of them", config.choice.k, tasks)
    return choose_tasks(pool, replace(config.choice, k=min(config.choice.k, tasks)))


def _backend(data: LabelledFeatures) -> str:
    return "GPU" if data.features.hardware[:, 0].mean() > 0.5 else "CPU"


def _write(result: FinetuneResult, config: FinetuneConfig) -> None:
    parts = {"before": result.before, "after": result.after}
    values = {
        "checkpoint": config.checkpoint,
        "hardware_id": result.hardware,
        "tasks": result.tasks,
        **{name: _json(metrics) for name, metrics in parts.items()},
    }
    path = config.run_dir / "transfer.json"
    path.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _json(metrics: Metrics | None) -> dict[str, float | None] | None:
    if metrics is None:
        return None
    return {name: value if np.isfinite(value) else None for name, value in metrics.summary().items()}


def transfer_table(result: FinetuneResult) -> Table:
    """Before and after on the tasks that neither model has seen."""
    table = Table("model", *COLUMNS.values())
    for column in table.columns[1:]:
        column.justify = "right"
    for name, metrics in (("before", result.before), ("after", result.after)):
        if metrics is not None:
            table.title = f"{metrics.tasks} other tasks of {result.hardware}, {metrics.records} records"
            table.add_row(name, *(f"{getattr(metrics, column):.3f}" for column in COLUMNS))
    return table


@hydra.main(version_base="1.3", config_path="pkg://foretune.conf", config_name="finetune")
@exits_cleanly()
def main(config: DictConfig) -> None:
    """Entry point: composes, validates, chooses tasks or fine-tunes, and says what to run next."""
    settings = from_hydra(config, FinetuneConfig)
    result = run(settings)
    if isinstance(result, ChosenTasks):
        Console().print(result.table())
        print(
            f"wrote {len(result.tasks)} tasks to {result.folder}\n"
            "next, on the new device, to which the folder can be copied:\n"
            f"  foretune-generate dataset={result.folder} tasks_from={result.folder}\n"
            f"  foretune-finetune checkpoint={settings.checkpoint} dataset={result.folder} "
            f"choice.k={len(result.tasks)}"
        )
        return
    if result.after is not None:
        Console().print(transfer_table(result))
    print(f"fine-tuned {result.epochs} epochs on {len(result.tasks)} tasks in {result.seconds:.0f} s")
    print(
        f"wrote {result.checkpoint_dir}\nnext, on the device {result.hardware}:\n"
        f"  foretune-tune checkpoint={result.checkpoint_dir} network=resnet18"
    )


if __name__ == "__main__":
    main()
