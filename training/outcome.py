"""Evaluation of a trained model for its card: corrected standard deviations, and metrics by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..models.calibration import Calibration, calibrate, fit_correction
from ..models.columns import LOG_VARIANCE
from ..models.cost_model import CostModel, Predictor
from ..models.metrics import Metrics, evaluate
from ..models.target import TargetConfig
from .datamodule import CostModelData


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
        if LOG_VARIANCE in model.columns:
            predictor = _corrected(predictor, records)
        return cls(predictor, *_evaluated(predictor, records))

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
    for part, of_part in metrics.items():
        print(f"{part:10}  {of_part.tasks} tasks, {of_part.records} records  {of_part}")
        if part in calibration:
            print(f"{'':10}  {calibration[part]}")
    print(
        f"{wrote} {checkpoint_dir}\n"
        "next:\n"
        f"  foretune evaluate checkpoint={checkpoint_dir} dataset={dataset}\n"
        f"  foretune tune checkpoint={checkpoint_dir} network=resnet18"
    )


def _corrected(predictor: Predictor, records: CostModelData) -> Predictor:
    """Predictor whose standard deviations are fitted to the errors on validation tasks, if there are any."""
    rows = _successful(records, "validation")
    made = predictor.predict_all_table(records.data.features, rows)
    if made.std is None:
        return predictor
    scale, floor = fit_correction(made.output, made.std, records.targets.primary[rows])
    return replace(predictor, std_scale=scale, std_floor=floor)


def _evaluated(
    predictor: Predictor, records: CostModelData
) -> tuple[dict[str, Metrics], dict[str, Calibration]]:
    metrics, calibration = {}, {}
    data, group = records.data, records.labels.group
    for part in ("validation", "test"):
        rows, ran = records.split.part(part), _successful(records, part)
        if len(ran) == 0:
            continue
        prediction = predictor.predict_table(data.features, rows)
        scores = predictor.target.comparable(prediction, group[rows])
        metrics[part] = evaluate(scores, data.latency_s[rows], group[rows])
        made = predictor.predict_all_table(data.features, ran)
        if made.std is not None:
            calibration[part] = calibrate(made.output, made.std, records.targets.primary[ran])
    return metrics, calibration


def _successful(records: CostModelData, part: str) -> np.ndarray:
    rows = records.split.part(part)
    return rows[np.isfinite(records.data.latency_s[rows])]
