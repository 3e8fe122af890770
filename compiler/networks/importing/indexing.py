"""Indexing of exported programs in terms of flat positions, which TVM's importer converts correctly.

TVM's importer reads outside of the tensor for negative indices, does not broadcast index tensors as PyTorch
does, and refuses masks, sliced axes and broadcast values in assignments. Here several index tensors become
one position in the flattened indexed axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table

_ATEN = torch.ops.aten
_MASKS = {torch.bool, torch.uint8}


def _select(x: torch.Tensor, axis: int, index: int) -> torch.Tensor:
    """One position of an axis, counted from the end if it is negative."""
    if not isinstance(index, int) or index >= 0:
        return NotImplemented
    return _ATEN.select.int(x, axis, index + x.shape[axis])


def _positions(shape: Sequence[int], indices: Sequence[torch.Tensor]) -> torch.Tensor:
    """Positions in flattened axes of these extents; `indices`, one for each axis, may be negative."""
    broadcast = torch.broadcast_tensors(*indices)
    flat: Any = None
    for extent, index in zip(shape, broadcast, strict=True):
        if isinstance(extent, int) and extent == 1:
            continue
        place = torch.remainder(index.to(torch.int64), extent)
        flat = place if flat is None else flat * extent + place
    return torch.zeros_like(broadcast[0], dtype=torch.int64) if flat is None else flat


def _indexed(indices: Sequence[torch.Tensor | None]) -> list[int]:
    return [axis for axis, index in enumerate(indices) if index is not None]


def _has_masks(indices: Sequence[torch.Tensor | None]) -> bool:
    return any(index is not None and index.dtype in _MASKS for index in indices)


def _index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """`x[indices]` with several index tensors, where None stands for a whole axis."""
    axes = _indexed(indices)
    if len(axes) < 2 or _has_masks(indices):
        return NotImplemented
    chosen = [index for index in indices if index is not None]
    others = [axis for axis in range(x.dim()) if axis not in axes]
    flat = _positions([x.shape[axis] for axis in axes], chosen)
    rows = x.permute(*axes, *others).reshape(
        math.prod(x.shape[a] for a in axes), *(x.shape[o] for o in others)
    )
    found = rows.index_select(0, flat.reshape(-1)).reshape(*flat.shape, *rows.shape[1:])
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    # The axes of the index tensors take the place of adjacent indexed axes, and go first otherwise.
    before = axes[0] if adjacent else 0
    return (
        found.movedim(tuple(range(flat.dim())), tuple(range(before, before + flat.dim())))
        if before
        else found
    )


def _index_put(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
) -> torch.Tensor:
    """`x[indices] = values`, or a sum with `accumulate`, in the flattened tensor."""
    if _has_masks(indices):
        return _masked_assignment(x, indices, values, accumulate)
    axes = _indexed(indices)
    others = [axis for axis in range(x.dim()) if axis not in axes]
    order = [*axes, *others]
    chosen = [index for index in indices if index is not None]
    flat = _positions([x.shape[axis] for axis in axes], chosen)
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    before = axes[0] if adjacent else 0
    kept = [x.shape[axis] for axis in others]
    whole = [*kept[:before], *flat.shape, *kept[before:]]
    given = values.to(x.dtype).expand(whole)
    if before:
        given = given.movedim(tuple(range(before, before + flat.dim())), tuple(range(flat.dim())))
    moved = x.permute(order)
    width = math.prod(kept)
    spots = flat.reshape(-1, 1) * width + torch.arange(width, device=x.device)
    start, source = moved.reshape(-1), given.reshape(-1)
    spots = spots.reshape(-1)
    done = start.scatter_add(0, spots, source) if accumulate else start.scatter(0, spots, source)
    back = [order.index(axis) for axis in range(x.dim())]
    return done.reshape(moved.shape).permute(back)


def _masked_assignment(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool
) -> torch.Tensor:
    """`x[mask] = value` for one mask over the leading axes and one value for all."""
    mask = indices[0]
    if len(indices) != 1 or mask is None or values.numel() != 1:
        return NotImplemented
    mask = mask.to(torch.bool).reshape(*mask.shape, *[1] * (x.dim() - mask.dim()))
    value = values.to(x.dtype).reshape([1] * x.dim())
    return torch.where(mask, x + value if accumulate else value, x)


def _index_copy(x: torch.Tensor, axis: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """`x` with the rows `index` of an axis replaced, as a KV cache writes them."""
    indices = [None] * (axis % max(x.dim(), 1)) + [index.reshape(-1)]
    return _index_put(x, indices, source)


def _index_add(
    x: torch.Tensor, axis: int, index: torch.Tensor, source: torch.Tensor, alpha: float = 1
) -> torch.Tensor:
    indices = [None] * (axis % max(x.dim(), 1)) + [index.reshape(-1)]
    return _index_put(x, indices, source * alpha if alpha != 1 else source, accumulate=True)


def _scatter_value(x: torch.Tensor, axis: int, index: torch.Tensor, value: float) -> torch.Tensor:
    return x.scatter(axis, index, torch.full(index.shape, value, dtype=x.dtype, device=x.device))


def _embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sums or means of bags of rows: a product with the matrix of memberships. Maxima are over all rows, of
    which those of other bags are the smallest number; an empty bag has zeros."""
    if padding >= 0 or indices.dim() != 1:
        return NotImplemented
    starts = offsets[:-1] if include_last_offset else offsets
    places = torch.arange(indices.shape[0], device=indices.device)
    ends = torch.cat([starts[1:], torch.full_like(starts[:1], indices.shape[0])])
    inside = ((places >= starts[:, None]) & (places < ends[:, None])).to(weight.dtype)
    counts = inside.sum(1, keepdim=True)
    if per_sample_weights is not None:
        inside = inside * per_sample_weights
    rows = weight.index_select(0, indices)
    if mode == 2:
        smallest = torch.full_like(rows, torch.finfo(rows.dtype).min)
        found = torch.where(inside.unsqueeze(-1) > 0, rows, smallest).amax(1)
        found = torch.where(counts > 0, found, torch.zeros_like(found))
    else:
        found = inside @ rows
    if mode == 1:
        found = found / counts.clamp(min=1)
    empty = torch.zeros_like(starts)
    return found, empty, empty, empty


INDEXING: Mapping[Any, Callable[..., Any]] = {
    # PyTorch's own, by indices: TVM's importer passes the grid in the wrong layout.
    _ATEN.grid_sampler_2d.default: decomposition_table[_ATEN.grid_sampler_2d.default],
    _ATEN.select.int: _select,
    _ATEN.index.Tensor: _index,
    _ATEN.index_put.default: _index_put,
    _ATEN.index_copy.default: _index_copy,
    _ATEN.index_add.default: _index_add,
    _ATEN.scatter.value: _scatter_value,
    _ATEN._embedding_bag.default: _embedding_bag,
    _ATEN._embedding_bag_forward_only.default: _embedding_bag,
}
"""Decompositions of indexing."""
