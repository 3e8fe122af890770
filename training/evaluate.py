"""Evaluates a checkpoint on the measured tasks of a dataset (`foretune evaluate`)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..configuration import ConfigError, as_json, check_seed, from_hydra
from ..dataset.records.store import RecordStore
from ..files import check_writable, write_whole
from ..models.checkpoints.checkpoint import Checkpoint, load_card
from ..sweep import RunOutcome
from ..terminal import CommandConsole, print_table, say, short_path
from ..wording import decimal
from .evaluation.networks import evaluation_networks
from .evaluation.tables import evaluation_table, network_table, remarks
from .evaluation.task_scores import PARTS, Evaluation, evaluate_checkpoint
from .fitting.feature_source import load_with_features


@dataclass(frozen=True)
class EvaluateConfig:
    """Settings of `foretune evaluate`; conf/evaluate.yaml describes the fields."""

    checkpoint: str
    dataset: Path
    output: Path
    part: str = "unseen"
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        if self.part not in PARTS:
            raise ConfigError(f"part={self.part!r} is unknown: choose one of {', '.join(PARTS)}")


def run(config: EvaluateConfig) -> Evaluation:
    """Evaluates a checkpoint on a dataset and writes the result to `config.output` as JSON.

    Raises:
      UserError: checkpoint or dataset are not usable; the message names the next step.
    """
    check_writable(config.output, "output")
    checkpoint, data = load_with_features(config.checkpoint, config.dataset)
    networks = evaluation_networks(config.dataset, data)
    result = evaluate_checkpoint(checkpoint, data, config.part, config.seed, networks)
    write_evaluation(result, checkpoint, config)
    return result


def write_evaluation(result: Evaluation, checkpoint: Checkpoint, config: EvaluateConfig) -> None:
    """Writes overall and per-task metrics, with the settings and the checkpoint."""
    values = {
        "config": as_json(config),
        "checkpoint": {
            "path": str(checkpoint.path),
            "weights_sha256": checkpoint.card.weights_sha256,
            "feature_version": checkpoint.card.feature_version,
        },
        "overall": _json(result.model.summary()),
        "chance": _json(result.chance.summary()),
        "facts": _json(result.facts),
        "seen_tasks": result.seen_tasks,
        "left_out_tasks": result.left_out_tasks,
        "networks_without_records": result.unmeasured,
        "networks": [_json(asdict(network)) for network in result.networks],
        "per_task": [_json(task) for task in result.per_task],
    }
    write_whole(config.output, json.dumps(values, indent=2, allow_nan=False) + "\n", field="output")


def _json(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }


def check(config: EvaluateConfig) -> None:
    """Raises UserError for a dataset or checkpoint that does not exist, without reading its data."""
    RecordStore(config.dataset).require()
    load_card(config.checkpoint)


def main(config: DictConfig) -> RunOutcome:
    """Entry of `foretune evaluate`; several runs are compared by the rank correlation."""
    settings = from_hydra(config, EvaluateConfig)
    result = run(settings)
    console = CommandConsole()
    print_table(evaluation_table(result), console)
    text = f"predicted scores: RMSE {decimal(result.model.rmse)}, R2 {decimal(result.model.r2)}"
    text += f", R2 of their logarithms {decimal(result.model.log_r2)}"
    if "latency_r2" in result.facts:
        text += f"; R2 of the logarithms of predicted latencies {decimal(result.facts['latency_r2'])}"
        text += f", of each task's mean latency {decimal(result.facts['task_latency_r2'])}"
    say(console, text)
    print_table(network_table(result), console)
    for remark in remarks(result, str(settings.dataset)):
        say(CommandConsole(stderr=True), remark, "yellow")
    say(console, f"wrote {short_path(settings.output)}")
    return RunOutcome("Spearman", result.model.spearman)
