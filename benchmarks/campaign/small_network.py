"""Network of a rehearsal: two layers, tuned within seconds."""

from __future__ import annotations

import torch
from torch import nn


class Small(nn.Module):
    """Two dense layers with a ReLU between them; takes float32 (rows, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (rows, 16)."""
        outputs: torch.Tensor = self.layers(rows)
        return outputs
