"""Lightning module of a cost model: training and validation steps, and the optimiser."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from ...errors import UserError
from ...models.architectures.cost_model import CostModel
from ...models.losses.losses import LossConfig
from ...models.metrics.task_metrics import evaluate
from ...models.scaling.target import TargetConfig
from .datamodule import TrainingBatch

MONITORS = ("spearman", "pairwise_accuracy", "top_1", "top_5", "r2", "rmse")
"""Validation metrics that are logged and can choose the epoch."""

log = logging.getLogger(__name__)


class DivergedError(UserError, ArithmeticError):
    """The outputs or the weights of the model are no longer finite."""


class OptimiserError(UserError, ValueError):
    """A setting of the optimiser is out of range."""


@dataclass(frozen=True)
class OptimiserConfig:
    """Settings of AdamW; the rate rises linearly over the share `warmup` of all steps, then falls to 0."""

    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    warmup: float = 0.05

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0 and self.weight_decay >= 0 and 0 <= self.warmup < 1):
            raise OptimiserError(
                f"{self}: set learning_rate above 0, weight_decay to 0 or more, warmup within [0, 1)"
            )


class CostModelModule(pl.LightningModule):
    """Training of a model, with metrics on the validation tasks after each epoch."""

    def __init__(
        self, model: CostModel, target: TargetConfig, loss: LossConfig, optimiser: OptimiserConfig
    ) -> None:
        super().__init__()
        loss.check(model.columns)
        self.model = model
        self._target = target
        self._loss = loss
        self._optimiser = optimiser
        self._outputs: list[tuple[Tensor, Tensor, Tensor]] = []

    def on_train_epoch_start(self) -> None:
        """Seeds the epoch."""
        self.trainer.datamodule.seed_epoch(self.current_epoch)  # type: ignore[attr-defined]

    def training_step(self, batch: TrainingBatch, _: int) -> Tensor:
        """Loss of one batch."""
        loss = self._step(batch)[0]
        self.log(
            "train/loss", loss, batch_size=len(batch.target), on_step=False, on_epoch=True, prog_bar=True
        )
        return loss

    def validation_step(self, batch: TrainingBatch, _: int) -> None:
        """Stores the outputs, since the metrics need complete tasks."""
        loss, output = self._step(batch)
        self.log("validation/loss", loss, batch_size=len(batch.target))
        self._outputs.append((output.float().cpu(), batch.latency_s.cpu(), batch.group.cpu()))

    def _step(self, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Loss of a batch, and its primary outputs [n]."""
        columns = self.model.all_columns(batch.features)
        loss = self._loss.of_columns(columns, self.model.columns, batch.target, batch.shares, batch.group)
        return loss, columns[:, 0]

    def on_validation_epoch_end(self) -> None:
        """Logs `validation/<metric>` for each metric."""
        output, latency_s, group = (torch.cat(parts).numpy() for parts in zip(*self._outputs, strict=True))
        self._outputs.clear()
        self._require_finite("outputs", bool(np.isfinite(output).all()))
        prediction = self._target.comparable(self._target.decode(output), group)
        metrics = evaluate(prediction, latency_s.astype(np.float64), group)
        self.log_dict({f"validation/{name}": getattr(metrics, name) for name in MONITORS})
        log.info("epoch %3d  %s", self.current_epoch, metrics)

    def on_train_epoch_end(self) -> None:
        """Checks the weights, as a training may have no validation tasks."""
        self._require_finite("weights", all(bool(w.isfinite().all()) for w in self.parameters()))

    def _require_finite(self, what: str, finite: bool) -> None:
        if not finite:
            raise DivergedError(
                f"the {what} are not finite after epoch {self.current_epoch}: lower "
                f"optimiser.learning_rate, which is {self._optimiser.learning_rate}"
            )

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW with a linear warm-up and a linear decay."""
        optimiser = torch.optim.AdamW(
            self.parameters(), self._optimiser.learning_rate, weight_decay=self._optimiser.weight_decay
        )
        steps = max(int(self.trainer.estimated_stepping_batches), 1)
        warmup = max(round(self._optimiser.warmup * steps), 1)

        def rate(step: int) -> float:
            return min((step + 1) / warmup, max(steps - step, 0) / max(steps - warmup, 1))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
