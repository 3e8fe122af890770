"""Small recurrent networks that tests load by import path."""

from __future__ import annotations

import torch
from torch import nn


class TextLine(nn.Module):
    """Convolutions, then recurrent layers in both directions: float32 [b, 1, 8, w] to [b, w // 4, 6]."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.MaxPool2d(2),
        )
        self.first = nn.LSTM(16, 20, bidirectional=True, batch_first=True)
        self.second = nn.GRU(40, 12, batch_first=True)
        self.scores = nn.Linear(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = self.image(x).flatten(1, 2).transpose(1, 2)
        return self.scores(self.second(self.first(columns)[0])[0])


class Projected(nn.Module):
    """LSTM that projects its state: float32 [n, b, 4] to [n, b, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 5, proj_size=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class Cells(nn.Module):
    """A cell that a loop runs over five steps: float32 [b, 5, 4] to [b, 5, hidden]."""

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.hidden, self.cell = hidden, getattr(nn, kind)(4, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = memory = x.new_zeros(x.shape[0], self.hidden)
        found = []
        for step in range(x.shape[1]):
            if isinstance(self.cell, nn.LSTMCell):
                state, memory = self.cell(x[:, step], (state, memory))
            else:
                state = self.cell(x[:, step], state)
            found.append(state)
        return torch.stack(found, 1)
