"""Resizing as sums of gathered elements with constant weights, for what TVM's operator lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .nodes import Graph, Node

Taps = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Positions and weights of the elements of each output along an axis, (outputs, taps) each."""


def _resize(node: Node, g: Graph) -> Sequence[str] | None:
    shape, rank = node.shape(0), node.rank(0)
    axes = [axis % rank for axis in node.get("axes", range(rank))]
    sizes, factors = _sizes(node, shape, axes)
    if _is_tvms(node, shape, sizes, factors, axes):
        return None
    wide = node.dtype(0) if node.dtype(0).kind == "f" else np.dtype(np.float32)
    nearest = node.get("mode", "nearest") == "nearest"
    x = node.x(0) if nearest or node.dtype(0) == wide else g.cast(node.x(0), wide)
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    region = node.fixed(1).tolist() if mode == "tf_crop_and_resize" else None
    outside = []
    for number, axis in enumerate(axes):
        ends = None if region is None else (region[number], region[number + len(axes)])
        if sizes[axis] == shape[axis] and factors[axis] == 1 and ends is None:
            continue
        at = _coordinates(mode, shape[axis], sizes[axis], factors[axis], ends)
        x = _along(x, g, axis, rank, _taps(node, at, shape[axis], factors[axis]), wide)
        if ends is not None:
            beyond = (at < 0) | (at > shape[axis] - 1)
            outside.append(beyond.reshape([-1 if one == axis else 1 for one in range(rank)]))
    for beyond in outside:
        value = g.constant(node.get("extrapolation_value", 0.0), wide)
        x = g("Where", g.constant(beyond), value, x)
    if not nearest and node.dtype(0) != wide:
        x = g.cast(g("Round", x) if node.get("mode") == "cubic" else x, node.dtype(0))
    return [g("Identity", x)]


def _sizes(node: Node, shape: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[float]]:
    """Size of each axis of the result and its ratio to the input's."""
    sizes, factors = list(shape), [1.0] * len(shape)
    if node.op == "Upsample" or node.opset < 11:
        given = node.get("scales") if node.get("scales") is not None else node.fixed(1).tolist()
        return [math.floor(n * f) for n, f in zip(shape, given, strict=True)], list(given)
    if node.has(3) and node.fixed(3).size:
        wanted = node.fixed(3).tolist()
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        ratios = [size / shape[axis] for size, axis in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(axes)
            wanted = [math.floor(ratio * shape[axis] + 0.5) for axis in axes]
        for axis, size, ratio in zip(axes, wanted, ratios, strict=True):
            sizes[axis], factors[axis] = int(size), ratio
        return sizes, factors
    for axis, factor in zip(axes, node.fixed(2).tolist(), strict=True):
        sizes[axis], factors[axis] = math.floor(shape[axis] * factor), factor
    return sizes, factors


def _is_tvms(
    node: Node, shape: Sequence[int], sizes: Sequence[int], factors: Sequence[float], axes: Sequence[int]
) -> bool:
    """Whether TVM's operator computes the same: images, resized by whole factors or by their sizes."""
    mode, where = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    if node.op == "Upsample" or node.opset < 11 or len(axes) != len(shape) or len(shape) != 4:
        return False
    if node.has(3) and node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False
    if list(sizes[:2]) != list(shape[:2]) or node.get("antialias", 0) or node.dtype(0).kind != "f":
        return False
    exact = all(abs(size - factor * n) < 1e-6 for size, factor, n in zip(sizes, factors, shape, strict=True))
    if mode == "nearest":
        whole = all(factor >= 1 and factor == int(factor) for factor in factors)
        return whole and (where, node.get("nearest_mode", "round_prefer_floor")) == ("asymmetric", "floor")
    return exact and mode == "linear" and where in ("half_pixel", "asymmetric", "align_corners")


def _coordinates(
    mode: str, size: int, wanted: int, factor: float, region: tuple[float, float] | None
) -> NDArray[np.float64]:
    """Position in the input of each output along an axis."""
    at = np.arange(wanted, dtype=np.float64)
    match mode:
        case "align_corners":
            return at * (size - 1) / (factor * size - 1) if factor * size != 1 else at * 0
        case "asymmetric":
            return at / factor
        case "pytorch_half_pixel":
            return (at + 0.5) / factor - 0.5 if wanted > 1 else at * 0
        case "half_pixel_symmetric":
            adjustment = wanted / (factor * size)
            return size / 2 * (1 - adjustment) + (at + 0.5) / factor - 0.5
        case "tf_half_pixel_for_nn":
            return (at + 0.5) / factor
        case "tf_crop_and_resize":
            assert region is not None
            first, last = region
            if wanted > 1:
                return first * (size - 1) + at * (last - first) * (size - 1) / (wanted - 1)
            return at * 0 + 0.5 * (first + last) * (size - 1)
        case _:
            return (at + 0.5) / factor - 0.5


def _taps(node: Node, at: NDArray[np.float64], size: int, factor: float) -> Taps:
    mode = node.get("mode", "nearest")
    if mode == "nearest":
        rounded = {
            "round_prefer_floor": np.ceil(at - 0.5),
            "round_prefer_ceil": np.floor(at + 0.5),
            "floor": np.floor(at),
            "ceil": np.ceil(at),
        }[node.get("nearest_mode", "round_prefer_floor")]
        places = np.clip(rounded, 0, size - 1).astype(np.int64)[:, None]
        return places, np.ones(places.shape)
    spread = 1 / factor if node.get("antialias", 0) and factor < 1 else 1.0
    reach = 1 if mode in ("linear", "bilinear") else 2
    half = math.ceil(reach * spread)
    offsets = np.arange(-half + 1, half + 1)
    if spread > 1:
        offsets = np.arange(-half - 1, half + 2)
    places = np.floor(at)[:, None] + offsets
    distance = np.abs(places - at[:, None]) / spread
    weights = (
        np.maximum(1 - distance, 0) if reach == 1 else _cubic(distance, node.get("cubic_coeff_a", -0.75))
    )
    if node.get("exclude_outside", 0) or spread > 1:
        inside = (places >= 0) & (places < size)
        if node.get("exclude_outside", 0):
            weights = weights * inside
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, size - 1).astype(np.int64), weights


def _cubic(distance: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _along(x: str, g: Graph, axis: int, rank: int, taps: Taps, dtype: np.dtype) -> str:
    """Weighted sum of gathered elements along an axis."""
    places, weights = taps
    used = [tap for tap in range(places.shape[1]) if weights[:, tap].any()]
    total = ""
    for tap in used:
        part = g("Gather", x, g.constant(places[:, tap]), axis=axis)
        if (weights[:, tap] != 1).any():
            shape = [-1 if one == axis else 1 for one in range(rank)]
            part = g("Mul", part, g.constant(weights[:, tap].reshape(shape), dtype))
        total = g("Add", total, part) if total else part
    return total


RESIZING: Mapping[str, Callable[[Node, Graph], Sequence[str] | None]] = {
    "Resize": _resize,
    "Upsample": _resize,
}
"""Rewrites by operator."""
