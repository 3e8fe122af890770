"""Quantised values inside of floating networks, as PyTorch's quantisation-aware training makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_ATEN = torch.ops.aten


def _fake(x: torch.Tensor, scale: Any, zero: Any, low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`x` rounded to one of the numbers (q - zero) * scale, and whether q lies in [low, high]."""
    unlimited = torch.round(x / scale) + zero
    inside = (unlimited >= low) & (unlimited <= high)
    return (unlimited.clamp(low, high) - zero) * scale, inside


def _per_tensor(
    x: torch.Tensor, scale: float, zero: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    return _fake(x, scale, zero, low, high)


def _per_tensor_of_parameters(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, enabled: torch.Tensor, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    found, inside = _fake(x, scale, zero.to(x.dtype), low, high)
    return torch.where(enabled > 0, found, x), inside


def _per_channel(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = [-1 if one == axis % x.dim() else 1 for one in range(x.dim())]
    return _fake(x, scale.reshape(shape), zero.to(x.dtype).reshape(shape), low, high)


def _quantised(
    x: torch.Tensor, scale: Any, zero: Any, low: int, high: int, dtype: torch.dtype
) -> torch.Tensor:
    return (torch.round(x * (1.0 / scale)) + zero).clamp(low, high).to(dtype)


def _dequantised(
    x: torch.Tensor,
    scale: Any,
    zero: Any,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return (x.to(out_dtype or torch.float32) - zero) * scale


def _along(axis: int, rank: int, values: torch.Tensor | None) -> Any:
    """Numbers of the positions of an axis, which broadcast over the others; 0 for None."""
    if values is None:
        return 0
    return values.to(torch.float32).reshape([-1 if one == axis % rank else 1 for one in range(rank)])


def _quantised_channels(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int, *limits: Any
) -> torch.Tensor:
    return _quantised(x, _along(axis, x.dim(), scale), _along(axis, x.dim(), zero), *limits)


def _dequantised_channels(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, axis: int, *limits: Any, **options: Any
) -> torch.Tensor:
    return _dequantised(x, _along(axis, x.dim(), scale), _along(axis, x.dim(), zero), *limits, **options)


FAKE_QUANTISATION: Mapping[Any, Callable[..., Any]] = {
    _ATEN.fake_quantize_per_tensor_affine_cachemask.default: _per_tensor,
    _ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _per_tensor_of_parameters,
    _ATEN.fake_quantize_per_channel_affine_cachemask.default: _per_channel,
}
"""Decompositions of simulated quantisation."""

_EXPORTED = "quantized_decomposed"

EXPORTED_QUANTISATION: Mapping[str, Callable[..., Any]] = {
    f"{_EXPORTED}.quantize_per_tensor.default": _quantised,
    f"{_EXPORTED}.quantize_per_tensor.tensor": _quantised,
    f"{_EXPORTED}.dequantize_per_tensor.default": _dequantised,
    f"{_EXPORTED}.dequantize_per_tensor.tensor": _dequantised,
    f"{_EXPORTED}.quantize_per_channel.default": _quantised_channels,
    f"{_EXPORTED}.dequantize_per_channel.default": _dequantised_channels,
}
"""Decompositions of the operators of exported quantised networks (pt2e), which torchao registers."""
