"""Operator settings of one call of PyTorch's operator library, from its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from ..operators import (
    BatchMatmul,
    BatchNorm,
    Conv1d,
    Conv2d,
    Conv3d,
    Dense,
    DepthwiseConv2d,
    FrobeniusNorm,
    GroupConv2d,
    GroupConv3d,
    GroupNorm,
    LayerNorm,
    OperatorSettings,
    Pool2d,
    Reduction,
    Softmax,
    TransposedConv1d,
    TransposedConv2d,
)

aten = torch.ops.aten

BATCH_NORMS = {aten.native_batch_norm, aten._native_batch_norm_legit_no_training, aten.cudnn_batch_norm}


class NotDescribedError(Exception):
    """A call that no settings class describes; the message is a short reason."""


def _convolution(
    data: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> OperatorSettings:
    batch, in_channels, *size = data.shape
    axes = len(size)
    names = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}[axes]

    def window(extents: Iterable[int]) -> Any:
        values = tuple(extents)
        values *= axes if len(values) == 1 else 1  # one number stands for all axes
        return values[0] if axes == 1 else values

    common: dict[str, Any] = {
        "batch": batch,
        "in_channels": in_channels,
        **dict(zip(names, size, strict=True)),
        "kernel": window(weight.shape[2:]),
        "stride": window(stride),
        "padding": window(padding),
        "epilogue": "none" if bias is None else "bias",
    }
    if transposed:
        if axes == 3 or groups > 1 or max(dilation) > 1:
            raise NotDescribedError("grouped, dilated or 3-D transposed convolution")
        transposed_class = TransposedConv1d if axes == 1 else TransposedConv2d
        extra = {"out_channels": weight.shape[1], "output_padding": window(output_padding)}
        return transposed_class(**common, **extra)
    common["dilation"] = window(dilation)
    out_channels = weight.shape[0]
    if axes == 1:
        return Conv1d(**common, out_channels=out_channels, groups=groups)
    if axes == 3:
        if groups > 1:
            return GroupConv3d(**common, out_channels=out_channels, groups=groups)
        return Conv3d(**common, out_channels=out_channels)
    if groups == in_channels == out_channels > 1:
        return DepthwiseConv2d(**common)
    if groups > 1:
        return GroupConv2d(**common, out_channels=out_channels, groups=groups)
    return Conv2d(**common, out_channels=out_channels)


def _dense(data: torch.Tensor, weight: torch.Tensor, epilogue: str = "none") -> OperatorSettings:
    rows, in_features = data.shape
    return Dense(rows=rows, in_features=in_features, out_features=weight.shape[1], epilogue=epilogue)


def _addmm(bias: torch.Tensor, data: torch.Tensor, weight: torch.Tensor, **scales: Any) -> OperatorSettings:
    return _dense(data, weight, "bias" if bias.dim() == 1 else "none")


def _batch_matmul(left: torch.Tensor, right: torch.Tensor) -> OperatorSettings:
    batch, rows, inner = left.shape
    columns = right.shape[2]
    # Attention meets keys that are stored a row a token; the product sees them through a transposed view.
    transposed = right.stride(1) == 1 and right.stride(2) >= inner > 1 and columns > 1
    return BatchMatmul(batch=batch, rows=rows, inner=inner, columns=columns, transpose_right=transposed)


def _baddbmm(added: torch.Tensor, left: torch.Tensor, right: torch.Tensor, **scales: Any) -> OperatorSettings:
    return _batch_matmul(left, right)


def _softmax(data: torch.Tensor, axis: int, half_to_float: bool) -> OperatorSettings:
    if axis % data.dim() != data.dim() - 1:
        raise NotDescribedError("softmax over another axis than the last")
    columns = data.shape[-1]
    return Softmax(rows=data.numel() // columns, columns=columns)


def _layer_norm(data: torch.Tensor, normalised: Sequence[int], *rest: Any) -> OperatorSettings:
    columns = prod(normalised)
    return LayerNorm(rows=data.numel() // columns, columns=columns)


def _batch_norm(data: torch.Tensor, *rest: Any) -> OperatorSettings:
    if data.dim() != 4:
        raise NotDescribedError("batch norm of its own that is not over images")
    batch, channels, height, width = data.shape
    return BatchNorm(batch=batch, channels=channels, height=height, width=width)


def _group_norm(
    data: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    *rest: Any,
) -> OperatorSettings:
    if data.dim() != 4:
        raise NotDescribedError("group norm that is not over images")
    height, width = data.shape[2:]
    return GroupNorm(batch=batch, channels=channels, groups=groups, height=height, width=width)


def _pool2d(mode: str) -> Callable[..., OperatorSettings]:
    def read(
        data: torch.Tensor, kernel: Sequence[int], stride: Sequence[int] = (), padding: Any = 0, *rest: Any
    ) -> OperatorSettings:
        if mode == "max" and rest and max(_pair(rest[0])) > 1:
            raise NotDescribedError("dilated pooling")
        # Without a stride the windows lie side by side.
        return _pool(data, mode, _pair(kernel), _pair(stride or kernel), _pair(padding))

    return read


def _adaptive_pool2d(mode: str) -> Callable[..., OperatorSettings]:
    def read(data: torch.Tensor, size: Sequence[int]) -> OperatorSettings:
        if any(extent % pieces for extent, pieces in zip(data.shape[-2:], size, strict=True)):
            raise NotDescribedError("adaptive pooling with windows of different sizes")
        height, width = (extent // pieces for extent, pieces in zip(data.shape[-2:], size, strict=True))
        return _pool(data, mode, (height, width), (height, width), (0, 0))

    return read


def _pool(
    data: torch.Tensor, mode: str, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
) -> OperatorSettings:
    batch, channels, height, width = (1,) * (4 - data.dim()) + tuple(data.shape)
    if kernel == (height, width):
        stride = (1, 1)  # of a single window, as the settings' default
    size: dict[str, Any] = {"batch": batch, "channels": channels, "height": height, "width": width}
    return Pool2d(**size, kernel=kernel, stride=stride, padding=padding, mode=mode)


def _pair(value: Any) -> tuple[int, int]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values[0], values[-1]


def _reduction(mode: str) -> Callable[..., OperatorSettings]:
    def read(
        data: torch.Tensor, axes: Sequence[int] | int | None = None, *rest: Any, **options: Any
    ) -> OperatorSettings:
        outer, reduced, inner = _split(data, axes)
        if mode == "mean" and inner == 1 and data.dim() == 4 and reduced == data.shape[2] * data.shape[3]:
            height, width = data.shape[2:]
            return _pool(data, "avg", (height, width), (1, 1), (0, 0))
        if inner == 1:
            return Reduction(rows=outer, columns=reduced, mode=mode, axis=1)
        if outer == 1:
            return Reduction(rows=reduced, columns=inner, mode=mode, axis=0)
        raise NotDescribedError("reduction over an axis in the middle")

    return read


def _vector_norm(
    data: torch.Tensor, order: float = 2, axes: Sequence[int] | None = None, *rest: Any, **options: Any
) -> OperatorSettings:
    outer, reduced, inner = _split(data, axes)
    if order != 2 or inner > 1:
        raise NotDescribedError("norm of another order or over another axis than the last")
    columns = data.shape[-1]
    return FrobeniusNorm(batch=outer, rows=reduced // columns, columns=columns)


def _split(data: torch.Tensor, axes: Sequence[int] | int | None) -> tuple[int, int, int]:
    """Elements before, along and behind the reduced axes, which must lie side by side."""
    given = (axes,) if isinstance(axes, int) else tuple(axes or range(data.dim()))
    reduced = sorted(axis % data.dim() for axis in given)
    first, last = reduced[0], reduced[-1]
    if len(reduced) != last - first + 1:
        raise NotDescribedError("reduction over axes that are apart")
    shape = data.shape
    return prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])


READERS: Mapping[Any, Callable[..., OperatorSettings]] = {
    aten.convolution: _convolution,
    aten.mm: _dense,
    aten.addmm: _addmm,
    aten.bmm: _batch_matmul,
    aten.baddbmm: _baddbmm,
    aten._softmax: _softmax,
    aten.native_layer_norm: _layer_norm,
    aten.native_group_norm: _group_norm,
    **dict.fromkeys(BATCH_NORMS, _batch_norm),
    aten.max_pool2d_with_indices: _pool2d("max"),
    aten.avg_pool2d: _pool2d("avg"),
    aten._adaptive_avg_pool2d: _adaptive_pool2d("avg"),
    aten.adaptive_max_pool2d: _adaptive_pool2d("max"),
    aten.mean: _reduction("mean"),
    aten.sum: _reduction("sum"),
    aten.amax: _reduction("max"),
    aten.linalg_vector_norm: _vector_norm,
}
"""By operator, what reads the arguments of a call; raises NotDescribedError or SettingsError."""
