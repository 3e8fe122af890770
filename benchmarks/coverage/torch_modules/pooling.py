"""Pooling and padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .making import IMAGE, SEQUENCE, VOLUME, Table, integers, new


def unpooled(x: torch.Tensor) -> torch.Tensor:
    """Maxima at their places, zero elsewhere."""
    values, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(values, places, 2, output_size=x.shape[-2:])


TABLE: Table = {
    "MaxPool1d": (new(nn.MaxPool1d, 3, 2), SEQUENCE),
    "MaxPool1d_positions": (new(nn.MaxPool1d, 3, 2, return_indices=True), SEQUENCE),
    "MaxPool2d": (new(nn.MaxPool2d, 3, 2, 1), IMAGE),
    "MaxPool2d_ceil": (new(nn.MaxPool2d, 2, 2, ceil_mode=True), IMAGE),
    "MaxPool2d_dilation": (new(nn.MaxPool2d, 3, 1, dilation=2), IMAGE),
    "MaxPool2d_positions": (new(nn.MaxPool2d, 3, 2, 1, return_indices=True), IMAGE),
    "MaxPool2d_without_batch": (new(nn.MaxPool2d, 2), IMAGE[0]),
    "MaxPool2d_of_integers": (lambda x: F.max_pool2d(x, 2), integers(1, 2, 6, 6, dtype=torch.int32)),
    "MaxPool3d": (new(nn.MaxPool3d, 2), VOLUME),
    "MaxPool3d_ceil": (new(nn.MaxPool3d, 3, 2, 1, ceil_mode=True), VOLUME),
    "MaxPool3d_positions": (new(nn.MaxPool3d, 2, return_indices=True), VOLUME),
    "MaxUnpool2d": (unpooled, IMAGE),
    "MinPool2d": (lambda x: -F.max_pool2d(-x, 3, 1, 1), IMAGE),
    "AvgPool1d": (new(nn.AvgPool1d, 3, 2, 1), SEQUENCE),
    "AvgPool2d": (new(nn.AvgPool2d, 3, 2, 1), IMAGE),
    "AvgPool2d_ceil": (new(nn.AvgPool2d, 3, 2, ceil_mode=True), IMAGE),
    "AvgPool2d_ceil_padded": (new(nn.AvgPool2d, 3, 2, 1, ceil_mode=True), IMAGE),
    "AvgPool2d_without_padding_counted": (new(nn.AvgPool2d, 3, 2, 1, count_include_pad=False), IMAGE),
    "AvgPool2d_divisor": (new(nn.AvgPool2d, 3, 2, 1, divisor_override=4), IMAGE),
    "AvgPool3d": (new(nn.AvgPool3d, 2), VOLUME),
    "AvgPool3d_ceil": (new(nn.AvgPool3d, 2, 2, 1, ceil_mode=True), VOLUME),
    "AvgPool3d_divisor": (new(nn.AvgPool3d, 2, divisor_override=3), VOLUME),
    "LPPool1d": (new(nn.LPPool1d, 2, 3, 2), SEQUENCE.abs()),
    "LPPool2d": (new(nn.LPPool2d, 2, 3, 2), IMAGE),
    "FractionalMaxPool2d": (new(nn.FractionalMaxPool2d, 2, output_size=(4, 4)), IMAGE),
    "AdaptiveAvgPool1d": (new(nn.AdaptiveAvgPool1d, 4), SEQUENCE),
    "AdaptiveAvgPool2d": (new(nn.AdaptiveAvgPool2d, (3, 4)), IMAGE),
    "AdaptiveAvgPool2d_to_one": (new(nn.AdaptiveAvgPool2d, 1), IMAGE),
    "AdaptiveAvgPool2d_uneven": (new(nn.AdaptiveAvgPool2d, (4, None)), IMAGE),
    "AdaptiveAvgPool2d_larger": (new(nn.AdaptiveAvgPool2d, 12), IMAGE),
    "AdaptiveAvgPool3d": (new(nn.AdaptiveAvgPool3d, (2, 3, 4)), VOLUME),
    "AdaptiveMaxPool1d": (new(nn.AdaptiveMaxPool1d, 4), SEQUENCE),
    "AdaptiveMaxPool2d": (new(nn.AdaptiveMaxPool2d, (3, 4)), IMAGE),
    "AdaptiveMaxPool2d_positions": (new(nn.AdaptiveMaxPool2d, 3, return_indices=True), IMAGE),
    "AdaptiveMaxPool3d": (new(nn.AdaptiveMaxPool3d, 2), VOLUME),
    "global_pools": (lambda x: torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1), IMAGE),
    "pad_constant": (lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), IMAGE),
    "pad_negative": (lambda x: F.pad(x, (-1, 2, -2, 0)), IMAGE),
    "ReflectionPad1d": (new(nn.ReflectionPad1d, 2), SEQUENCE),
    "ReflectionPad2d": (new(nn.ReflectionPad2d, (1, 2, 3, 0)), IMAGE),
    "ReflectionPad3d": (new(nn.ReflectionPad3d, 1), VOLUME),
    "ReplicationPad1d": (new(nn.ReplicationPad1d, 2), SEQUENCE),
    "ReplicationPad2d": (new(nn.ReplicationPad2d, (1, 2, 3, 0)), IMAGE),
    "ReplicationPad3d": (new(nn.ReplicationPad3d, 1), VOLUME),
    "CircularPad2d": (new(nn.CircularPad2d, 2), IMAGE),
    "ConstantPad3d": (new(nn.ConstantPad3d, 1, -1.0), VOLUME),
    "ZeroPad2d": (new(nn.ZeroPad2d, (1, 0, 2, 1)), IMAGE),
}
