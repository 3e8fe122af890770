"""Multi-layer perceptron over single tokens whose encodings are summed: TenSet's model, as a baseline."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..scaling.columns import SCORE
from ..scaling.normaliser import FeatureDims
from .cost_model import FeatureTensors, MultiOutputModel
from .registry import register
from .sizes import Share, Width


@register("mlp")
class MlpCostModel(MultiOutputModel):
    """Sum of encodings of single stores and decisions, which ignores their order and neighbours."""

    def __init__(
        self,
        dims: FeatureDims,
        width: Width = 256,
        dropout: Share = 0.0,
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
        stores = _encoded_sum(self.store_encoder, features.stores, features.store_mask)
        decisions = _encoded_sum(self.decision_encoder, features.decisions, features.decision_mask)
        context = self.context_encoder(torch.cat([features.task, features.hardware], dim=-1))
        output: Tensor = self.head(torch.cat([stores, decisions, context], dim=-1))
        return output


def _encoder(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


def _encoded_sum(encoder: nn.Module, tokens: Tensor, mask: Tensor) -> Tensor:
    """Sum of the encodings of the masked tokens: [n, tokens, dim] and bool [n, tokens] -> [n, width].

    Padding, which is most of a batch of programs of different lengths, is not encoded.
    """
    encoded: Tensor = encoder(tokens[mask])  # [total, width]
    row = mask.nonzero()[:, 0]  # [total]
    # In float32 under autocast, too: a sum in bfloat16 would be rounded at each token.
    return encoded.new_zeros(len(mask), encoded.shape[-1], dtype=torch.float32).index_add(
        0, row, encoded.float()
    )
