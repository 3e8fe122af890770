"""Reductions, sorting and quotients at the ends of a data type's range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from .nodes import Graph, Node
from .rewriting import Rewrite

_KNOWN = "/inner"
"""End of the name of a result that needs no further rewriting."""


def _extremum(node: Node, g: Graph, *, sign: int) -> Sequence[str] | None:
    """Maxima and minima: of booleans in int32, and infinite if all elements are.

    TVM's maximum begins with the smallest finite number, which is larger than -inf.
    """
    dtype = node.dtype(0)
    if node.outputs[0].endswith(_KNOWN) or dtype.kind not in "bf":
        return None
    attributes = {
        name: value
        for name in ("axes", "keepdims", "noop_with_empty_axes")
        if (value := node.get(name)) is not None
    }
    if dtype.kind == "b":
        return [g.cast(_inner(node, g, g.cast(node.x(0), np.int32), attributes), dtype)]
    end = g.constant(-sign * np.inf, dtype)
    is_inside = g.cast(g("Greater" if sign > 0 else "Less", node.x(0), end), np.int32)
    inside = g("ReduceMax", is_inside, *node.inputs[1:], output=f"{g.fresh()}{_KNOWN}", **attributes)
    found = _inner(node, g, node.x(0), attributes)
    return [g("Where", g("Equal", inside, g.constant(0, np.int32)), end, found)]


def _inner(node: Node, g: Graph, x: str, attributes: Mapping[str, object]) -> str:
    return g(node.op, x, *node.inputs[1:], output=f"{g.fresh()}{_KNOWN}", **attributes)


def _largest_of_unsigned(node: Node, g: Graph) -> Sequence[str] | None:
    """`TopK` of unsigned integers as of int64, whose order is the same after a shift by half of the range."""
    dtype = node.dtype(0)
    if dtype.kind != "u":
        return None
    wide = dtype.itemsize == 8
    half = g.constant(1 << 63, np.uint64) if wide else ""
    x = g.cast(g("Sub", node.x(0), half) if wide else node.x(0), np.int64)
    attributes = {name: node.get(name, 1 if name != "axis" else -1) for name in ("axis", "largest", "sorted")}
    values, places = g.several("TopK", [x, *node.inputs[1:]], 2, **attributes)
    found = g.cast(values, dtype)
    return [g("Add", found, half) if wide else found, places]


def _shift(node: Node, g: Graph) -> Sequence[str] | None:
    """A shift by fewer than 0 or by all bits: 0, or -1 for a negative number to the right."""
    dtype, count = node.dtype(0), node.constant(1)
    bits = 8 * dtype.itemsize
    within = count is not None and bool(((count >= 0) & (count < bits)).all())
    if within or node.outputs[0].endswith(_KNOWN) or node.x(1).endswith(_KNOWN):
        return None
    zero = g.constant(0, dtype)
    valid = g("Less", node.x(1), g.constant(bits, dtype))
    if dtype.kind == "i":
        valid = g("And", valid, g("Not", g("Less", node.x(1), zero)))
    safe = g("Where", valid, node.x(1), zero, output=f"{g.fresh()}{_KNOWN}")
    rest = zero
    if dtype.kind == "i" and node.get("direction") == "RIGHT":
        rest = g("Where", g("Less", node.x(0), zero), g.constant(-1, dtype), zero)
    return [g("Where", valid, g("BitShift", node.x(0), safe, direction=node.get("direction")), rest)]


def _range(node: Node, g: Graph) -> Sequence[str] | None:
    """Ends of one element as scalars."""
    if not any(node.rank(place) for place in range(3)):
        return None
    return [g("Range", *(g("Reshape", name, g.constant(np.zeros(0), np.int64)) for name in node.inputs))]


REDUCTIONS: Mapping[str, Rewrite] = {
    "ReduceMax": partial(_extremum, sign=1),
    "ReduceMin": partial(_extremum, sign=-1),
    "TopK": _largest_of_unsigned,
    "BitShift": _shift,
    "Range": _range,
}
"""Rewrites by operator."""
