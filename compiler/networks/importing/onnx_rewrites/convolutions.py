"""Convolutions: padding by name, and transposed ones as convolutions at the resolution of their input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .nodes import Graph, Node


def same_pads(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], mode: str
) -> list[int]:
    """Pads of `auto_pad`, first those before each axis, then those after it."""
    before, after = [], []
    for size, extent, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        count = -(-size // stride)
        total = max(0, (count - 1) * stride + (extent - 1) * dilation + 1 - size)
        small = total // 2
        before.append(small if mode == "SAME_UPPER" else total - small)
        after.append(total - before[-1])
    return before + after


def windows_of(node: Node, kernel: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and pads of a convolution or pooling, with `auto_pad` resolved."""
    axes = len(kernel)
    strides = list(node.get("strides", [1] * axes))
    dilations = list(node.get("dilations", [1] * axes))
    mode = node.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return strides, dilations, same_pads(node.shape(0)[2:], kernel, strides, dilations, mode)
    pads = [0] * (2 * axes) if mode == "VALID" else list(node.get("pads", [0] * (2 * axes)))
    return strides, dilations, pads


def _convolution(node: Node, g: Graph) -> Sequence[str] | None:
    """A convolution with explicit pads."""
    if node.get("auto_pad", "NOTSET") == "NOTSET":
        return None
    kernel = node.shape(1)[2:]
    strides, dilations, pads = windows_of(node, kernel)
    return [
        g(
            "Conv",
            *node.inputs,
            kernel_shape=list(kernel),
            strides=strides,
            dilations=dilations,
            pads=pads,
            group=node.get("group", 1),
        )
    ]


def _transposed(node: Node, g: Graph) -> Sequence[str]:
    """A transposed convolution as one convolution.

    Output q = s * j + r along an axis of stride s sums x[j - m] * weight[r + s * m] over m. The places r of
    all axes become channels of a convolution, which a reshape and a transposition interleave.
    """
    sizes, (channels, outer, *kernel) = node.shape(0)[2:], node.shape(1)
    axes, groups = len(sizes), node.get("group", 1)
    strides = list(node.get("strides", [1] * axes))
    dilations = list(node.get("dilations", [1] * axes))
    wide = [(extent - 1) * step + 1 for extent, step in zip(kernel, dilations, strict=True)]
    before, wanted = _cut(node, sizes, wide, strides)
    taps = [-(-extent // stride) for extent, stride in zip(wide, strides, strict=True)]
    weight = _dilated(node.x(1), g, kernel, dilations, [*node.shape(1)[:2]], node.dtype(1))
    ends = [tap * stride - extent for tap, stride, extent in zip(taps, strides, wide, strict=True)]
    weight = _pad(weight, g, [0] * (axes + 2), [0, 0, *ends], node.dtype(1))
    inner = channels // groups
    split = [extent for tap, stride in zip(taps, strides, strict=True) for extent in (tap, stride)]
    weight = g.reshape(weight, [groups, inner, outer, *split])
    for axis, tap in enumerate(taps):  # from the last tap to the first
        if tap > 1:
            weight = g("Gather", weight, g.constant(np.arange(tap)[::-1], np.int64), axis=3 + 2 * axis)
    places, along = [4 + 2 * axis for axis in range(axes)], [3 + 2 * axis for axis in range(axes)]
    weight = g("Transpose", weight, perm=[0, *places, 2, 1, *along])
    weight = g.reshape(weight, [groups * math.prod(strides) * outer, inner, *taps])
    pads = [tap - 1 for tap in taps]
    found = g("Conv", node.x(0), weight, kernel_shape=taps, pads=pads + pads, group=groups)
    counts = [size + tap - 1 for size, tap in zip(sizes, taps, strict=True)]
    batch = node.shape(0)[0]
    if max(strides) > 1:
        found = g.reshape(found, [batch, groups, *strides, outer, *counts])
        pixels = [at for axis in range(axes) for at in (3 + axes + axis, 2 + axis)]
        found = g("Transpose", found, perm=[0, 1, 2 + axes, *pixels])
    counts = [count * stride for count, stride in zip(counts, strides, strict=True)]
    found = g.reshape(found, [batch, groups * outer, *counts])
    found = _window(found, g, before, wanted, counts, node.dtype(0))
    if node.has(2):
        found = g("Add", found, g.reshape(node.x(2), [1, -1, *[1] * axes]))
    return [found]


def _cut(
    node: Node, sizes: Sequence[int], wide: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Elements of the whole result that are left out in front, and the sizes that are kept."""
    axes, mode = len(sizes), node.get("auto_pad", "NOTSET")
    more = list(node.get("output_padding", [0] * axes))
    whole = [
        (size - 1) * stride + extent + extra
        for size, stride, extent, extra in zip(sizes, strides, wide, more, strict=True)
    ]
    asked = node.get("output_shape")
    if asked is None and mode.startswith("SAME"):
        asked = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if asked is None:
        pads = [0] * (2 * axes) if mode == "VALID" else list(node.get("pads", [0] * (2 * axes)))
        return pads[:axes], [
            size - first - last for size, first, last in zip(whole, pads[:axes], pads[axes:], strict=True)
        ]
    asked = list(asked)[-axes:]
    totals = [max(0, size - wanted) for size, wanted in zip(whole, asked, strict=True)]
    upper = mode == "SAME_UPPER"
    return [total // 2 if upper else total - total // 2 for total in totals], asked


def _dilated(
    weight: str,
    g: Graph,
    kernel: Sequence[int],
    dilations: Sequence[int],
    outer: Sequence[int],
    dtype: np.dtype,
) -> str:
    """The weight with zeros between its elements."""
    if max(dilations) == 1:
        return weight
    axes = len(kernel)
    spread = [extent for size in kernel for extent in (size, 1)]
    weight = g.reshape(weight, [*outer, *spread])
    ends = [extent for dilation in dilations for extent in (0, dilation - 1)]
    weight = _pad(weight, g, [0] * (2 + 2 * axes), [0, 0, *ends], dtype)
    sizes = [size * dilation for size, dilation in zip(kernel, dilations, strict=True)]
    weight = g.reshape(weight, [*outer, *sizes])
    for axis, (size, dilation) in enumerate(zip(kernel, dilations, strict=True)):
        weight = g.part(weight, 0, (size - 1) * dilation + 1, 2 + axis)
    return weight


def _pad(x: str, g: Graph, before: Sequence[int], after: Sequence[int], dtype: np.dtype) -> str:
    """Zeros around `x`."""
    if not any((*before, *after)):
        return x
    return g("Pad", x, g.constant([*before, *after], np.int64), g.constant(0, dtype))


def _window(
    x: str, g: Graph, first: Sequence[int], wanted: Sequence[int], sizes: Sequence[int], dtype: np.dtype
) -> str:
    """A part of the pixels, with zeros where it reaches beyond them."""
    beyond = [max(0, at + count - size) for at, count, size in zip(first, wanted, sizes, strict=True)]
    x = _pad(x, g, [0] * (2 + len(sizes)), [0, 0, *beyond], dtype)
    for axis, (at, count, size) in enumerate(zip(first, wanted, sizes, strict=True)):
        if (at, count) != (0, size):
            x = g.part(x, at, at + count, 2 + axis)
    return x


CONVOLUTIONS: Mapping[str, Callable[[Node, Graph], Sequence[str] | None]] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
}
"""Rewrites by operator."""
