"""Transformer over the stores and decisions of a program (One-Shot Tuner 4.1.4, Fasor 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..scaling.columns import SCORE
from ..scaling.normaliser import FeatureDims
from .cost_model import FeatureTensors, MultiOutputModel, masked_mean
from .registry import register
from .sizes import Depth, Number, Share, Width


@register("transformer")
class TransformerCostModel(MultiOutputModel):
    """Encoder over the tokens [task, hardware, stores..., decisions...] with a head over its readout.

    One-Shot Tuner appends knobs and task features to TVM's curve features "at the same level" (section
    4.1.3). Here the task, the hardware, each store and each decision is a token with an embedding for its
    kind, so attention works over the parts of the program. Stores and decisions also have an embedding of
    their position in the program.
    """

    def __init__(
        self,
        dims: FeatureDims,
        width: Width = 128,
        layers: Depth = 3,
        heads: Depth = 4,
        feedforward: Width = 256,
        dropout: Share = 0.1,
        max_positions: Number = 64,
        outputs: Sequence[str] = (SCORE,),
        variance: bool = False,
    ) -> None:
        """Token positions from `max_positions` on share one embedding.

        For `outputs` and `variance` see `MultiOutputModel`.
        """
        super().__init__(outputs, variance)
        if width % heads:
            raise ValueError(f"width={width} is not a multiple of heads={heads}: choose a multiple")
        self.store_embedding = nn.Linear(dims.stores, width)
        self.decision_embedding = nn.Linear(dims.decisions, width)
        self.task_embedding = nn.Linear(dims.task, width)
        self.hardware_embedding = nn.Linear(dims.hardware, width)
        self.store_position = nn.Embedding(max_positions, width)
        self.decision_position = nn.Embedding(max_positions, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, feedforward, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(
            nn.LayerNorm(2 * width),
            nn.Linear(2 * width, width),
            nn.GELU(),
            nn.Linear(width, len(self.columns)),
        )

    def raw_columns(self, features: FeatureTensors) -> Tensor:
        """Outputs [n, columns]; see `MultiOutputModel.raw_columns`."""
        # The biases of the four linear maps are the embeddings of the token's kind.
        task = self.task_embedding(features.task).unsqueeze(1)  # [n, 1, width]
        hardware = self.hardware_embedding(features.hardware).unsqueeze(1)  # [n, 1, width]
        stores = self.store_embedding(features.stores) + _positions(self.store_position, features.stores)
        decisions = self.decision_embedding(features.decisions) + _positions(
            self.decision_position, features.decisions
        )
        tokens = torch.cat([task, hardware, stores, decisions], dim=1)
        real = torch.ones_like(features.store_mask[:, :1]).expand(-1, 2)
        mask = torch.cat([real, features.store_mask, features.decision_mask], dim=1)
        encoded = self.encoder(tokens, src_key_padding_mask=~mask)  # [n, tokens, width]
        # Pre-norm layers leave the residual stream unnormalised, so the head normalises its input.
        readout = torch.cat([encoded[:, 0], masked_mean(encoded, mask)], dim=-1)  # [n, 2 * width]
        output: Tensor = self.head(readout)
        return output


def _positions(embedding: nn.Embedding, tokens: Tensor) -> Tensor:
    """Embedding of the position of each token: [n, tokens, ...] -> [tokens, width]."""
    last = embedding.num_embeddings - 1
    positions: Tensor = embedding(torch.arange(tokens.shape[1], device=tokens.device).clamp(max=last))
    return positions
