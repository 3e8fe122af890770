"""Poolings: padding by name, windows that reach beyond the end, positions of maxima."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .convolutions import windows_of
from .nodes import Graph, Node


class _Windows:
    """Windows of a pooling: `pads` reach as far as the last window does."""

    def __init__(self, node: Node) -> None:
        self.sizes, self.kernel = node.shape(0)[2:], list(node.get("kernel_shape"))
        self.axes = len(self.kernel)
        self.strides, self.dilations, self.pads = windows_of(node, self.kernel)
        self.given = list(self.pads)
        self.counts = []
        for axis in range(self.axes):
            wide = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            padded = self.sizes[axis] + self.pads[axis] + self.pads[self.axes + axis]
            steps = (padded - wide) / self.strides[axis]
            count = (math.ceil(steps) if node.get("ceil_mode", 0) else math.floor(steps)) + 1
            if (count - 1) * self.strides[axis] >= self.sizes[axis] + self.pads[axis]:
                count -= 1  # a window has to begin before the end
            self.counts.append(count)
            end = (count - 1) * self.strides[axis] + wide
            self.pads[self.axes + axis] += max(0, end - padded)

    @property
    def attributes(self) -> dict[str, Any]:
        return {"kernel_shape": self.kernel, "strides": self.strides, "dilations": self.dilations}

    def padded(self, x: str, g: Graph, value: float, dtype: np.dtype) -> str:
        if not any(self.pads):
            return x
        pads = [0, 0, *self.pads[: self.axes], 0, 0, *self.pads[self.axes :]]
        return g("Pad", x, g.constant(pads, np.int64), g.constant(value, dtype))


def _is_plain(node: Node) -> bool:
    return node.get("auto_pad", "NOTSET") == "NOTSET" and not node.get("ceil_mode", 0)


def _max_pool(node: Node, g: Graph) -> Sequence[str] | None:
    dtype = node.dtype(0)
    if node.wants(1):
        return _max_pool_with_positions(node, g)
    if _is_plain(node) and dtype.kind == "f":
        return None
    windows, x = _Windows(node), node.x(0)
    if dtype.kind != "f":  # exact in int32, whose least value pads
        x = g.cast(x, np.int32)
        x = windows.padded(x, g, np.iinfo(dtype).min, np.dtype(np.int32))
        pads = [0] * len(windows.pads)
        return [g.cast(_largest(x, g, node, windows), dtype)] if pads else None
    return [g("MaxPool", x, pads=windows.pads, **windows.attributes)]


def _parts(windows: _Windows, g: Graph, x: str) -> list[tuple[tuple[int, ...], str]]:
    """The elements that each place of the kernel reads, x being padded."""
    found = []
    for place in itertools.product(*(range(extent) for extent in windows.kernel)):
        starts = [at * step for at, step in zip(place, windows.dilations, strict=True)]
        ends = [
            start + (count - 1) * stride + 1
            for start, count, stride in zip(starts, windows.counts, windows.strides, strict=True)
        ]
        axes = list(range(2, 2 + windows.axes))
        bounds = [g.constant(one, np.int64) for one in (starts, ends, axes, windows.strides)]
        found.append((place, g("Slice", x, *bounds)))
    return found


def _largest(x: str, g: Graph, node: Node, windows: _Windows) -> str:
    (_, found), *rest = _parts(windows, g, x)
    for _, part in rest:
        found = g("Max", found, part)
    return found


def _max_pool_with_positions(node: Node, g: Graph) -> Sequence[str]:
    """Maxima of shifted images, and the positions of the first ones in the whole input."""
    windows, dtype = _Windows(node), node.dtype(0)
    kind, lowest = (dtype, -np.inf) if dtype.kind == "f" else (np.dtype(np.int32), np.iinfo(dtype).min)
    x = node.x(0) if dtype.kind == "f" else g.cast(node.x(0), kind)
    best = position = ""
    for place, part in _parts(windows, g, windows.padded(x, g, lowest, kind)):
        at = g.constant(_positions(windows, place, column_major=bool(node.get("storage_order", 0))))
        if not best:
            best = part
            position = g("Add", at, g.constant(np.zeros((1, 1, *windows.counts)), np.int64))
            continue
        larger = g("Greater", part, best)
        best, position = g("Where", larger, part, best), g("Where", larger, at, position)
    images = np.arange(math.prod(node.shape(0)[:2])).reshape(*node.shape(0)[:2], *[1] * windows.axes)
    position = g("Add", position, g.constant(images * math.prod(windows.sizes), np.int64))
    return [best if dtype.kind == "f" else g.cast(best, dtype), position]


def _positions(windows: _Windows, place: Sequence[int], *, column_major: bool) -> np.ndarray:
    """Position in its image of the element that each window has at a place, (1, 1, *counts)."""
    along = [
        np.arange(windows.counts[axis]) * windows.strides[axis]
        + place[axis] * windows.dilations[axis]
        - windows.pads[axis]
        for axis in range(windows.axes)
    ]
    grids = np.meshgrid(*along, indexing="ij")
    order = range(windows.axes) if column_major else reversed(range(windows.axes))
    total, step = np.zeros(windows.counts, np.int64), 1
    for axis in order:
        total += grids[axis] * step
        step *= windows.sizes[axis]
    return total[None, None]


def _average_pool(node: Node, g: Graph) -> Sequence[str] | None:
    """Sums over windows divided by the elements that count."""
    if _is_plain(node) and max(node.get("dilations", [1])) == 1:
        return None
    windows, dtype = _Windows(node), node.dtype(0)
    x = windows.padded(node.x(0), g, 0, dtype)
    means = _mean_pool(x, g, windows)
    counted = _counted(windows, padding=bool(node.get("count_include_pad", 0)))
    factors = math.prod(windows.kernel) / counted
    if (factors == 1).all():
        return [means]
    return [g("Mul", means, g.constant(factors[None, None], dtype))]


def _mean_pool(x: str, g: Graph, windows: _Windows) -> str:
    """Means of whole windows of a padded input."""
    if max(windows.dilations) == 1:
        return g("AveragePool", x, kernel_shape=windows.kernel, strides=windows.strides)
    (_, total), *rest = _parts(windows, g, x)
    for _, part in rest:
        total = g("Add", total, part)
    area = g("CastLike", g.constant(math.prod(windows.kernel), np.float32), total)
    return g("Div", total, area)


def _counted(windows: _Windows, *, padding: bool) -> np.ndarray:
    """Elements of each window that count."""
    whole = np.ones(1)
    for axis in range(windows.axes):
        first, last = windows.given[axis], windows.given[windows.axes + axis]
        inside = np.zeros(windows.sizes[axis] + windows.pads[axis] + windows.pads[windows.axes + axis])
        inside[first : first + windows.sizes[axis]] = 1
        if padding:
            inside[: first + windows.sizes[axis] + last] = 1
        reach = [at * windows.dilations[axis] for at in range(windows.kernel[axis])]
        starts = range(0, windows.counts[axis] * windows.strides[axis], windows.strides[axis])
        along = np.array([sum(inside[start + at] for at in reach) for start in starts])
        whole = whole[..., None] * along
    return whole[0]


def _lp_pool(node: Node, g: Graph) -> Sequence[str]:
    """Powers summed over windows, and the root of the sum."""
    windows, dtype, p = _Windows(node), node.dtype(0), node.get("p", 2)
    x = windows.padded(_powered(node.x(0), g, p, dtype), g, 0, dtype)
    total = g("Mul", _mean_pool(x, g, windows), g.constant(math.prod(windows.kernel), dtype))
    return [_root(total, g, p, dtype)]


def _global_lp_pool(node: Node, g: Graph) -> Sequence[str]:
    dtype, p = node.dtype(0), node.get("p", 2)
    total = g.reduce("ReduceSum", _powered(node.x(0), g, p, dtype), list(range(2, node.rank(0))))
    return [_root(total, g, p, dtype)]


def _powered(x: str, g: Graph, p: int, dtype: np.dtype) -> str:
    if p == 2:
        return g("Mul", x, x)
    return g("Abs", x) if p == 1 else g("Pow", g("Abs", x), g.constant(p, dtype))


def _root(x: str, g: Graph, p: int, dtype: np.dtype) -> str:
    if p == 1:
        return x
    return g("Sqrt", x) if p == 2 else g("Pow", x, g.constant(1 / p, dtype))


def _max_unpool(node: Node, g: Graph) -> Sequence[str]:
    """Values at their positions among zeros."""
    shape, kernel = node.shape(0), list(node.get("kernel_shape"))
    axes = len(kernel)
    strides, pads = node.get("strides", [1] * axes), node.get("pads", [0] * (2 * axes))
    sizes = [
        (shape[2 + axis] - 1) * strides[axis] - pads[axis] - pads[axes + axis] + kernel[axis]
        for axis in range(axes)
    ]
    whole = [*shape[:2], *sizes]
    zeros = g.constant(np.zeros(math.prod(whole)), node.dtype(0))
    found = g("ScatterElements", zeros, g.reshape(node.x(1), [-1]), g.reshape(node.x(0), [-1]), axis=0)
    found = g.reshape(found, whole)
    if node.has(2):
        ends = [int(wanted) - size for wanted, size in zip(node.fixed(2), whole, strict=True)]
        found = g("Pad", found, g.constant([0] * len(whole) + ends, np.int64), g.constant(0, node.dtype(0)))
    return [found]


POOLS: Mapping[str, Callable[[Node, Graph], Sequence[str] | None]] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalLpPool": _global_lp_pool,
    "MaxUnpool": _max_unpool,
}
"""Rewrites by operator."""
