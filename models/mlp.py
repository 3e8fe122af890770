"""Multi-layer perceptron over single tokens whose encodings are summed: TenSet's model, as a baseline."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .columns import SCORE
from .cost_model import FeatureTensors, MultiOutputModel, masked_sum
from .normaliser import FeatureDims


class MlpCostModel(MultiOutputModel):
    """Sum of encodings of single stores and decisions, which ignores their order and neighbours."""

    def __init__(
        self,
        dims: FeatureDims,
        width: int = 256,
        dropout: float = 0.0,
        outputs: Sequence[str] = (SCORE,),
        variance: bool = False,
    ) -> None:
        super().__init__(outputs, variance)
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
            nn.Linear(width, len(self.columns)),
        )

    def raw_columns(self, features: FeatureTensors) -> Tensor:
        """Outputs [n, columns]; see `MultiOutputModel.raw_columns`."""
        stores = masked_sum(self.store_encoder(features.stores), features.store_mask)
        decisions = masked_sum(self.decision_encoder(features.decisions), features.decision_mask)
        context = self.context_encoder(torch.cat([features.task, features.hardware], dim=-1))
        output: Tensor = self.head(torch.cat([stores, decisions, context], dim=-1))
        return output


def _encoder(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
