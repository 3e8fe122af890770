"""Resizing that TVM's importer lacks or gets wrong: products with constant matrices, or a choice of rows.

Linear and cubic resizing work axis by axis. Row i of the matrix of an axis holds the weights of output i. The
matrices are operators on constants, which folding evaluates. Coordinates and filters are PyTorch's: without
aligned corners, output i lies at (i + 0.5) * extent / new - 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch

_ATEN = torch.ops.aten


def _sizes(x: torch.Tensor, size: Sequence[int] | None, factors: Sequence[float] | None) -> list[int]:
    if size is not None:
        return [int(extent) for extent in size]
    return [math.floor(extent * factor) for extent, factor in zip(x.shape[2:], factors or (), strict=True)]


def _step(extent: int, new: int, aligned: bool, factor: float | None) -> float:
    """Distance of two outputs, in inputs."""
    if aligned:
        return (extent - 1) / (new - 1) if new > 1 else 0.0
    return 1 / factor if factor else extent / new


def _linear_weights(extent: int, new: int, aligned: bool, factor: float | None) -> torch.Tensor:
    """Weights [new, extent] of linear interpolation."""
    outputs = torch.arange(new, dtype=torch.float32)
    step = _step(extent, new, aligned, factor)
    position = outputs * step if aligned else ((outputs + 0.5) * step - 0.5)
    position = position.clamp(0, extent - 1)
    distance = (position[:, None] - torch.arange(extent, dtype=torch.float32)).abs()
    return (1 - distance).clamp(min=0)


def _antialiased_weights(
    extent: int, new: int, aligned: bool, factor: float | None, *, cubic: bool
) -> torch.Tensor:
    """Weights [new, extent] of a filter that is widened when the image shrinks, each row with the sum 1."""
    step = _step(extent, new, aligned, factor)
    width = max(step, 1.0)
    center = (torch.arange(new, dtype=torch.float32) + 0.5) * step
    support = (2.0 if cubic else 1.0) * width
    first = (center - support + 0.5).trunc().clamp(min=0)
    last = (center + support + 0.5).trunc().clamp(max=extent)
    inputs = torch.arange(extent, dtype=torch.float32)
    x = ((inputs - center[:, None] + 0.5) / width).abs()
    weights = _cubic(x) if cubic else (1 - x).clamp(min=0)
    inside = (inputs >= first[:, None]) & (inputs < last[:, None])
    weights = torch.where(inside, weights, torch.zeros_like(weights))
    return weights / weights.sum(1, keepdim=True)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    """Keys' cubic filter with a = -0.5, which PyTorch uses with antialiasing."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _by_matrices(weights: Callable[..., torch.Tensor], **options: Any) -> Callable[..., torch.Tensor]:
    def decompose(
        x: torch.Tensor,
        size: Sequence[int] | None,
        aligned: bool,
        factors: Sequence[float] | None = None,
    ) -> torch.Tensor:
        for position, new in enumerate(_sizes(x, size, factors)):
            extent, factor = x.shape[2 + position], factors[position] if factors else None
            matrix = weights(extent, new, aligned, factor, **options).to(x.dtype)
            x = torch.movedim(torch.movedim(x, 2 + position, -1) @ matrix.T, -1, 2 + position)
        return x

    return decompose


def _nearest(exact: bool) -> Callable[..., torch.Tensor]:
    def decompose(
        x: torch.Tensor, size: Sequence[int] | None, factors: Sequence[float] | None = None
    ) -> torch.Tensor:
        for position, new in enumerate(_sizes(x, size, factors)):
            extent = x.shape[2 + position]
            step = _step(extent, new, False, factors[position] if factors else None)
            outputs = torch.arange(new, dtype=torch.float32) + (0.5 if exact else 0.0)
            chosen = torch.floor(outputs * step).clamp(max=extent - 1).to(torch.int64)
            x = x.index_select(2 + position, chosen)
        return x

    return decompose


def _sampled_volume(
    x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, aligned: bool
) -> torch.Tensor:
    """`grid_sample` of volumes (batch, channels, d, h, w); the grid's last axis is x, y, z.

    Mode 0 weighs the eight elements around a point, mode 1 takes the nearest. Padding 0 counts elements
    outside as 0, padding 1 clamps the point.
    """
    if mode > 1 or padding > 1:
        return NotImplemented
    extents = x.shape[2:]
    points = []
    for point, extent in zip(reversed(grid.unbind(-1)), extents, strict=True):
        place = (point + 1) / 2 * (extent - 1) if aligned else ((point + 1) * extent - 1) / 2
        points.append(place.clamp(0, extent - 1) if padding == 1 else place)
    rows, found = x.flatten(2), None
    for corner in product((0, 1), repeat=3) if mode == 0 else [(0, 0, 0)]:
        flat: Any = 0
        weight: Any = 1.0
        for point, extent, step in zip(points, extents, corner, strict=True):
            first = point.round() if mode == 1 else point.floor()
            near = first + step
            inside = ((near >= 0) & (near <= extent - 1)).to(x.dtype)
            share = 1.0 if mode == 1 else (point - first if step else 1 - (point - first))
            weight = weight * inside * share
            flat = flat * extent + near.clamp(0, extent - 1).to(torch.int64)
        chosen = rows.gather(2, flat.flatten(1)[:, None].expand(-1, x.shape[1], -1))
        part = chosen * weight.flatten(1)[:, None]
        found = part if found is None else found + part
    assert found is not None
    return found.reshape(*x.shape[:2], *grid.shape[1:4])


RESIZING: Mapping[Any, Callable[..., Any]] = {
    _ATEN.grid_sampler_3d.default: _sampled_volume,
    _ATEN.upsample_linear1d.vec: _by_matrices(_linear_weights),
    _ATEN.upsample_trilinear3d.vec: _by_matrices(_linear_weights),
    _ATEN._upsample_bilinear2d_aa.vec: _by_matrices(_antialiased_weights, cubic=False),
    _ATEN._upsample_bicubic2d_aa.vec: _by_matrices(_antialiased_weights, cubic=True),
    _ATEN.upsample_nearest1d.vec: _nearest(exact=False),
    _ATEN.upsample_nearest3d.vec: _nearest(exact=False),
    _ATEN._upsample_nearest_exact1d.vec: _nearest(exact=True),
    _ATEN._upsample_nearest_exact2d.vec: _nearest(exact=True),
    _ATEN._upsample_nearest_exact3d.vec: _nearest(exact=True),
}
"""Decompositions of resizing."""
