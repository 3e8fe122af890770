"""Normalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .making import IMAGE, MATRIX, SEQUENCE, VOLUME, Table, new, normal

TABLE: Table = {
    "BatchNorm1d": (new(nn.BatchNorm1d, 4), SEQUENCE),
    "BatchNorm1d_of_matrix": (new(nn.BatchNorm1d, 5), MATRIX),
    "BatchNorm2d": (new(nn.BatchNorm2d, 4), IMAGE),
    "BatchNorm2d_plain": (new(nn.BatchNorm2d, 4, affine=False), IMAGE),
    "BatchNorm2d_of_batch": (new(nn.BatchNorm2d, 4, track_running_stats=False), IMAGE),
    "BatchNorm3d": (new(nn.BatchNorm3d, 3), VOLUME),
    "InstanceNorm1d": (new(nn.InstanceNorm1d, 4), SEQUENCE),
    "InstanceNorm2d": (new(nn.InstanceNorm2d, 4, affine=True), IMAGE),
    "InstanceNorm2d_tracked": (new(nn.InstanceNorm2d, 4, track_running_stats=True), IMAGE),
    "InstanceNorm3d": (new(nn.InstanceNorm3d, 3), VOLUME),
    "GroupNorm": (new(nn.GroupNorm, 2, 4), IMAGE),
    "GroupNorm_plain": (new(nn.GroupNorm, 2, 4, affine=False), IMAGE),
    "GroupNorm_of_vectors": (new(nn.GroupNorm, 2, 4), normal(3, 4)),
    "LayerNorm": (new(nn.LayerNorm, 5), MATRIX),
    "LayerNorm_of_axes": (new(nn.LayerNorm, (9, 8)), IMAGE),
    "LayerNorm_plain": (new(nn.LayerNorm, 5, elementwise_affine=False), MATRIX),
    "LayerNorm_without_bias": (new(nn.LayerNorm, 5, bias=False), MATRIX),
    "RMSNorm": (new(nn.RMSNorm, 5), MATRIX),
    "RMSNorm_own": (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), MATRIX),
    "LocalResponseNorm": (new(nn.LocalResponseNorm, 3), IMAGE),
    "CrossMapLRN2d": (new(nn.CrossMapLRN2d, 3), IMAGE),
    "normalize": (lambda x: F.normalize(x, dim=-1), MATRIX),
    "normalize_p1": (lambda x: F.normalize(x, p=1, dim=1), IMAGE),
    "weight_norm": (new(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))), MATRIX),
    "spectral_norm": (new(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3))), MATRIX),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), MATRIX),
}
