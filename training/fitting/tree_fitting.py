"""Fitting of boosted trees in a training, in place of Lightning's training of networks."""

from __future__ import annotations

import logging

import torch

from ...models.architectures.trees import TreesCostModel
from ...models.losses.losses import LossConfig
from ...models.scaling.target import TargetConfig
from .datamodule import CostModelData, DataError

log = logging.getLogger(__name__)

_LOG_INTERVAL = 100  # trees


def fit_trees(
    model: TreesCostModel, records: CostModelData, target: TargetConfig, loss: LossConfig, seed: int
) -> None:
    """Fits the trees to the training rows until the validation error no longer improves.

    Of the loss, `offset` applies alone.
    Fitting takes minutes at most, so an interrupted one is repeated.

    Raises:
      DataError: the stores, which trees read, are left out.
    """
    if "stores" in records.normaliser.without:
        raise DataError("data.without has stores, which trees read: leave them in, or train a network")
    number = model.fit(
        records.features,
        records.train.rows,
        records.validation.rows,
        records.normaliser,
        target.decode(records.targets.primary),
        records.labels.group,
        target,
        loss.offset,
        seed,
        torch.get_num_threads(),
        lambda trees: log.info("tree %4d", trees) if trees % _LOG_INTERVAL == 0 else None,
    )
    log.info("%d trees", number)
