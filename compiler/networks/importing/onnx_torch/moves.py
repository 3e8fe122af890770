"""Operators that move elements, or make tensors of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from .call import Convert, FixedExtentsError, Known, OperatorCall, as_tensor, known, torch_type

_LONGEST = 2**31 - 1
"""Bounds of slices from here on mean the end of an axis."""


def _shape(call: OperatorCall) -> Known:
    value = call.values[0]
    extents = list(value.shape)[call.get("start", 0) : call.get("end")]
    return known(extents).reshape(len(extents))


def _size(call: OperatorCall) -> Known:
    value = call.values[0]
    return known(value.numel() if isinstance(value, torch.Tensor) else value.size)


def _reshape(call: OperatorCall) -> torch.Tensor:
    x, wanted = call.tensor(), call.numbers(1)
    if not call.get("allowzero", 0):
        wanted = [x.shape[axis] if _is(extent, 0) else extent for axis, extent in enumerate(wanted)]
    if any(_is(extent, -1) for extent in wanted):  # PyTorch would decide by the size that is traced
        rest = math.prod(extent for extent in wanted if not _is(extent, -1))
        wanted = [math.prod(x.shape) // rest if _is(extent, -1) else extent for extent in wanted]
    return x.reshape(wanted)


def _is(extent: Any, number: int) -> bool:
    """Whether an extent is a number, and no symbol."""
    return isinstance(extent, int) and extent == number


def _flatten(call: OperatorCall) -> torch.Tensor:
    x, axis = call.tensor(), call.get("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    if axis == 0:
        return x.reshape(1, -1)
    x = x.flatten(axis) if axis < x.dim() else x.unsqueeze(-1)
    return x.flatten(0, axis - 1)


def _transpose(call: OperatorCall) -> torch.Tensor:
    x = call.tensor()
    return x.permute(call.get("perm") or list(range(x.dim()))[::-1])


def _concat(call: OperatorCall) -> torch.Tensor:
    return torch.cat(call.given(), call.get("axis"))


def _split(call: OperatorCall) -> list[torch.Tensor]:
    x, axis = call.tensor(), call.get("axis", 0)
    sizes = call.get("split")
    if sizes is None and call.has(1):
        sizes = call.numbers(1)
    if sizes is not None:
        return list(torch.split(x, list(sizes), axis))
    count = call.get("num_outputs", len(call.outputs))
    part = -(-x.shape[axis] // count)
    return [x.narrow(axis, at * part, min(part, x.shape[axis] - at * part)) for at in range(count)]


def _slice(call: OperatorCall) -> torch.Tensor:
    x = call.tensor()
    starts, ends = call.numbers(1), call.numbers(2)
    axes = call.numbers(3) if call.has(3) else range(len(starts))
    steps = call.numbers(4) if call.has(4) else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = _part(x, start, end, int(axis) % x.dim(), step)
    return x


def _at(axis: int, index: Any) -> tuple[Any, ...]:
    """Indices that apply one to an axis, and keep the axes before it."""
    return (*[slice(None)] * axis, index)


def _part(x: torch.Tensor, start: Any, end: Any, axis: int, step: Any) -> torch.Tensor:
    """Every step-th element of an axis."""
    if step > 0:
        last = None if isinstance(end, int) and end >= _LONGEST else end
        return x[_at(axis, slice(start, last, step))]
    whole = isinstance(start, int) and (start == -1 or start >= _LONGEST)
    if step != -1 or not whole or not (isinstance(end, int) and end <= -_LONGEST):
        raise FixedExtentsError("it goes backwards from a number of elements")
    return torch.flip(x, [axis])


def _gather(call: OperatorCall) -> torch.Tensor:
    x, axis = call.tensor(), call.get("axis", 0) % call.tensor().dim()
    places = call.values[1]
    if not isinstance(places, torch.Tensor) and places.ndim == 0:
        return x.select(axis, places.item())
    indices = call.tensor(1).to(torch.int64)
    if axis == 0 and x.dim() == 2:
        return functional.embedding(torch.remainder(indices, x.shape[0]), x)
    return x[_at(axis, indices)]


def _gather_elements(call: OperatorCall) -> torch.Tensor:
    x, axis = call.tensor(), call.get("axis", 0)
    return torch.gather(x, axis, torch.remainder(call.tensor(1), x.shape[axis]))


def _gather_by_points(call: OperatorCall) -> torch.Tensor:
    if call.get("batch_dims", 0):
        raise FixedExtentsError("batch_dims is not 0")
    return call.tensor()[tuple(call.tensor(1).unbind(-1))]


def _expand(call: OperatorCall) -> torch.Tensor:
    x, wanted = call.tensor(), call.numbers(1)
    missing = len(wanted) - x.dim()
    x = x.reshape([1] * max(missing, 0) + list(x.shape))
    wanted = [1] * max(-missing, 0) + wanted
    return x.expand([own if _is(given, 1) else given for given, own in zip(wanted, x.shape, strict=True)])


def _pad(call: OperatorCall) -> torch.Tensor:
    x, mode = call.tensor(), call.get("mode", "constant")
    pads = call.get("pads") or call.numbers(1)
    axes = [int(axis) % x.dim() for axis in call.numbers(3)] if call.has(3) else list(range(x.dim()))
    before, after = dict(zip(axes, pads, strict=False)), dict(zip(axes, pads[len(axes) :], strict=True))
    first = min((axis for axis in axes if not (_is(before[axis], 0) and _is(after[axis], 0))), default=None)
    if first is None:
        return x
    around = [
        one for axis in reversed(range(first, x.dim())) for one in (before.get(axis, 0), after.get(axis, 0))
    ]
    if mode == "constant":
        value = call.number(2) if call.has(2) else call.get("value", 0)
        return functional.pad(x, around, value=value)
    names = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    return functional.pad(x, around, names[mode])


def _tile(call: OperatorCall) -> torch.Tensor:
    return call.tensor().repeat(call.numbers(1))


def _squeeze(call: OperatorCall) -> torch.Tensor:
    axes = call.axes(1)
    return call.tensor().squeeze() if axes is None else call.tensor().squeeze(axes)


def _unsqueeze(call: OperatorCall) -> torch.Tensor:
    x, axes = call.tensor(), call.axes(1) or []
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _filled(call: OperatorCall) -> torch.Tensor:
    value = call.get("value")
    like = as_tensor(known([0.0] if value is None else value), None if value is None else _type_of(value))
    return torch.full(call.numbers(0), like.reshape(-1)[0].item(), dtype=like.dtype)


def _type_of(array: Any) -> torch.dtype:
    return torch.from_numpy(array).dtype


def _range(call: OperatorCall) -> torch.Tensor:
    start, end, step = (call.number(place) for place in range(3))
    return torch.arange(start, end, step, dtype=call.torch_type(0))


def _one_hot(call: OperatorCall) -> torch.Tensor:
    depth, axis = int(call.number(1)), call.get("axis", -1)
    indices, values = call.tensor(0).to(torch.int64), call.tensor(2)
    axis = axis % (indices.dim() + 1)
    places = torch.arange(depth).reshape([depth] + [1] * (indices.dim() - axis))
    return torch.where(torch.remainder(indices, depth).unsqueeze(axis) == places, values[1], values[0])


def _triangle(call: OperatorCall) -> torch.Tensor:
    k = int(call.number(1)) if call.has(1) else 0
    return torch.triu(call.tensor(), k) if call.get("upper", 1) else torch.tril(call.tensor(), k)


def _eye_like(call: OperatorCall) -> torch.Tensor:
    x, k = call.tensor(), call.get("k", 0)
    dtype = torch_type(call.onnx, call.get("dtype")) if call.get("dtype") else x.dtype
    rows, columns = (torch.arange(extent) for extent in x.shape)
    return (rows[:, None] + k == columns).to(dtype)


def _scatter(call: OperatorCall) -> torch.Tensor:
    x, axis = call.tensor(), call.get("axis", 0)
    indices, kind = torch.remainder(call.tensor(1), x.shape[axis]), call.get("reduction", "none")
    if kind == "none":
        return torch.scatter(x, axis, indices, call.tensor(2))
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return torch.scatter_reduce(x, axis, indices, call.tensor(2), names[kind])


def _scatter_points(call: OperatorCall) -> torch.Tensor:
    kind = call.get("reduction", "none")
    if kind not in ("none", "add"):
        raise FixedExtentsError(f"its reduction is {kind}")
    places = tuple(call.tensor(1).unbind(-1))
    return torch.index_put(call.tensor(0), places, call.tensor(2), accumulate=kind == "add")


def _depth_to_space(call: OperatorCall) -> torch.Tensor:
    x, b = call.tensor(), call.get("blocksize")
    batch, channels, height, width = x.shape
    depth = channels // (b * b)
    if call.get("mode", "DCR") == "DCR":
        moved = x.reshape(batch, b, b, depth, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(batch, depth, b, b, height, width).permute(0, 1, 4, 2, 5, 3)
    return moved.reshape(batch, depth, height * b, width * b)


def _constant(call: OperatorCall) -> Known:
    for name in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        value = call.get(name)
        if value is not None:
            return known(value)
    raise FixedExtentsError("its value is not a tensor of numbers")


MOVES: Mapping[str, Convert] = {
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_by_points,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ScatterElements": _scatter,
    "ScatterND": _scatter_points,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _unsqueeze,
}
"""Conversions by operator."""
