"""Resizing, sampling on grids and rearranged pixels."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from .making import IMAGE, SEQUENCE, VOLUME, Table, new, normal, uniform

GRID = uniform(2, 5, 6, 2, low=-1.2, high=1.2)

TABLE: Table = {
    "nearest": (partial(F.interpolate, size=(5, 13)), IMAGE),
    "nearest_factor": (partial(F.interpolate, scale_factor=1.55), IMAGE),
    "nearest_exact": (partial(F.interpolate, size=(5, 13), mode="nearest-exact"), IMAGE),
    "nearest_1d": (partial(F.interpolate, scale_factor=2), SEQUENCE),
    "nearest_3d": (partial(F.interpolate, size=(4, 7, 9)), VOLUME),
    "linear": (partial(F.interpolate, size=7, mode="linear"), SEQUENCE),
    "linear_aligned": (partial(F.interpolate, size=17, mode="linear", align_corners=True), SEQUENCE),
    "bilinear": (partial(F.interpolate, size=(5, 13), mode="bilinear"), IMAGE),
    "bilinear_aligned": (partial(F.interpolate, size=(5, 13), mode="bilinear", align_corners=True), IMAGE),
    "bilinear_factor": (partial(F.interpolate, scale_factor=(2.0, 1.55), mode="bilinear"), IMAGE),
    "bilinear_recomputed": (
        partial(F.interpolate, scale_factor=1.55, mode="bilinear", recompute_scale_factor=True),
        IMAGE,
    ),
    "bilinear_antialias": (partial(F.interpolate, size=(5, 4), mode="bilinear", antialias=True), IMAGE),
    "bicubic": (partial(F.interpolate, size=(5, 13), mode="bicubic"), IMAGE),
    "bicubic_aligned": (partial(F.interpolate, size=(5, 13), mode="bicubic", align_corners=True), IMAGE),
    "bicubic_antialias": (partial(F.interpolate, size=(5, 4), mode="bicubic", antialias=True), IMAGE),
    "trilinear": (partial(F.interpolate, size=(4, 7, 9), mode="trilinear"), VOLUME),
    "trilinear_aligned": (
        partial(F.interpolate, scale_factor=1.5, mode="trilinear", align_corners=True),
        VOLUME,
    ),
    "area": (partial(F.interpolate, size=(4, 5), mode="area"), IMAGE),
    "Upsample": (new(nn.Upsample, scale_factor=2, mode="bilinear", align_corners=True), IMAGE),
    "UpsamplingNearest2d": (new(nn.UpsamplingNearest2d, scale_factor=3), IMAGE),
    "UpsamplingBilinear2d": (new(nn.UpsamplingBilinear2d, (12, 7)), IMAGE),
    "PixelShuffle": (new(nn.PixelShuffle, 2), IMAGE),
    "PixelUnshuffle": (new(nn.PixelUnshuffle, 2), normal(1, 3, 8, 6)),
    "ChannelShuffle": (new(nn.ChannelShuffle, 2), IMAGE),
    "grid_sample": (partial(F.grid_sample, align_corners=False), IMAGE, GRID),
    "grid_sample_aligned": (partial(F.grid_sample, align_corners=True), IMAGE, GRID),
    "grid_sample_nearest": (partial(F.grid_sample, mode="nearest", align_corners=False), IMAGE, GRID),
    "grid_sample_bicubic": (partial(F.grid_sample, mode="bicubic", align_corners=False), IMAGE, GRID),
    "grid_sample_border": (
        partial(F.grid_sample, padding_mode="border", align_corners=False),
        IMAGE,
        GRID,
    ),
    "grid_sample_reflection": (
        partial(F.grid_sample, padding_mode="reflection", align_corners=True),
        IMAGE,
        GRID,
    ),
    "grid_sample_3d": (
        partial(F.grid_sample, align_corners=False),
        VOLUME,
        uniform(1, 2, 3, 4, 3, low=-1, high=1),
    ),
    "affine_grid": (
        lambda x, t: F.grid_sample(x, F.affine_grid(t, x.shape, align_corners=False), align_corners=False),
        IMAGE,
        normal(2, 2, 3),
    ),
    "pyramid": (
        lambda x: x + F.interpolate(F.avg_pool2d(x, 2, ceil_mode=True), x.shape[-2:], mode="nearest"),
        IMAGE,
    ),
    "optical_flow_warp": (
        lambda x, f: F.grid_sample(
            x,
            torch.stack(
                torch.meshgrid(torch.linspace(-1, 1, 9), torch.linspace(-1, 1, 8), indexing="ij")[::-1], -1
            )
            + f.permute(0, 2, 3, 1),
            align_corners=True,
        ),
        IMAGE,
        normal(2, 2, 9, 8) / 10,
    ),
}
