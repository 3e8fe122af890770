"""Convolutions, pooling and resizing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import torch
from torch.nn import functional

from .call import Convert, FixedExtentsError, OperatorCall

_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_AVERAGES = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
_MAXIMA = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}


class _Window:
    """Attributes of a window that moves over the axes after the channels."""

    def __init__(self, call: OperatorCall, kernel: Sequence[Any]) -> None:
        self.kernel = [int(extent) for extent in kernel]
        axes = len(self.kernel)
        self.strides = list(call.get("strides") or [1] * axes)
        self.dilations = list(call.get("dilations") or [1] * axes)
        pads = list(call.get("pads") or [0] * (2 * axes))
        self.before, self.after = pads[:axes], pads[axes:]
        kind = call.get("auto_pad", "NOTSET")
        if kind.startswith("SAME"):
            self._same(call.tensor().shape[2:], upper=kind == "SAME_UPPER")

    def _same(self, extents: Sequence[Any], *, upper: bool) -> None:
        """Pads so that the output has the extent divided by the stride, rounded up."""
        for axis, extent in enumerate(extents):
            stride, covered = self.strides[axis], (self.kernel[axis] - 1) * self.dilations[axis] + 1
            if stride == 1:
                total = covered - 1
            elif isinstance(extent, int):
                total = max(0, (ceil(extent / stride) - 1) * stride + covered - extent)
            else:
                raise FixedExtentsError("auto_pad depends on the extent")
            less, more = total // 2, total - total // 2
            self.before[axis], self.after[axis] = (less, more) if upper else (more, less)

    @property
    def is_even(self) -> bool:
        """Whether both sides have the same pads."""
        return self.before == self.after

    @property
    def is_wide(self) -> bool:
        """Whether a pad is over half of the kernel, which PyTorch's pooling refuses."""
        return any(2 * pad > extent for pad, extent in zip(self.before, self.kernel, strict=True))

    def padded(self, x: torch.Tensor, value: float = 0.0) -> torch.Tensor:
        """The tensor with the pads as elements."""
        around = [one for pair in zip(self.before[::-1], self.after[::-1], strict=True) for one in pair]
        return functional.pad(x, around, value=value)

    def moved(self, x: torch.Tensor, value: float = 0.0) -> tuple[torch.Tensor, list[int]]:
        """The tensor, and the pads that PyTorch's operator adds on both sides."""
        if self.is_even and not self.is_wide:
            return x, self.before
        return self.padded(x, value), [0] * len(self.before)


def _convolution(call: OperatorCall) -> torch.Tensor:
    weight = call.tensor(1)
    window = _Window(call, weight.shape[2:])
    x, pads = window.moved(call.tensor())
    convolve = _axes(_CONVOLUTIONS, weight.dim() - 2)
    groups = call.get("group", 1)
    return convolve(x, weight, call.optional(2), window.strides, pads, window.dilations, groups)


def _transposed(call: OperatorCall) -> torch.Tensor:
    weight = call.tensor(1)
    window = _Window(call, weight.shape[2:])
    if call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or call.get("output_shape") is not None:
        raise FixedExtentsError("its pads depend on the extent")
    if not window.is_even:
        raise FixedExtentsError("its pads differ between the sides")
    further = call.get("output_padding") or [0] * len(window.kernel)
    convolve, groups = _axes(_TRANSPOSED, weight.dim() - 2), call.get("group", 1)
    x, bias = call.tensor(), call.optional(2)
    return convolve(x, weight, bias, window.strides, window.before, further, groups, window.dilations)


def _axes(operators: Mapping[int, Callable[..., torch.Tensor]], axes: int) -> Callable[..., torch.Tensor]:
    if axes not in operators:
        raise FixedExtentsError(f"it has {axes} axes of extents")
    return operators[axes]


def _max_pool(call: OperatorCall) -> torch.Tensor:
    if call.wants(1):
        raise FixedExtentsError("it returns positions")
    window = _Window(call, call.get("kernel_shape"))
    x, pads = window.moved(call.tensor(), float("-inf"))
    rounded_up = bool(call.get("ceil_mode", 0))
    pool = _axes(_MAXIMA, len(window.kernel))
    return pool(x, window.kernel, window.strides, pads, window.dilations, rounded_up)


def _average_pool(call: OperatorCall) -> torch.Tensor:
    window = _Window(call, call.get("kernel_shape"))
    counted = bool(call.get("count_include_pad", 0))
    if (not window.is_even or window.is_wide) and not counted:
        raise FixedExtentsError("its pads differ between the sides, or are over half of its window")
    if any(one != 1 for one in window.dilations):
        raise FixedExtentsError("it is dilated")
    x, pads = window.moved(call.tensor())
    pool = _axes(_AVERAGES, len(window.kernel))
    return pool(x, window.kernel, window.strides, pads, bool(call.get("ceil_mode", 0)), counted)


def _over_all(reduce: Callable[..., torch.Tensor]) -> Convert:
    return lambda call: reduce(call.tensor(), list(range(2, call.tensor().dim())), keepdim=True)


def _resize(call: OperatorCall) -> torch.Tensor:
    """Resizing in the ways that PyTorch has."""
    x = call.tensor()
    factors = [] if call.has(3) else _after_channels(call, call.numbers(2))
    options = _way(call, factors)
    if call.has(3):
        return functional.interpolate(x, size=tuple(_after_channels(call, call.numbers(3))), **options)
    if _are_whole(factors):
        size = tuple(extent * int(one) for extent, one in zip(x.shape[2:], factors, strict=True))
        return functional.interpolate(x, size=size, **options)
    if not all(isinstance(one, int | float) for one in factors):
        raise FixedExtentsError("its factors depend on the extent")
    factors = [float(one) for one in factors]
    return functional.interpolate(x, scale_factor=factors, recompute_scale_factor=False, **options)


def _are_whole(factors: Sequence[Any]) -> bool:
    return bool(factors) and all(isinstance(one, int | float) and float(one).is_integer() for one in factors)


def _after_channels(call: OperatorCall, given: Sequence[Any]) -> list[Any]:
    """Numbers for the axes after the channels."""
    axes = call.get("axes")
    rank = call.tensor().dim()
    if axes is not None:
        if sorted(axis % rank for axis in axes) != list(range(2, rank)):
            raise FixedExtentsError("it resizes other axes than those after the channels")
        return list(given)
    if call.has(3):
        return list(given[2:])
    if any(one != 1 for one in given[:2]):
        raise FixedExtentsError("it resizes the channels")
    return list(given[2:])


def _way(call: OperatorCall, factors: Sequence[Any]) -> dict[str, Any]:
    """PyTorch's options for a way of resizing; `factors` are empty if the sizes are given."""
    mode = call.get("mode", "nearest")
    corners = call.get("coordinate_transformation_mode", "half_pixel")
    if call.get("antialias", 0) or call.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise FixedExtentsError("it is antialiased or keeps the ratio of the sides")
    if mode == "nearest":
        rounding = call.get("nearest_mode", "round_prefer_floor")
        # With a whole factor f, the middle of pixel i of the output lies in pixel i // f.
        middle = corners == "half_pixel" and rounding.startswith("round") and _are_whole(factors)
        if middle or (corners == "asymmetric" and rounding == "floor"):
            return {"mode": "nearest"}
        raise FixedExtentsError("it is nearest, and neither asymmetric nor rounded down")
    names = {
        ("linear", 3): "linear",
        ("linear", 4): "bilinear",
        ("linear", 5): "trilinear",
        ("cubic", 4): "bicubic",
    }
    name = names.get((mode, call.tensor().dim()))
    if name is None or corners not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        raise FixedExtentsError(f"mode={mode}, coordinate_transformation_mode={corners}")
    if mode == "cubic" and abs(call.get("cubic_coeff_a", -0.75) + 0.75) > 1e-6:
        raise FixedExtentsError("cubic_coeff_a is not -0.75")
    return {"mode": name, "align_corners": corners == "align_corners"}


LAYERS: Mapping[str, Convert] = {
    "AveragePool": _average_pool,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "GlobalAveragePool": _over_all(torch.mean),
    "GlobalMaxPool": _over_all(torch.amax),
    "MaxPool": _max_pool,
    "Resize": _resize,
}
"""Conversions by operator."""
