"""Transfer of a checkpoint to a new device with few tasks (`foretune finetune`, Fasor section 4.2).

If the new device has no records yet, `tasks_into` writes the tasks to measure there. If the dataset has its
records, the chosen tasks are trained on and all other tasks evaluate the transfer.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from ..configuration import from_hydra
from ..dataset.features.table import LabelledFeatures
from ..dataset.records.split import with_shapes_of
from ..models.checkpoints.checkpoint import Checkpoint, load_checkpoint, refuse_to_overwrite
from ..models.metrics.task_metrics import Metrics, evaluate
from ..wording import counted
from .evaluation.prediction import predict
from .fitting.feature_source import load_with_features
from .fitting.labels import Labels
from .transfer.chosen_tasks import ChosenTasks, write_tasks
from .transfer.config import FinetuneConfig
from .transfer.finetuned_weights import finetune_weights
from .transfer.recorded_transfer import device_of, knows_backend, of_device, of_tasks
from .transfer.task_choice import choose_tasks

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
    """Checkpoint for the new device, and the metrics there before and after fine-tuning.

    The metrics are over the device's tasks that neither the source model nor the fine-tuning has seen; None
    if the dataset has no such task.
    """

    checkpoint_dir: Path
    hardware: str
    tasks: list[str]
    before: Metrics | None
    after: Metrics | None
    epochs: int
    seconds: float


def run(config: FinetuneConfig) -> FinetuneResult | ChosenTasks:
    """Reads the dataset of `config` and writes the chosen tasks or a checkpoint.

    Raises:
      UserError: settings, dataset or checkpoint are not usable; the message names the next step.
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
      TransferError, TaskChoiceError: the dataset lacks the device or the tasks.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    hardware = device_of(data, config.hardware)
    target = of_device(data, hardware)
    tasks = _chosen(config, target)
    if not knows_backend(checkpoint.predictor.normaliser, target):
        log.warning(
            "the checkpoint was not trained on any %s: the transfer will bring little", _backend(target)
        )
    few = of_tasks(target, tasks, config.records_per_task, config.seed)
    log.info("fine-tuning on %d records of %d tasks of device %s", len(few), len(tasks), hardware)
    trained = finetune_weights(config, checkpoint, few, tasks, hardware)

    after = load_checkpoint(config.checkpoint_dir, checkpoint.card.feature_version)
    seen = checkpoint.card.split.saw(target) | with_shapes_of(target, tasks)
    unseen = target.take(np.flatnonzero(~seen))
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
    """Metrics over all records of `data`; None if no program ran."""
    if not np.isfinite(data.latency_s).any():
        return None
    prediction, _ = predict(checkpoint, data, np.arange(len(data)))
    return evaluate(prediction, data.latency_s, Labels.of(data).group)


def _chosen(config: FinetuneConfig, pool: LabelledFeatures) -> list[str]:
    """Given or chosen tasks; all tasks of the pool if it has at most k."""
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
    """Table of the metrics before and after, on the tasks that neither model has seen."""
    table = Table("model", *COLUMNS.values())
    for column in table.columns[1:]:
        column.justify = "right"
    for name, metrics in (("before", result.before), ("after", result.after)):
        if metrics is not None:
            table.title = f"{metrics.tasks} other tasks of {result.hardware}, {metrics.records} records"
            table.add_row(name, *(f"{getattr(metrics, column):.3f}" for column in COLUMNS))
    return table


def main(config: DictConfig) -> None:
    """Entry of `foretune finetune`."""
    settings = from_hydra(config, FinetuneConfig)
    result = run(settings)
    if isinstance(result, ChosenTasks):
        Console().print(result.table())
        print(
            f"wrote {len(result.tasks)} tasks to {result.folder}\n"
            "next, on the new device, to which the folder can be copied:\n"
            f"  foretune generate dataset={result.folder} tasks_from={result.folder}\n"
            f"  foretune finetune checkpoint={settings.checkpoint} dataset={result.folder} "
            f"choice.k={len(result.tasks)}"
        )
        return
    if result.after is not None:
        Console().print(transfer_table(result))
    epochs, tasks = counted(result.epochs, "epoch"), counted(len(result.tasks), "task")
    print(f"fine-tuned {epochs} on {tasks} in {result.seconds:.0f} s")
    print(
        f"wrote {result.checkpoint_dir}\nnext, on the device {result.hardware}:\n"
        f"  foretune tune checkpoint={result.checkpoint_dir} network=resnet18"
    )
