"""Convolutions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .making import IMAGE, SEQUENCE, VOLUME, Table, new, normal

TABLE: Table = {
    "Conv1d": (new(nn.Conv1d, 4, 6, 3), SEQUENCE),
    "Conv1d_causal": (lambda x, w: F.conv1d(F.pad(x, (4, 0)), w, dilation=2), SEQUENCE, normal(3, 4, 3)),
    "Conv1d_depthwise": (new(nn.Conv1d, 4, 4, 3, padding=1, groups=4), SEQUENCE),
    "Conv1d_same": (new(nn.Conv1d, 4, 6, 4, padding="same"), SEQUENCE),
    "Conv2d": (new(nn.Conv2d, 4, 6, 3), IMAGE),
    "Conv2d_1x1": (new(nn.Conv2d, 4, 6, 1, bias=False), IMAGE),
    "Conv2d_stride": (new(nn.Conv2d, 4, 6, 3, stride=(2, 1), padding=1), IMAGE),
    "Conv2d_dilation": (new(nn.Conv2d, 4, 6, 3, dilation=2), IMAGE),
    "Conv2d_groups": (new(nn.Conv2d, 4, 6, 3, groups=2), IMAGE),
    "Conv2d_depthwise": (new(nn.Conv2d, 4, 8, 3, groups=4), IMAGE),
    "Conv2d_same": (new(nn.Conv2d, 4, 6, (4, 3), padding="same"), IMAGE),
    "Conv2d_reflect": (new(nn.Conv2d, 4, 6, 3, padding=1, padding_mode="reflect"), IMAGE),
    "Conv2d_circular": (new(nn.Conv2d, 4, 6, 3, padding=1, padding_mode="circular"), IMAGE),
    "Conv2d_replicate": (new(nn.Conv2d, 4, 6, 3, padding=1, padding_mode="replicate"), IMAGE),
    "Conv2d_without_batch": (new(nn.Conv2d, 4, 6, 3), IMAGE[0]),
    "Conv2d_weights_as_input": (lambda x, w: F.conv2d(x, w, padding=1), IMAGE, normal(3, 4, 3, 3)),
    "Conv3d": (new(nn.Conv3d, 3, 4, 3), VOLUME),
    "Conv3d_stride": (new(nn.Conv3d, 3, 4, (1, 3, 3), stride=2, padding=1), VOLUME),
    "Conv3d_groups": (new(nn.Conv3d, 3, 6, 3, groups=3, padding=1), VOLUME),
    "Conv3d_dilation": (new(nn.Conv3d, 3, 4, 2, dilation=2), VOLUME),
    "ConvTranspose1d": (new(nn.ConvTranspose1d, 4, 3, 4, stride=2, padding=1), SEQUENCE),
    "ConvTranspose1d_groups": (new(nn.ConvTranspose1d, 4, 6, 3, stride=2, groups=2), SEQUENCE),
    "ConvTranspose2d": (new(nn.ConvTranspose2d, 4, 3, 4, stride=2, padding=1), IMAGE),
    "ConvTranspose2d_output_padding": (
        new(nn.ConvTranspose2d, 4, 3, 3, stride=2, padding=1, output_padding=1),
        IMAGE,
    ),
    "ConvTranspose2d_beyond_kernel": (new(nn.ConvTranspose2d, 4, 3, 1, stride=2, output_padding=1), IMAGE),
    "ConvTranspose2d_groups": (new(nn.ConvTranspose2d, 4, 6, 3, stride=2, groups=2), IMAGE),
    "ConvTranspose2d_dilation": (new(nn.ConvTranspose2d, 4, 3, 3, dilation=2), IMAGE),
    "ConvTranspose2d_strides": (new(nn.ConvTranspose2d, 4, 3, 3, stride=(2, 1)), IMAGE),
    "ConvTranspose2d_depthwise": (new(nn.ConvTranspose2d, 4, 4, 4, stride=2, padding=1, groups=4), IMAGE),
    "ConvTranspose3d": (new(nn.ConvTranspose3d, 3, 4, 3, stride=2, padding=1), VOLUME),
    "ConvTranspose3d_groups": (new(nn.ConvTranspose3d, 3, 3, 2, stride=2, groups=3), VOLUME),
    "ConvTranspose3d_output_padding": (
        new(nn.ConvTranspose3d, 3, 2, 3, stride=2, padding=1, output_padding=1),
        VOLUME,
    ),
    "Unfold": (new(nn.Unfold, (3, 2), padding=1, stride=2), IMAGE),
    "Fold": (new(nn.Fold, (6, 7), 3, padding=1, stride=2), normal(1, 18, 12)),
    "unfold_of_tensor": (lambda x: x.unfold(-1, 3, 2), SEQUENCE),
    "patches": (lambda x: x.unfold(2, 3, 3).unfold(3, 4, 4).flatten(4), IMAGE),
    "conv_tbc": (lambda x, w, b: torch.conv_tbc(x, w, b, 1), normal(7, 2, 4), normal(3, 4, 5), normal(5)),
    "conv_bn_relu": (
        new(lambda: nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU())),
        IMAGE,
    ),
    "squeeze_and_excite": (
        lambda x, a, b: x * torch.sigmoid(F.conv2d(F.relu(F.conv2d(x.mean((2, 3), keepdim=True), a)), b)),
        IMAGE,
        normal(2, 4, 1, 1),
        normal(4, 2, 1, 1),
    ),
    "dynamic_filter": (
        lambda x, w: F.conv2d(x.reshape(1, 8, 9, 8), w.reshape(8, 1, 3, 3), groups=8).reshape(2, 4, 7, 6),
        IMAGE,
        normal(2, 4, 3, 3),
    ),
}
