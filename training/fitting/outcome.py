"""Evaluation of a trained model for its card: corrected standard deviations, and metrics by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...models.architectures.cost_model import CostModel, Predictor
from ...models.metrics.calibration import Calibration, calibrate, fit_correction
from ...models.metrics.task_metrics import Metrics, evaluate
from ...models.scaling.target import TargetConfig
from ...terminal import CommandConsole, say, short_path
from ...wording import counted, shell_command
from .datamodule import CostModelData

_PARTS = ("validation", "test")


@dataclass(frozen=True)
class Outcome:
    """Trained predictor with its metrics on the validation and test parts that have a successful program."""

    predictor: Predictor
    metrics: dict[str, Metrics]
    calibration: dict[str, Calibration]  # of a model that predicts a variance

    @classmethod
    def of(cls, model: CostModel, target: TargetConfig, records: CostModelData) -> Outcome:
        """Outcome of a model on the validation and test parts of its records."""
        predictor = Predictor(records.normaliser, model, target)
        features = records.data.features
        columns = {part: predictor.table_columns(features, records.split.part(part)) for part in _PARTS}
        predictor = _corrected(predictor, records, columns["validation"])
        return cls(predictor, *_evaluated(predictor, records, columns))

    @property
    def figures(self) -> dict[str, dict[str, float | None]]:
        """Part -> name -> value, for the card."""
        return {
            part: {
                **of_part.summary(),
                **(self.calibration[part].summary() if part in self.calibration else {}),
            }
            for part, of_part in self.metrics.items()
        }


def report(
    metrics: Mapping[str, Metrics],
    calibration: Mapping[str, Calibration],
    wrote: str,
    checkpoint_dir: Path,
    dataset: Path,
) -> None:
    """Prints metrics, the written folder and the next commands.

    They are printed and not logged, as a log wraps the lines that a user copies.
    """
    console = CommandConsole()
    for part, of_part in metrics.items():
        tasks, records = counted(of_part.tasks, "task"), counted(of_part.records, "record")
        say(console, f"{part:10}  {tasks}, {records}  {of_part}")
        if part in calibration:
            say(console, f"{'':10}  {calibration[part]}")
    folder = short_path(checkpoint_dir)
    checkpoint = f"checkpoint={folder}"
    for line in (
        f"{wrote} {folder}",
        "next:",
        f"  {shell_command('foretune', 'evaluate', checkpoint, f'dataset={dataset}')}",
        f"  {shell_command('foretune', 'tune', checkpoint, 'network=resnet18')}",
    ):
        say(console, line)


def _corrected(predictor: Predictor, records: CostModelData, columns: NDArray[np.float32]) -> Predictor:
    """Predictor whose standard deviations are fitted to the errors on validation tasks, if there are any."""
    rows, ran = _part(records, "validation")
    made = predictor.named(columns[ran])
    if made.std is None:
        return predictor
    scale, floor = fit_correction(made.output, made.std, records.targets.primary[rows[ran]])
    return replace(predictor, std_scale=scale, std_floor=floor)


def _evaluated(
    predictor: Predictor, records: CostModelData, columns: Mapping[str, NDArray[np.float32]]
) -> tuple[dict[str, Metrics], dict[str, Calibration]]:
    metrics, calibration = {}, {}
    group = records.labels.group
    for part in _PARTS:
        rows, ran = _part(records, part)
        if not ran.any():
            continue
        made = predictor.named(columns[part])
        scores = predictor.target.comparable(made.score, group[rows])
        metrics[part] = evaluate(scores, records.data.latency_s[rows], group[rows])
        if made.std is not None:
            targets = records.targets.primary[rows[ran]]
            calibration[part] = calibrate(made.output[ran], made.std[ran], targets)
    return metrics, calibration


def _part(records: CostModelData, part: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of a part, and whether each of their programs ran."""
    rows = records.split.part(part)
    return rows, np.isfinite(records.data.latency_s[rows])
