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


FAKE_QUANTISATION: Mapping[Any, Callable[..., Any]] = {
    _ATEN.fake_quantize_per_tensor_affine_cachemask.default: _per_tensor,
    _ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _per_tensor_of_parameters,
    _ATEN.fake_quantize_per_channel_affine_cachemask.default: _per_channel,
}
"""Decompositions of simulated quantisation."""
