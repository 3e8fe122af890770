"""Training targets of a model's columns for each record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dataset.features.roofline import dataset_scores, latency_bound_s
from ...dataset.features.table import LabelledFeatures
from ...models.scaling.columns import SHARES, encode_share
from ...models.scaling.target import TargetConfig
from .labels import Labels


@dataclass(frozen=True)
class Targets:
    """Targets with one row per record, 0 for a failure."""

    primary: NDArray[np.float32]  # [n], see TargetConfig
    shares: NDArray[np.float32]  # [n, k], see columns.encode_share; k may be 0

    @classmethod
    def of(
        cls, data: LabelledFeatures, labels: Labels, target: TargetConfig, columns: Sequence[str]
    ) -> Targets:
        """Targets of the records of `labels` for a model of these columns."""
        if target.quantity == "efficiency":
            quantity = latency_bound_s(data.features) / labels.latency_s  # 0 for a failure
        else:
            quantity = np.nan_to_num(labels.score)
        shares = np.zeros((len(data), 0), dtype=np.float32)
        names = [name for name in columns if name in SHARES]
        if names:
            scores = dataset_scores(data)
            shares = np.stack([encode_share(getattr(scores, name)) for name in names], axis=1)
        return cls(target.encode(quantity), shares)
