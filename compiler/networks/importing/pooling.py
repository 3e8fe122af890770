"""Pooling that TVM's importer lacks or gets wrong: divisors of its own, and positions of maxima."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import torch

_ATEN = torch.ops.aten


def _windows(extent: int, size: int, step: int, padding: int, dilation: int, ceiling: bool) -> int:
    """Number of windows along an axis, as PyTorch counts them."""
    covered = extent + 2 * padding - dilation * (size - 1) - 1
    count = (-(-covered // step) if ceiling else covered // step) + 1
    # The last window begins inside of the input or of its left padding.
    return count - 1 if ceiling and (count - 1) * step >= extent + padding else count


def _each(values: Sequence[int] | int, count: int) -> list[int]:
    given = [values] if isinstance(values, int) else list(values)
    return given * count if len(given) == 1 else given


def _shifted(
    x: torch.Tensor,
    size: Sequence[int],
    step: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceiling: bool,
    fill: float,
) -> tuple[list[torch.Tensor], list[tuple[int, ...]]]:
    """Elements of each place of the windows, and those places; axes that are pooled come last."""
    axes = len(size)
    spatial = x.shape[-axes:]
    counts = [_windows(*one, ceiling) for one in zip(spatial, size, step, padding, dilation, strict=True)]
    needed = [
        (counts[a] - 1) * step[a] + dilation[a] * (size[a] - 1) + 1 - spatial[a] - padding[a]
        for a in range(axes)
    ]
    around = [side for a in reversed(range(axes)) for side in (padding[a], max(0, needed[a]))]
    padded = torch.nn.functional.pad(x, around, value=fill) if any(around) else x
    parts, places = [], []
    for place in product(*(range(one) for one in size)):
        part = padded
        for a in range(axes):
            begin = place[a] * dilation[a]
            axis = part.dim() - axes + a
            part = _ATEN.slice.Tensor(part, axis, begin, begin + (counts[a] - 1) * step[a] + 1, step[a])
        parts.append(part)
        places.append(place)
    return parts, places


def _average_by_divisor(axes: int) -> Callable[..., torch.Tensor]:
    """An average of images or volumes with a divisor of its own, which TVM's importer leaves out."""

    def decompose(
        x: torch.Tensor,
        size: Sequence[int],
        step: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceiling: bool = False,
        count_padding: bool = True,
        divisor: int | None = None,
    ) -> torch.Tensor:
        if divisor is None:
            return NotImplemented
        sizes, steps = _each(size, axes), _each(step or size, axes)
        parts, _ = _shifted(x, sizes, steps, _each(padding, axes), [1] * axes, ceiling, 0.0)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total / divisor

    return decompose


def _max_pool_with_positions(
    x: torch.Tensor,
    size: Sequence[int],
    step: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceiling: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maxima and their positions in the flattened image or volume; of equal elements the first."""
    axes = 2 if len(size) < 3 else 3
    sizes, pads = _each(size, axes), _each(padding, axes)
    steps, gaps = _each(step or size, axes), _each(dilation, axes)
    low = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    parts, places = _shifted(x, sizes, steps, pads, gaps, ceiling, low)
    spatial, counts = x.shape[-axes:], parts[0].shape[-axes:]
    best: Any = None
    at: Any = None
    for part, place in zip(parts, places, strict=True):
        here: Any = 0
        for a in range(axes):
            along = torch.arange(counts[a]) * steps[a] + (place[a] * gaps[a] - pads[a])
            here = here * spatial[a] + along.reshape([-1 if b == a else 1 for b in range(axes)])
        here = here.expand(part.shape)
        if best is None:
            best, at = part, here
        else:
            more = part > best
            best, at = torch.where(more, part, best), torch.where(more, here, at)
    return best, at


def _boundaries(extent: int, cells: int) -> list[tuple[int, int]]:
    """First and end position of each cell of an adaptive pool along one axis."""
    return [(cell * extent // cells, -(-(cell + 1) * extent // cells)) for cell in range(cells)]


def _adaptive_max_pool(x: torch.Tensor, output_size: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Maxima of the cells, and their positions in the flattened image or volume; pooled axes come last."""
    axes = len(output_size)
    spatial = x.shape[-axes:]
    values, positions = [], []
    for cell in product(*(_boundaries(*pair) for pair in zip(spatial, output_size, strict=True))):
        part = x
        for axis, (begin, end) in enumerate(cell):
            part = part.narrow(axis - axes, begin, end - begin)
        value, left = part.flatten(-axes).max(-1)
        values.append(value)
        at: Any = 0
        step = 1
        for extent, (begin, end) in zip(reversed(spatial), reversed(cell), strict=True):
            rest = torch.div(left, end - begin, rounding_mode="floor")
            at = at + (left - rest * (end - begin) + begin) * step
            left, step = rest, step * extent
        positions.append(at)
    shape = (*x.shape[:-axes], *output_size)
    return torch.stack(values, -1).reshape(shape), torch.stack(positions, -1).reshape(shape)


POOLING: Mapping[Any, Callable[..., Any]] = {
    _ATEN.avg_pool2d.default: _average_by_divisor(2),
    _ATEN.avg_pool3d.default: _average_by_divisor(3),
    _ATEN.adaptive_max_pool2d.default: _adaptive_max_pool,
    _ATEN.adaptive_max_pool3d.default: _adaptive_max_pool,
}
"""Decompositions of pooling that hold for every network."""

WITH_POSITIONS: Mapping[Any, Callable[..., Any]] = {
    _ATEN.max_pool2d_with_indices.default: _max_pool_with_positions,
    _ATEN.max_pool3d_with_indices.default: _max_pool_with_positions,
}
"""Decompositions for networks that use the positions of maxima."""
