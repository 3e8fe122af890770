"""Statistics, diagonals and convolutions of tensors in other layouts as products and assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_ATEN = torch.ops.aten


def _covariance(
    x: torch.Tensor, *, correction: int = 1, fweights: torch.Tensor | None = None, aweights: Any = None
) -> torch.Tensor:
    """Covariances of the rows."""
    if fweights is not None or aweights is not None:
        return NotImplemented
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    centred = rows - rows.mean(1, keepdim=True)
    found = centred @ centred.T / (rows.shape[1] - correction)
    return found.reshape(()) if x.dim() < 2 else found


def _correlation(x: torch.Tensor) -> torch.Tensor:
    """Correlations of the rows, in [-1, 1]."""
    if x.dim() < 2:
        return NotImplemented
    covariance = _covariance(x)
    deviation = covariance.diagonal().sqrt()
    return (covariance / deviation[:, None] / deviation[None]).clamp(-1, 1)


def _diagonal_scatter(
    x: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    """The tensor with another diagonal."""
    count = source.shape[-1]
    steps = torch.arange(count)
    rows, columns = steps + max(-offset, 0), steps + max(offset, 0)
    moved = x.movedim((dim1, dim2), (-2, -1))
    indices: list[torch.Tensor | None] = [None] * (x.dim() - 2) + [rows, columns]
    return _ATEN.index_put.default(moved, indices, source).movedim((-2, -1), (dim1, dim2))


def _convolution_of_time_first(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, padding: int = 0
) -> torch.Tensor:
    """`conv_tbc`: x is (time, batch, channels), the weight (width, inner, outer)."""
    found = torch.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=padding)
    return found.permute(2, 0, 1)


def _triangular_solution(
    a: torch.Tensor, b: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> torch.Tensor:
    """Row after row of `a @ x = b`, for up to MOST_ROWS rows."""
    count = a.shape[-1]
    if not left or count > MOST_ROWS:
        return NotImplemented
    rows: list[Any] = [None] * count
    for row in reversed(range(count)) if upper else range(count):
        found = b[..., row, :]
        for other in range(row + 1, count) if upper else range(row):
            found = found - a[..., row, other, None] * rows[other]
        rows[row] = found if unitriangular else found / a[..., row, row, None]
    return torch.stack(rows, -2)


def _summed_products(
    bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """`addbmm`: the sum of the products of a batch and a bias."""
    found = torch.bmm(left, right).sum(0)
    found = found if alpha == 1 else found * alpha
    return found if beta == 0 else found + (bias if beta == 1 else bias * beta)


def _integer_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A product of integer matrices as a sum: TVM's importer makes float32 of it."""
    if left.is_floating_point():
        return NotImplemented
    return (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2).to(left.dtype)


def _trilinear(
    first: torch.Tensor,
    second: torch.Tensor,
    third: torch.Tensor,
    axes_1: Sequence[int],
    axes_2: Sequence[int],
    axes_3: Sequence[int],
    summed: Sequence[int],
    unrolled: int = 1,
) -> torch.Tensor:
    """The sum of the products of three tensors, each with new axes, as `nn.Bilinear` has them."""
    wide = []
    for one, axes in ((first, axes_1), (second, axes_2), (third, axes_3)):
        for axis in axes:
            one = one.unsqueeze(axis)
        wide.append(one)
    return (wide[0] * wide[1] * wide[2]).sum(list(summed))


def _distances_of_pairs(x: torch.Tensor, p: float = 2) -> torch.Tensor:
    """Distances of all pairs of different rows."""
    rows, columns = torch.triu_indices(x.shape[0], x.shape[0], 1)
    gap = x.index_select(0, rows) - x.index_select(0, columns)
    return torch.linalg.vector_norm(gap, p, -1)


MOST_ROWS = 16
"""Rows up to which a triangular system is solved row after row."""

LINEAR_ALGEBRA: Mapping[Any, Callable[..., Any]] = {
    _ATEN.cov.default: _covariance,
    _ATEN.corrcoef.default: _correlation,
    _ATEN.diagonal_scatter.default: _diagonal_scatter,
    _ATEN.addbmm.default: _summed_products,
    _ATEN.mm.default: _integer_product,
    _ATEN.bmm.default: _integer_product,
    _ATEN._trilinear.default: _trilinear,
    _ATEN._pdist_forward.default: _distances_of_pairs,
    _ATEN.conv_tbc.default: _convolution_of_time_first,
    _ATEN.linalg_solve_triangular.default: _triangular_solution,
}
"""Decompositions of statistics and linear algebra."""
