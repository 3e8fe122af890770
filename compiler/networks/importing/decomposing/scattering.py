"""Scattering with reductions, in terms of sums, products and extrema that include the tensor itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_ATEN = torch.ops.aten

_NAMES = {"add": "sum", "multiply": "prod"}


def _scatter_reduced(
    x: torch.Tensor, axis: int, index: torch.Tensor, source: torch.Tensor, *, reduce: str
) -> Any:
    """`scatter` with its option, which names sum and product otherwise."""
    return torch.scatter_reduce(x, axis, index, source, _NAMES[reduce])


def _scatter_number_reduced(
    x: torch.Tensor, axis: int, index: torch.Tensor, value: float, *, reduce: str
) -> Any:
    source = torch.full(index.shape, value, dtype=x.dtype, device=x.device)
    return torch.scatter_reduce(x, axis, index, source, _NAMES[reduce])


def _neutral(x: torch.Tensor, reduce: str) -> float:
    """Element that a reduction with any other leaves that one."""
    if reduce in ("amax", "amin"):
        if x.is_floating_point():
            return -math.inf if reduce == "amax" else math.inf
        limits = torch.iinfo(x.dtype)
        return limits.min if reduce == "amax" else limits.max
    return 1 if reduce == "prod" else 0


def _scatter_reduce(
    x: torch.Tensor,
    axis: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """Means, and reductions that leave out the elements of `x` which an index reaches."""
    if include_self and reduce != "mean":
        return NotImplemented
    if x.dim() == 0:
        x1, index1, source1 = x.reshape(1), index.reshape(1), source.reshape(1)
        return torch.scatter_reduce(x1, 0, index1, source1, reduce, include_self=include_self).reshape(())
    counts = torch.zeros(x.shape, dtype=torch.float32).scatter_add(axis, index, torch.ones(index.shape))
    start = x if include_self else torch.where(counts > 0, torch.full_like(x, _neutral(x, reduce)), x)
    found = torch.scatter_reduce(start, axis, index, source, "sum" if reduce == "mean" else reduce)
    if reduce != "mean":
        return found
    shares = counts + 1 if include_self else counts.clamp(min=1)
    if x.is_floating_point():
        return found / shares.to(x.dtype)
    return torch.div(found, shares.to(x.dtype), rounding_mode="floor")


def _index_reduce(
    x: torch.Tensor,
    axis: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """Rows of `source` reduced into the rows `index` of an axis."""
    shape = [-1 if one == axis % x.dim() else 1 for one in range(x.dim())]
    spread = index.to(torch.int64).reshape(shape).expand(source.shape)
    return torch.scatter_reduce(x, axis, spread, source, reduce, include_self=include_self)


def _put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """Elements of the flattened tensor."""
    flat, places = x.reshape(-1), torch.remainder(index.reshape(-1), x.numel())
    values = source.reshape(-1)
    done = flat.scatter_add(0, places, values) if accumulate else flat.scatter(0, places, values)
    return done.reshape(x.shape)


def _masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Elements of `source` in order, at the places of the mask."""
    x, mask = torch.broadcast_tensors(x, mask)
    places = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    chosen = source.reshape(-1).index_select(0, places.clamp(0, source.numel() - 1))
    return torch.where(mask, chosen.reshape(x.shape), x)


def _as_strided(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Any:
    """Elements of a contiguous tensor at positions from strides, as frames of a signal overlap."""
    if not x.is_contiguous():
        return NotImplemented
    places: Any = torch.full((), offset or 0, dtype=torch.int64)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        along = torch.arange(extent) * step
        places = places + along.reshape([-1 if axis == one else 1 for one in range(len(size))])
    return x.reshape(-1).index_select(0, places.reshape(-1)).reshape(size)


SCATTERING: Mapping[Any, Callable[..., Any]] = {
    _ATEN.scatter.reduce: _scatter_reduced,
    _ATEN.scatter.value_reduce: _scatter_number_reduced,
    _ATEN.scatter_reduce.two: _scatter_reduce,
    _ATEN.index_reduce.default: _index_reduce,
    _ATEN.put.default: _put,
    _ATEN.masked_scatter.default: _masked_scatter,
    _ATEN.as_strided.default: _as_strided,
}
"""Decompositions of scattering, and of views by strides."""
