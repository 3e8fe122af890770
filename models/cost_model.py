"""What a cost model is: a network over tensors inside, a predictor over arrays outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..dataset.features.table import FeatureBatch, FeatureTable
from .normaliser import Normaliser
from .target import TargetConfig


class FeatureTensors(NamedTuple):
    """A `FeatureBatch` of normalised features as tensors; masks are True where a token is real."""

    stores: Tensor  # float32 [n, max_stores, dims.stores]
    store_mask: Tensor  # bool [n, max_stores]
    decisions: Tensor  # float32 [n, max_decisions, dims.decisions]
    decision_mask: Tensor  # bool [n, max_decisions]
    task: Tensor  # float32 [n, dims.task]
    hardware: Tensor  # float32 [n, dims.hardware]

    @classmethod
    def of(cls, batch: FeatureBatch) -> FeatureTensors:
        """Wraps the arrays of a batch without a copy."""
        return cls(*(torch.from_numpy(getattr(batch, f.name)) for f in fields(batch)))


class CostModel(nn.Module, ABC):
    """A network that rates candidates; every subclass takes `dims: FeatureDims` first."""

    @abstractmethod
    def forward(self, features: FeatureTensors) -> Tensor:
        """Outputs float32 [n] on the scale of the training target, higher for faster programs.

        An output depends on its own row only, and not on what its padding holds.
        """


@dataclass(frozen=True)
class Predictor:
    """Scores candidates with a trained model, from raw features."""

    normaliser: Normaliser
    model: CostModel
    target: TargetConfig
    chunk: int = 512  # the paper's search batch (One-Shot Tuner Table 2), and a bound on memory

    def predict(self, batch: FeatureBatch) -> NDArray[np.float32]:
        """Predicted scores float32 [n], higher for faster programs; near 1 for the best of its task.

        Neither global nor thread settings of torch are touched.

        Raises:
          ValueError: the batch has other dimensions than the model, or holds NaN.
        """
        scores = np.empty(len(batch), dtype=np.float32)
        self.model.eval()
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            for start in range(0, len(batch), self.chunk):
                rows = slice(start, start + self.chunk)
                part = FeatureBatch(*(getattr(batch, f.name)[rows] for f in fields(batch)))
                features = FeatureTensors.of(self.normaliser.batch(part))
                output = self.model(FeatureTensors(*(tensor.to(device) for tensor in features)))
                scores[rows] = self.target.decode(output.float().cpu().numpy())
        if np.isnan(scores).any():
            bad = int(np.flatnonzero(np.isnan(scores))[0])
            raise ValueError(f"the features of candidate {bad} hold NaN: regenerate the features")
        return scores

    def predict_table(self, table: FeatureTable, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Predicted scores [len(rows)] of some rows of a table, padded a chunk at a time."""
        chunks = (table.batch(rows[i : i + self.chunk]) for i in range(0, len(rows), self.chunk))
        return np.concatenate([np.empty(0, np.float32), *(self.predict(chunk) for chunk in chunks)])


def masked_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real tokens: [n, tokens, width] and bool [n, tokens] -> [n, width], 0 if none is."""
    weight = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)


def masked_sum(tokens: Tensor, mask: Tensor) -> Tensor:
    """Sum over the real tokens: [n, tokens, width] and bool [n, tokens] -> [n, width]."""
    return (tokens * mask.unsqueeze(-1)).sum(dim=1)
