"""LSTM over the tokens of a program, the baseline of One-Shot Tuner section 6.3.4 and Fasor Table 8."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..scaling.columns import SCORE
from ..scaling.normaliser import FeatureDims
from .cost_model import FeatureTensors, MultiOutputModel
from .registry import register
from .sizes import Depth, Share, Width


@register("lstm")
class LstmCostModel(MultiOutputModel):
    """LSTMs over the stores and over the decisions; the head reads their last states and the context."""

    def __init__(
        self,
        dims: FeatureDims,
        width: Width = 128,
        layers: Depth = 2,
        dropout: Share = 0.1,
        outputs: Sequence[str] = (SCORE,),
        variance: bool = False,
    ) -> None:
        super().__init__(outputs, variance)
        between_layers = dropout if layers > 1 else 0.0
        self.stores = nn.LSTM(dims.stores, width, layers, batch_first=True, dropout=between_layers)
        self.decisions = nn.LSTM(dims.decisions, width, layers, batch_first=True, dropout=between_layers)
        self.context = nn.Linear(dims.task + dims.hardware, width)
        self.head = nn.Sequential(
            nn.LayerNorm(3 * width),
            nn.Linear(3 * width, width),
            nn.GELU(),
            nn.Linear(width, len(self.columns)),
        )

    def raw_columns(self, features: FeatureTensors) -> Tensor:
        """Outputs [n, columns]; see `MultiOutputModel.raw_columns`."""
        stores = _last_state(self.stores, features.stores, features.store_mask)
        decisions = _last_state(self.decisions, features.decisions, features.decision_mask)
        context = self.context(torch.cat([features.task, features.hardware], dim=-1))
        output: Tensor = self.head(torch.cat([stores, decisions, context], dim=-1))
        return output


def _last_state(lstm: nn.LSTM, tokens: Tensor, mask: Tensor) -> Tensor:
    """State after the last token: [n, tokens, dim] -> [n, width], 0 for a row without tokens.

    Padding comes last, so the states of the tokens do not depend on it.
    """
    states, _ = lstm(tokens)  # [n, tokens, width]
    lengths = mask.sum(dim=1)  # [n]
    last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[-1])
    return states.gather(1, last).squeeze(1) * (lengths > 0).unsqueeze(-1)
