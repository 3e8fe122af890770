"""Multi-layer perceptron over single tokens, summed: the cost model that TenSet proposed, as a baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .cost_model import CostModel, FeatureTensors, masked_sum
from .normaliser import FeatureDims


class MlpCostModel(CostModel):
    """Encodes each store and each decision alone and sums: neither order nor neighbours count."""

    def __init__(self, dims: FeatureDims, width: int = 256, dropout: float = 0.0) -> None:
        super().__init__()
        self.store_encoder = _encoder(dims.stores, width)
        self.decision_encoder = _encoder(dims.decisions, width)
        self.context_encoder = _encoder(dims.task + dims.hardware, width)
        self.head = nn.Sequential(
            nn.LayerNorm(3 * width),
            nn.Linear(3 * width, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, features: FeatureTensors) -> Tensor:
        """[n] outputs; see `CostModel.forward`."""
        stores = masked_sum(self.store_encoder(features.stores), features.store_mask)
        decisions = masked_sum(self.decision_encoder(features.decisions), features.decision_mask)
        context = self.context_encoder(torch.cat([features.task, features.hardware], dim=-1))
        output: Tensor = self.head(torch.cat([stores, decisions, context], dim=-1)).squeeze(-1)
        return output


def _encoder(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
