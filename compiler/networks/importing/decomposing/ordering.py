"""Minima with positions, medians without NaN, and searches in sorted tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_ATEN = torch.ops.aten


def _minimum_of_axis(x: torch.Tensor, axis: int, keepdim: bool = False) -> Any:
    """Minima and their positions, as maxima of the negated tensor."""
    if not x.dtype.is_signed:
        wide, places = torch.max(-x.to(torch.int32), axis, keepdim)
        return (-wide).to(x.dtype), places
    values, places = torch.max(-x, axis, keepdim)
    return -values, places


def _median_without_nan(x: torch.Tensor, axis: int, keepdim: bool = False) -> Any:
    """The lower of the middle elements that are numbers; NaN without any."""
    absent = torch.isnan(x)
    largest = torch.finfo(x.dtype).max  # TVM builds no code for an infinite number here
    ordered, places = torch.sort(torch.where(absent, torch.full_like(x, largest), x), axis)
    count = (~absent).to(torch.int64).sum(axis, keepdim=True)
    middle = torch.div((count - 1).clamp(min=0), 2, rounding_mode="floor")
    value, place = ordered.gather(axis, middle), places.gather(axis, middle)
    value = torch.where(count > 0, value, x.narrow(axis, 0, 1))  # NaN, as all others
    return (value, place) if keepdim else (value.squeeze(axis), place.squeeze(axis))


def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """A sort of booleans as integers: TVM sorts none."""
    if x.dtype is not torch.bool:
        return NotImplemented
    values, places = torch.sort(x.to(torch.int32), dim, descending)
    return values.to(torch.bool), places


def _unsorted_largest(
    x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest elements in any order are those in the order of a sort, too."""
    return NotImplemented if sorted else torch.topk(x, k, dim, largest)


def _searched(
    edges: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Number of edges below each element, or not above it with `right`."""
    if sorter is not None:
        edges = edges.gather(-1, sorter)
    if edges.dim() > 1:
        edges, x1 = edges.unsqueeze(-2), x.unsqueeze(-1)
    else:
        x1 = x.unsqueeze(-1)
    below = edges <= x1 if right or side == "right" else edges < x1
    return (
        below.to(torch.int32 if out_int32 else torch.int64)
        .sum(-1)
        .to(torch.int32 if out_int32 else torch.int64)
    )


ORDERING: Mapping[Any, Callable[..., Any]] = {
    _ATEN.min.dim: _minimum_of_axis,
    _ATEN.nanmedian.dim: _median_without_nan,
    _ATEN.searchsorted.Tensor: _searched,
    _ATEN.sort.default: _sort,
    _ATEN.topk.default: _unsorted_largest,
}
"""Decompositions that compare and order elements."""
