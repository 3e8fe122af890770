"""Products of groups of rows with a matrix for each group, as experts of a mixture compute them.

The rows of a group depend on data. A compiled network has fixed shapes, so each row is multiplied by all
matrices, and one product is kept: as many times the work as there are experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_ATEN = torch.ops.aten


def grouped_product(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Products of rows [n, k], sorted by group, with the weights [groups, k, m] of their group: [n, m].

    `ends` are the cumulative sizes of the groups [groups]. Rows after the last group become 0.
    """
    products = rows[None] @ weights
    position = torch.arange(rows.shape[0], device=rows.device)[None, :]
    starts = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])
    inside = (position >= starts[:, None]) & (position < ends[:, None])
    return torch.where(inside[:, :, None], products, torch.zeros_like(products)).sum(0)


def _grouped_mm(
    rows: torch.Tensor, weights: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """PyTorch's operator, in the form that mixtures of experts use."""
    if offs is None or bias is not None or out_dtype is not None or rows.dim() != 2 or weights.dim() != 3:
        return NotImplemented
    return grouped_product(rows, weights, offs)


GROUPED_PRODUCTS: dict[Any, Callable[..., Any]] = {_ATEN._grouped_mm.default: _grouped_mm}
"""Functions of PyTorch's operators."""

OTHER_LIBRARIES: Mapping[str, Callable[..., Any]] = {
    "transformers.grouped_mm_fallback.default": grouped_product
}
"""Functions by the name of an operator that exists only after its library was imported."""
