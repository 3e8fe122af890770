"""Boosted trees from the records of a training, where networks are trained by Lightning."""

from __future__ import annotations

import logging

import torch

from ..models.target import TargetConfig
from ..models.trees import TreesCostModel
from .datamodule import CostModelData, DataError

log = logging.getLogger(__name__)

_TOLD_EACH = 100  # trees


def grow(model: TreesCostModel, records: CostModelData, target: TargetConfig, seed: int) -> None:
    """Fits the trees to the training rows, until those for validation are predicted no better.

    It takes minutes at most, so that an interrupted one begins anew.

    Raises:
      DataError: stores, which trees read, are left out.
    """
    if "stores" in records.normaliser.without:
        raise DataError(
            "data.without has stores, which are what trees read: leave them in, or take a network"
        )
    number = model.fit(
        records.features,
        records.train.rows,
        records.validation.rows,
        records.normaliser,
        target.decode(records.targets.primary),
        target,
        seed,
        torch.get_num_threads(),
        lambda trees: log.info("tree %4d", trees) if trees % _TOLD_EACH == 0 else None,
    )
    log.info("%d trees", number)
