"""The draft model: a perceptron over one vector a candidate, fast enough to rate a whole search.

Stores and decisions are not looked at: the draft vector (`dataset.drafting.features`) stands behind the
task's. Two hidden layers of 256 rate about 10^5 candidates a second on one core.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .cost_model import CostModel, FeatureTensors
from .normaliser import FeatureDims


class DraftCostModel(CostModel):
    """`layers` hidden layers of `width` over the task and hardware vectors."""

    def __init__(self, dims: FeatureDims, width: int = 256, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers={layers}: must be at least 1")
        inputs = [dims.task + dims.hardware, *[width] * (layers - 1)]
        hidden = [
            part for size in inputs for part in (nn.Linear(size, width), nn.ReLU(), nn.Dropout(dropout))
        ]
        self.network = nn.Sequential(*hidden, nn.Linear(width, 1))

    def forward(self, features: FeatureTensors) -> Tensor:
        """[n] outputs; see `CostModel.forward`."""
        output: Tensor = self.network(torch.cat([features.task, features.hardware], dim=-1))
        return output.squeeze(-1)
