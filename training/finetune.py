"""Transfer of a checkpoint to a new device with few tasks (`foretune finetune`, Fasor section 4.2).

If the new device has no records yet, `tasks_into` writes the tasks to measure there. If the dataset has its
records, the chosen tasks are trained on and all other tasks evaluate the transfer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from ..configuration import from_hydra
from ..dataset.features.table import LabelledFeatures
from ..dataset.records.split import with_shapes_of
from ..dataset.records.store import RecordStore
from ..files import check_writable, disk_errors, write_whole
from ..models.checkpoints.checkpoint import Checkpoint, load_card, load_checkpoint, refuse_to_overwrite
from ..models.metrics.task_metrics import Metrics, evaluate
from ..page import Table, columns
from ..sweep import RunOutcome
from ..terminal import CommandConsole, print_table, say, short_path
from ..wording import counted, decimal, duration, shell_command, verb
from .evaluation.prediction import predict
from .fitting.feature_source import load_with_features
from .fitting.labels import Labels
from .interruption import tells_how_to_continue
from .transfer.chosen_tasks import ChosenTasks, write_tasks
from .transfer.config import FinetuneConfig
from .transfer.finetuned_weights import finetune_weights
from .transfer.recorded_transfer import device_of, knows_backend, of_device, of_tasks
from .transfer.task_choice import ChoiceConfig, choose_tasks
from .transfer.verdict import JudgedBy, Verdict

log = logging.getLogger(__name__)

COLUMNS = {
    "spearman": "spearman",
    "pairwise_accuracy": "pairs",
    "top_1": "top-1",
    "top_5": "top-5",
    "peak_10": "peak@10",
    "r2": "R2",
}
"""Metrics of the printed table and their titles."""


@dataclass(frozen=True)
class FinetuneResult:
    """Checkpoint for the new device, and its comparison with the checkpoint that it starts from."""

    checkpoint_dir: Path
    hardware: str
    tasks: list[str]
    verdict: Verdict | None
    """Comparison on the device's tasks that neither the source model nor the fine-tuning has seen, otherwise
    on the tasks that chose the epoch; None without such tasks."""
    epochs: int
    seconds: float

    @property
    def is_worse(self) -> bool:
        """Whether the starting point is the better checkpoint."""
        return self.verdict is not None and self.verdict.is_worse


def run(config: FinetuneConfig) -> FinetuneResult | ChosenTasks:
    """Reads the dataset of `config` and writes the chosen tasks or a checkpoint.

    Raises:
      UserError: settings, dataset or checkpoint are not usable; the message names the next step.
    """
    if config.tasks_into is None:
        refuse_to_overwrite(config.checkpoint_dir)
        check_writable(config.run_dir, "run_dir", folder=True)
    checkpoint, data = load_with_features(config.checkpoint, config.dataset)
    if config.tasks_into is not None:
        pool = of_device(data, device_of(data, config.hardware)) if config.hardware else data
        return write_tasks(config.dataset, _chosen(config, pool), config.tasks_into)
    kept = f"{config.run_dir} keeps the finished epochs, and checkpoint={config.checkpoint} is as it was"
    with disk_errors(config.run_dir, kept=kept):
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
    records, of = counted(len(few), "record"), counted(len(tasks), "task")
    log.info("fine-tuning on %s of %s of device %s", records, of, hardware)
    trained = finetune_weights(config, checkpoint, few, tasks, hardware)

    verdict = _judged(config, checkpoint, target, tasks)
    result = FinetuneResult(config.checkpoint_dir, hardware, tasks, verdict, trained.epochs, trained.seconds)
    _write(result, config)
    return result


def _judged(
    config: FinetuneConfig, source: Checkpoint, target: LabelledFeatures, tasks: list[str]
) -> Verdict | None:
    """Compares the written checkpoint with its source on the same records of the device."""
    tuned = load_checkpoint(config.checkpoint_dir, source.card.feature_version)
    seen = source.card.split.saw(target) | with_shapes_of(target, tasks)
    stopping = np.isin(target.workload_hash, tuned.card.split.validation_tasks)
    for by, rows in ((JudgedBy.OTHER_TASKS, ~seen), (JudgedBy.STOPPING_TASKS, stopping)):
        judges = target.take(np.flatnonzero(rows))
        before, after = evaluate_records(source, judges), evaluate_records(tuned, judges)
        if before is not None and after is not None:
            return Verdict(by, before, after)
    return None


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
        there = f"there {verb(tasks, 'is', 'are')} {counted(tasks, 'task')}"
        log.warning("choice.k=%d, and %s: taking all of them", config.choice.k, there)
    return choose_tasks(pool, replace(config.choice, k=min(config.choice.k, tasks)))


def _backend(data: LabelledFeatures) -> str:
    return "GPU" if data.features.hardware[:, 0].mean() > 0.5 else "CPU"


def _write(result: FinetuneResult, config: FinetuneConfig) -> None:
    verdict = result.verdict
    values = {
        "checkpoint": config.checkpoint,
        "hardware_id": result.hardware,
        "tasks": result.tasks,
        "judged_by": verdict and verdict.by.name.lower(),
        "before": verdict and _json(verdict.before.summary()),
        "after": verdict and _json(verdict.after.summary()),
        "margin": verdict and _json(asdict(verdict.margin)),
        "recommended": config.checkpoint if result.is_worse else str(result.checkpoint_dir),
    }
    path = config.run_dir / "transfer.json"
    write_whole(path, json.dumps(values, indent=2, allow_nan=False) + "\n")


def _json(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in values.items()}


def transfer_table(result: FinetuneResult) -> Table:
    """Table of the metrics before and after, on the same tasks; no rows without a verdict."""
    heads = columns("model", *COLUMNS.values())
    if (found := result.verdict) is None:
        return Table("", heads, [])
    tasks, records = counted(found.before.tasks, "task"), counted(found.before.records, "record")
    rows = [
        [name, *(decimal(getattr(metrics, column)) for column in COLUMNS)]
        for name, metrics in (("before", found.before), ("after", found.after))
    ]
    return Table(f"{tasks} of {result.hardware} {found.by.value}, {records}", heads, rows)


def next_steps(result: FinetuneResult, source: str) -> list[str]:
    """Lines about the verdict and the command that uses the better checkpoint."""
    chosen = source if result.is_worse else short_path(result.checkpoint_dir)
    if result.verdict is None:
        said = (
            "nothing shows whether fine-tuning made the model better: measure more tasks on the device than "
            f"the {counted(len(result.tasks), 'task')} trained on, and fine-tune again"
        )
    else:
        said = result.verdict.sentence()
    keeps = ", with the starting point, which is the better model" if result.is_worse else ""
    return [
        said,
        f"next, on the device {result.hardware}{keeps}:",
        f"  {shell_command('foretune', 'tune', f'checkpoint={chosen}', 'network=resnet18')}",
    ]


def steps_on_the_device(chosen: ChosenTasks, source: str) -> list[str]:
    """Lines about the written tasks and the commands that measure them and fine-tune with them."""
    count, dataset = len(chosen.tasks), f"dataset={chosen.folder}"
    trained = min(count, ChoiceConfig().k)
    tune = ("finetune", f"checkpoint={source}", dataset, f"choice.k={trained}")
    lines = [
        f"wrote {counted(count, 'task')} to {chosen.folder}",
        "next, on the new device, to which the folder can be copied:",
        f"  {shell_command('foretune', 'generate', dataset, f'tasks_from={chosen.folder}')}",
        f"  {shell_command('foretune', *tune)}",
    ]
    if trained < count:
        others = counted(count - trained, "other task")
        lines.append(f"which trains on {trained} of them, and judges the result by the {others}")
    return lines


def check(config: FinetuneConfig) -> None:
    """Raises UserError for a dataset or checkpoint that does not exist, without reading its data."""
    RecordStore(config.dataset).require()
    load_card(config.checkpoint)


def main(config: DictConfig) -> RunOutcome | None:
    """Entry of `foretune finetune`; several runs are compared by the rank correlation on other tasks."""
    settings = from_hydra(config, FinetuneConfig)
    console = CommandConsole()
    with tells_how_to_continue(settings.run_dir):
        result = run(settings)
    if isinstance(result, ChosenTasks):
        print_table(result.table(), console)
        for line in steps_on_the_device(result, settings.checkpoint):
            say(console, line)
        return None
    print_table(transfer_table(result), console)
    trained = f" {counted(result.epochs, 'epoch')}" if result.epochs else ""
    tasks, folder = counted(len(result.tasks), "task"), short_path(result.checkpoint_dir)
    for line in (
        f"fine-tuned{trained} on {tasks} in {duration(result.seconds)}",
        f"wrote {folder}",
        *next_steps(result, settings.checkpoint),
    ):
        say(console, line)
    return None if result.verdict is None else RunOutcome("Spearman", result.verdict.after.spearman)
