"""Indices that are tensors of one number, which torch.export would read as numbers and then refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class ScalarIndices(TorchFunctionMode):
    """Context in which `x[i]` with an integer tensor `i` of no axes selects by a tensor."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Calls the function, with other arguments if it is such an index."""
        if func is torch.Tensor.__getitem__:
            x, index = args
            args = _selected(x, index if isinstance(index, tuple) else (index,)) or args
        return func(*args, **(kwargs or {}))


def _selected(x: torch.Tensor, index: tuple[Any, ...]) -> tuple[torch.Tensor, Any] | None:
    """The tensor with one position on each axis of such an index, and an index with 0 in its place.

    None for indices without any, and for those that have other tensors or move axes.
    """
    scalars = [axis for axis, one in enumerate(index) if _is_scalar(one)]
    plain = all(isinstance(one, int | slice) for axis, one in enumerate(index) if axis not in scalars)
    if not scalars or not plain:
        return None
    for axis in scalars:
        position = torch.remainder(index[axis].reshape(1).to(torch.int64), x.shape[axis])
        x = x.index_select(axis, position)
    return x, tuple(0 if axis in scalars else one for axis, one in enumerate(index))


def _is_scalar(index: Any) -> bool:
    whole = (
        isinstance(index, torch.Tensor) and not index.is_floating_point() and index.dtype is not torch.bool
    )
    return whole and index.dim() == 0
