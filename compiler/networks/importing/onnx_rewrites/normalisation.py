"""Normalisations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .nodes import Graph, Node


def _batch_norm(node: Node, g: Graph) -> Sequence[str] | None:
    """With the statistics of the batch; further outputs are the running statistics."""
    if not node.get("training_mode", 0):
        return None
    x, rank, momentum = node.x(0), node.rank(0), node.get("momentum", 0.9)
    axes, per_channel = [0, *range(2, rank)], [1, -1, *[1] * (rank - 2)]
    mean = g.reduce("ReduceMean", x, axes)
    centred = g("Sub", x, mean)
    variance = g.reduce("ReduceMean", g("Mul", centred, centred), axes)
    deviation = g("Sqrt", g("Add", variance, g.constant(node.get("epsilon", 1e-5), node.dtype(0))))
    scale, bias = (g.reshape(node.x(place), per_channel) for place in (1, 2))
    found = [g("Add", g("Mul", g("Div", centred, deviation), scale), bias)]
    for place, batch in ((3, mean), (4, variance)):
        dtype = node.dtype(place)
        batch = g.reshape(batch, [-1])
        batch = batch if dtype == node.dtype(0) else g.cast(batch, dtype)
        kept = g("Mul", node.x(place), g.constant(momentum, dtype))
        found.append(g("Add", kept, g("Mul", batch, g.constant(1 - momentum, dtype))))
    return found


def _lp_norm(node: Node, g: Graph) -> Sequence[str]:
    """Zeros where the norm is 0."""
    x, axis, dtype = node.x(0), node.get("axis", -1) % node.rank(0), node.dtype(0)
    norm = g.reduce("ReduceL1" if node.get("p", 2) == 1 else "ReduceL2", x, [axis])
    nothing = g("Equal", norm, g.constant(0, dtype))
    divisor = g("Where", nothing, g.constant(1, dtype), norm)
    return [g("Div", x, divisor)]


def _across_channels(node: Node, g: Graph) -> Sequence[str]:
    """LRN: squares summed over neighbouring channels."""
    x, dtype, size, channels = node.x(0), node.dtype(0), node.get("size"), node.shape(0)[1]
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    rest = [0] * (node.rank(0) - 2)
    pads = g.constant([0, before, *rest, 0, after, *rest], np.int64)
    squares = g("Pad", g("Mul", x, x), pads, g.constant(0, dtype))
    total = g.part(squares, 0, channels, 1)
    for first in range(1, size):
        total = g("Add", total, g.part(squares, first, first + channels, 1))
    scaled = g("Mul", total, g.constant(node.get("alpha", 1e-4) / size, dtype))
    base = g("Add", scaled, g.constant(node.get("bias", 1.0), dtype))
    return [g("Div", x, g("Pow", base, g.constant(node.get("beta", 0.75), dtype)))]


NORMALISATION: Mapping[str, Callable[[Node, Graph], Sequence[str] | None]] = {
    "BatchNormalization": _batch_norm,
    "LpNormalization": _lp_norm,
    "LRN": _across_channels,
}
"""Rewrites by operator."""
