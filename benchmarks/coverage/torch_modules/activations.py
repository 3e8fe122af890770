"""Activations: the catalogue of torch.nn, and functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .making import IMAGE, MATRIX, Table, new

PLAIN = (
    *("ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "Mish"),
    *("PReLU", "ReLU", "ReLU6", "RReLU", "SELU", "CELU", "SiLU", "Sigmoid", "Softplus", "Softshrink"),
    *("Softsign", "Tanh", "Tanhshrink", "Identity", "Dropout", "AlphaDropout", "FeatureAlphaDropout"),
)

TABLE: Table = {
    **{name: (new(getattr(nn, name)), MATRIX) for name in PLAIN},
    "ELU_alpha": (new(nn.ELU, 0.3), MATRIX),
    "CELU_alpha": (new(nn.CELU, 0.3), MATRIX),
    "GELU_tanh": (new(nn.GELU, "tanh"), MATRIX),
    "PReLU_of_channels": (new(nn.PReLU, 4), IMAGE),
    "Softplus_threshold": (new(nn.Softplus, 2, 1), MATRIX),
    "Threshold": (new(nn.Threshold, 0.1, -3), MATRIX),
    "GLU": (new(nn.GLU, 1), IMAGE),
    "Softmax": (new(nn.Softmax, 1), IMAGE),
    "Softmax2d": (new(nn.Softmax2d), IMAGE),
    "Softmin": (new(nn.Softmin, -1), MATRIX),
    "LogSoftmax": (new(nn.LogSoftmax, -1), MATRIX),
    "Dropout2d": (new(nn.Dropout2d), IMAGE),
    "softmax_of_large": (lambda x: F.softmax(x * 1000, -1), MATRIX),
    "softmax_with_dtype": (lambda x: F.softmax(x, -1, dtype=torch.float64), MATRIX),
    "masked_softmax": (lambda x: F.softmax(x.masked_fill(x < 0, float("-inf")), -1), MATRIX.abs() - 0.1),
    "swiglu": (lambda x: F.silu(x.chunk(2, 1)[0]) * x.chunk(2, 1)[1], IMAGE),
    "quick_gelu": (lambda x: x * torch.sigmoid(1.702 * x), MATRIX),
    "relu_squared": (lambda x: F.relu(x).square(), MATRIX),
    "gumbel_softmax": (lambda x: F.gumbel_softmax(x, hard=True), MATRIX),
}
