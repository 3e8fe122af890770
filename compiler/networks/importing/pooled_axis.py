"""Pooling over one axis, which PyTorch computes for fixed extents alone, as pooling over two axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class PooledAxis(TorchFunctionMode):
    """Context in which `max_pool1d` keeps symbolic extents."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Calls the function, or pools over a second axis of one element as well."""
        options = dict(kwargs or {})
        if func not in (torch.max_pool1d, functional.max_pool1d) or options.pop("return_indices", False):
            return func(*args, **(kwargs or {}))
        return _pooled(*args, **options)


def _pooled(
    x: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> torch.Tensor:
    kernel, step, pad, apart = (
        one[0] if isinstance(one, list | tuple) and one else one
        for one in (kernel_size, stride or kernel_size, padding, dilation)
    )
    wide = x.unsqueeze(-2)
    pooled = torch.max_pool2d(wide, (1, kernel), (1, step), (0, pad), (1, apart), ceil_mode)
    return pooled.squeeze(-2)
