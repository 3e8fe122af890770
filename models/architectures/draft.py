"""Draft model: a perceptron over one vector per candidate, fast enough to score a whole population.

It reads the task vector and the draft vector (`dataset.features.draft_vector`), no stores and no decisions.
Two hidden layers of width 256 score about 10^5 candidates a second on one core.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...compiler.structure import DRAFT_VERSION
from ..scaling.normaliser import FeatureDims
from .cost_model import CostModel, FeatureTensors, rescale_first
from .registry import register
from .sizes import Depth, Share, Width


@register("draft")
class DraftCostModel(CostModel):
    """Perceptron with `layers` hidden layers of `width` over task, draft and hardware vector."""

    feature_version = DRAFT_VERSION

    def __init__(
        self, dims: FeatureDims, width: Width = 256, layers: Depth = 2, dropout: Share = 0.1
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers={layers}: must be at least 1")
        inputs = [dims.task + dims.hardware, *[width] * (layers - 1)]
        hidden = [
            part for size in inputs for part in (nn.Linear(size, width), nn.ReLU(), nn.Dropout(dropout))
        ]
        self.network = nn.Sequential(*hidden, nn.Linear(width, 1))

    def forward(self, features: FeatureTensors) -> Tensor:
        """Primary outputs [n]; see `CostModel.forward`."""
        output: Tensor = self.network(torch.cat([features.task, features.hardware], dim=-1))
        return output.squeeze(-1)

    def rescale(self, slope: float, offset: float) -> None:
        """See `CostModel.rescale`."""
        last = self.network[-1]
        assert isinstance(last, nn.Linear)
        rescale_first(last, slope, offset)
