"""Recurrent modules and state-space recurrences."""

from __future__ import annotations

import torch
from torch import nn

from .making import Table, new, normal, uniform

SEQUENCE = normal(5, 2, 6)
BATCH_FIRST = normal(2, 5, 6)


def scanned(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """h_t = decay * h_(t-1) + x_t along the first axis."""
    state = torch.zeros_like(x[0])
    states = []
    for step in x:
        state = decay * state + step
        states.append(state)
    return torch.stack(states)


TABLE: Table = {
    "RNN": (new(nn.RNN, 6, 4), SEQUENCE),
    "RNN_relu": (new(nn.RNN, 6, 4, nonlinearity="relu", num_layers=2), SEQUENCE),
    "LSTM": (new(nn.LSTM, 6, 4), SEQUENCE),
    "LSTM_batch_first": (new(nn.LSTM, 6, 4, batch_first=True), BATCH_FIRST),
    "LSTM_two_layers": (new(nn.LSTM, 6, 4, num_layers=2, bias=False), SEQUENCE),
    "LSTM_bidirectional": (new(nn.LSTM, 6, 4, bidirectional=True), SEQUENCE),
    "LSTM_projection": (new(nn.LSTM, 6, 4, proj_size=3), SEQUENCE),
    "LSTM_without_batch": (new(nn.LSTM, 6, 4), normal(5, 6)),
    "LSTM_dropout": (new(nn.LSTM, 6, 4, num_layers=2, dropout=0.5), SEQUENCE),
    "GRU": (new(nn.GRU, 6, 4), SEQUENCE),
    "GRU_bidirectional": (new(nn.GRU, 6, 4, num_layers=2, bidirectional=True, batch_first=True), BATCH_FIRST),
    "GRU_with_state": (new(nn.GRU, 6, 4), SEQUENCE, normal(1, 2, 4)),
    "RNNCell": (new(nn.RNNCell, 6, 4), normal(2, 6), normal(2, 4)),
    "LSTMCell": (new(nn.LSTMCell, 6, 4), normal(2, 6)),
    "GRUCell": (new(nn.GRUCell, 6, 4), normal(2, 6), normal(2, 4)),
    "linear_recurrence": (scanned, SEQUENCE, uniform(6)),
    "decayed_sum": (lambda x: (x * 0.9 ** torch.arange(5).flip(0)[:, None, None]).cumsum(0), SEQUENCE),
}
