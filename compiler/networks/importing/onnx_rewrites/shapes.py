"""Operators that move elements: blocks and depth, padding, slices, sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .nodes import Graph, Node


def _depth_to_space(node: Node, g: Graph) -> Sequence[str]:
    batch, channels, height, width = node.shape(0)
    b = node.get("blocksize")
    depth = channels // (b * b)
    if node.get("mode", "DCR") == "DCR":
        split, perm = [batch, b, b, depth, height, width], [0, 3, 4, 1, 5, 2]
    else:
        split, perm = [batch, depth, b, b, height, width], [0, 1, 4, 2, 5, 3]
    moved = g("Transpose", g.reshape(node.x(0), split), perm=perm)
    return [g.reshape(moved, [batch, depth, height * b, width * b])]


def _space_to_depth(node: Node, g: Graph) -> Sequence[str]:
    batch, channels, height, width = node.shape(0)
    b = node.get("blocksize")
    perm = [0, 3, 5, 1, 2, 4] if node.get("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    split = g.reshape(node.x(0), [batch, channels, height // b, b, width // b, b])
    return [g.reshape(g("Transpose", split, perm=perm), [batch, channels * b * b, height // b, width // b])]


def _pad(node: Node, g: Graph) -> Sequence[str] | None:
    """Pads of all axes; elements that repeat are gathered, and negative pads cut."""
    shape, mode, x = node.shape(0), node.get("mode", "constant"), node.x(0)
    pads = node.get("pads") if node.opset < 11 else node.fixed(1).tolist()
    chosen = node.fixed(3).tolist() if node.has(3) else list(range(len(shape)))
    before, after = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(chosen):
        before[axis], after[axis] = pads[place], pads[len(chosen) + place]
    if mode == "constant":
        if min((*before, *after), default=0) >= 0 and not node.has(3):
            return None
        for axis, size in enumerate(shape):
            first, last = max(0, -before[axis]), size + min(0, after[axis])
            if (first, last) != (0, size):
                x = g.part(x, first, last, axis)
        whole = [max(0, one) for one in (*before, *after)]
        value = node.x(2) if node.has(2) else g.constant(node.get("value", 0), node.dtype(0))
        return [g("Pad", x, g.constant(whole, np.int64), value)]
    for axis, size in enumerate(shape):
        if before[axis] or after[axis]:
            first, last = max(0, before[axis]), max(0, after[axis])
            places = np.pad(np.arange(size), (first, last), mode)
            places = places[max(0, -before[axis]) : len(places) + min(0, after[axis])]
            x = g("Gather", x, g.constant(places, np.int64), axis=axis)
    return [g("Identity", x)]


def _slice(node: Node, g: Graph) -> Sequence[str] | None:
    """Slices within the extents; those that go backwards gather."""
    shape, x = node.shape(0), node.x(0)
    if node.opset < 10:
        starts, ends, steps = list(node.get("starts")), list(node.get("ends")), None
        axes = node.get("axes")
    else:
        starts, ends = node.fixed(1).tolist(), node.fixed(2).tolist()
        axes = node.fixed(3).tolist() if node.has(3) else None
        steps = node.fixed(4).tolist() if node.has(4) else None
    chosen = list(range(len(starts))) if axes is None else [axis % len(shape) for axis in axes]
    steps = [1] * len(starts) if steps is None else steps
    forward: list[tuple[int, int, int, int]] = []
    for axis, start, end, step in zip(chosen, starts, ends, steps, strict=True):
        places = range(*slice(start, end, step).indices(shape[axis]))
        if step > 0:
            stop = places[-1] + 1 if len(places) else places.start
            if (places.start, stop, step) != (0, shape[axis], 1):
                forward.append((places.start, stop, axis, step))
        else:
            x = g("Gather", x, g.constant(list(places), np.int64), axis=axis)
    now = list(zip(starts, ends, chosen, steps, strict=True))
    if forward == now and node.has(3) and node.has(4):
        return None
    if not forward:
        return [g("Identity", x)]
    return [g("Slice", x, *(g.constant(column, np.int64) for column in zip(*forward, strict=True)))]


def _expand(node: Node, g: Graph) -> Sequence[str] | None:
    """The shape that results, which may be larger than the given one."""
    given = node.fixed(1).tolist()
    wanted = list(np.broadcast_shapes(node.shape(0), tuple(given)))
    return None if wanted == given else [g("Expand", node.x(0), g.constant(wanted, np.int64))]


def _reshape(node: Node, g: Graph) -> Sequence[str] | None:
    """A shape without 0 and without -1."""
    shape, wanted = node.shape(0), [int(one) for one in node.fixed(1)]
    if not node.get("allowzero", 0):
        wanted = [shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if -1 in wanted:
        known = int(np.prod([size for size in wanted if size != -1]))
        wanted[wanted.index(-1)] = int(np.prod(shape)) // max(known, 1)
    if wanted == node.fixed(1).tolist() and not node.get("allowzero", 0):
        return None
    zero: dict[str, Any] = {"allowzero": 1} if 0 in wanted else {}
    return [g("Reshape", node.x(0), g.constant(wanted, np.int64), **zero)]


def _split(node: Node, g: Graph) -> Sequence[str] | None:
    """Sizes of the parts, the last of which may be smaller."""
    if node.has(1) or node.get("split") is not None:
        return None
    axis = node.get("axis", 0)
    size, count = node.shape(0)[axis], node.get("num_outputs", len(node.outputs))
    part = -(-size // count)
    parts = [min(part, size - number * part) for number in range(count)]
    return g.several("Split", [node.x(0), g.constant(parts, np.int64)], count, axis=axis)


def _eye_like(node: Node, g: Graph) -> Sequence[str]:
    rows, columns = node.shape(0)
    found = g.constant(np.eye(rows, columns, node.get("k", 0)), np.float32)
    return [g("Cast", found, to=node.get("dtype"))] if node.get("dtype") else [g.cast(found, node.dtype(0))]


def _one_hot(node: Node, g: Graph) -> Sequence[str]:
    """Comparison of indices, which may be negative, with all values of the new axis."""
    shape, depth = node.shape(0), int(node.fixed(1).reshape(()))
    axis = node.get("axis", -1) % (len(shape) + 1)
    indices = node.x(0) if node.dtype(0) == np.int64 else g.cast(node.x(0), np.int64)
    below = g("Less", indices, g.constant(0, np.int64))
    counted = g("Where", below, g("Add", indices, g.constant(depth, np.int64)), indices)
    counted = g.reshape(counted, [*shape[:axis], 1, *shape[axis:]])
    places = np.arange(depth).reshape(*[1] * axis, depth, *[1] * (len(shape) - axis))
    hit = g("Equal", counted, g.constant(places, np.int64))
    off, on = (g.reshape(g.part(node.x(2), at, at + 1, 0), [1]) for at in (0, 1))
    return [g("Where", hit, on, off)]


def _compress(node: Node, g: Graph) -> Sequence[str]:
    """Elements whose condition is constant."""
    places, x = np.flatnonzero(node.fixed(1)), node.x(0)
    axis = node.get("axis")
    if axis is None:
        x, axis = g.reshape(x, [-1]), 0
    return [g("Gather", x, g.constant(places, np.int64), axis=axis)]


def _running_product(node: Node, g: Graph) -> Sequence[str]:
    """Products of all elements up to each one, along an axis."""
    axis, x, dtype = int(node.fixed(1).reshape(())) % node.rank(0), node.x(0), node.dtype(0)
    extent = node.shape(0)[axis]
    order = range(extent)[::-1] if node.get("reverse", 0) else range(extent)
    ones = [1 if at == axis else size for at, size in enumerate(node.shape(0))]
    total, found = g.constant(np.ones(ones), dtype), {}
    for at in order:
        now = g("Mul", total, g.part(x, at, at + 1, axis))
        found[at] = total if node.get("exclusive", 0) else now
        total = now
    return [g("Concat", *(found[at] for at in range(extent)), axis=axis)]


def _reverse_sequence(node: Node, g: Graph) -> Sequence[str]:
    shape = node.shape(0)
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    extent = shape[time]
    along = [extent if axis == time else 1 for axis in range(len(shape))]
    across = [shape[batch] if axis == batch else 1 for axis in range(len(shape))]
    places = g.constant(np.arange(extent).reshape(along), np.int64)
    lengths = g.reshape(g.cast(node.x(1), np.int64), across)
    turned = g("Sub", g("Sub", lengths, g.constant(1, np.int64)), places)
    index = g("Where", g("Less", places, lengths), turned, places)
    index = g("Expand", index, g.constant(list(shape), np.int64))
    return [g("GatherElements", node.x(0), index, axis=time)]


def _last_extremum(node: Node, g: Graph) -> Sequence[str] | None:
    """The last position of the extremum: the first one of the reversed input."""
    if not node.get("select_last_index", 0):
        return None
    axis, keepdims = node.get("axis", 0), node.get("keepdims", 1)
    extent = node.shape(0)[axis]
    turned = g("Gather", node.x(0), g.constant(np.arange(extent)[::-1], np.int64), axis=axis)
    place = g(node.op, turned, axis=axis, keepdims=keepdims)
    return [g("Sub", g.constant(extent - 1, np.int64), place)]


def _triangle(node: Node, g: Graph) -> Sequence[str]:
    """A mask that is constant."""
    *_, rows, columns = node.shape(0)
    k = int(node.fixed(1).reshape(())) if node.has(1) else 0
    ones = np.ones((rows, columns), bool)
    mask = np.triu(ones, k) if node.get("upper", 1) else np.tril(ones, k)
    return [g("Where", g.constant(mask), node.x(0), g.constant(0, node.dtype(0)))]


def _dropout(node: Node, g: Graph) -> Sequence[str] | None:
    """Without training nothing is dropped."""
    training = node.fixed(2) if node.has(2) else np.array(False)
    if training.any() and not (node.has(1) and float(node.fixed(1).reshape(())) == 0):
        return None
    kept = np.ones(node.shape(0), bool)
    return [g("Identity", node.x(0)), g.constant(kept)]


def _affine_grid(node: Node, g: Graph) -> Sequence[str]:
    """Coordinates of the output in those of the input: a constant grid times the matrices."""
    batch, _, *sizes = (int(size) for size in node.fixed(1))
    if node.get("align_corners", 0):
        along = [np.linspace(-1, 1, size) if size > 1 else np.zeros(1) for size in sizes]
    else:
        along = [(2 * np.arange(size) + 1) / size - 1 for size in sizes]
    grids = np.meshgrid(*along, indexing="ij")[::-1]
    points = np.stack([*grids, np.ones(sizes)], axis=-1).reshape(-1, len(sizes) + 1)
    found = g("MatMul", g.constant(points, node.dtype(0)), g("Transpose", node.x(0), perm=[0, 2, 1]))
    return [g.reshape(found, [batch, *sizes, len(sizes)])]


def _unsqueeze(node: Node, g: Graph) -> Sequence[str] | None:
    """One axis that is no list."""
    axes = node.constant(1)
    return None if axes is None or axes.ndim else [g("Unsqueeze", node.x(0), g.constant(axes.reshape(1)))]


def _constant(node: Node, g: Graph) -> Sequence[str] | None:
    """A constant in the form of a tensor."""
    for name, kind in (("value_int", np.int64), ("value_ints", np.int64), ("value_float", np.float32)):
        if node.get(name) is not None:
            return [g.constant(node.get(name), kind)]
    floats = node.get("value_floats")
    return None if floats is None else [g.constant(list(floats), np.float32)]


def _size(node: Node, g: Graph) -> Sequence[str]:
    return [g.constant(int(np.prod(node.shape(0), dtype=np.int64)), np.int64)]


def _shape(node: Node, g: Graph) -> Sequence[str]:
    return [g.constant(list(node.shape(0)[node.get("start", 0) : node.get("end")]), np.int64)]


SHAPES: Mapping[str, Callable[[Node, Graph], Sequence[str] | None]] = {
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Pad": _pad,
    "Slice": _slice,
    "Expand": _expand,
    "Reshape": _reshape,
    "Split": _split,
    "EyeLike": _eye_like,
    "OneHot": _one_hot,
    "Compress": _compress,
    "AffineGrid": _affine_grid,
    "Constant": _constant,
    "Unsqueeze": _unsqueeze,
    "CumProd": _running_product,
    "ReverseSequence": _reverse_sequence,
    "ArgMax": _last_extremum,
    "ArgMin": _last_extremum,
    "Trilu": _triangle,
    "Dropout": _dropout,
    "Shape": _shape,
    "Size": _size,
}
"""Rewrites by operator."""
