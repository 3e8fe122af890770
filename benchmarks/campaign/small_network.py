"""Networks of a rehearsal: two dense layers, and one."""

from __future__ import annotations

import torch
from torch import nn


class Small(nn.Module):
    """Two dense layers with a ReLU between them, of float32 inputs (rows, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (rows, 16)."""
        outputs: torch.Tensor = self.layers(rows)
        return outputs


class Single(nn.Module):
    """Dense layer with a ReLU, of float32 inputs (rows, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU())

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (rows, 64)."""
        outputs: torch.Tensor = self.layers(rows)
        return outputs
