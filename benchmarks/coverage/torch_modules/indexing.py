"""Indexing and assignment of elements."""

from __future__ import annotations

from typing import Any

import torch

from .making import MATRIX, Table, booleans, integers, normal, positions

CUBE = normal(3, 4, 5)
ROWS = torch.tensor([2, 0, 1])


def assigned(x: torch.Tensor, where: Any, value: Any) -> torch.Tensor:
    """A copy of `x` after `x[where] = value`."""
    copy = x.clone()
    copy[where] = value
    return copy


TABLE: Table = {
    "first": (lambda x: x[0], CUBE),
    "last": (lambda x: x[-1], CUBE),
    "last_of_inner_axis": (lambda x: x[..., -2], CUBE),
    "range": (lambda x: x[1:3, ::2], CUBE),
    "range_from_the_end": (lambda x: x[:, -3:-1], CUBE),
    "range_beyond_the_end": (lambda x: x[:, 1:100], CUBE),
    "empty_range": (lambda x: x[:, 2:2], CUBE),
    "empty_range_joined": (lambda x: torch.cat([x[:, :0], x], 1), CUBE),
    "new_axis": (lambda x: x[:, None, :, 0], CUBE),
    "ellipsis": (lambda x: x[..., 1:, None], CUBE),
    "list": (lambda x: x[[2, 0]], CUBE),
    "negative_list": (lambda x: x[:, [-1, 0, -2]], CUBE),
    "tensor": (lambda x, i: x[i], CUBE, ROWS),
    "tensor_of_int32": (lambda x, i: x[i], CUBE, ROWS.int()),
    "matrix_of_indices": (lambda x, i: x[i], CUBE, integers(2, 3, high=3)),
    "negative_tensor": (lambda x, i: x[i], CUBE, ROWS - 3),
    "scalar_tensor": (lambda x, i: x[i], CUBE, torch.tensor(1)),
    "adjacent_tensors": (lambda x, i, j: x[:, i, j], CUBE, ROWS, ROWS + 1),
    "diagonal_tensors": (lambda x, i: x[:, i, i], CUBE, ROWS),
    "separated_tensors": (lambda x, i: x[i, :, i], CUBE, ROWS),
    "broadcast_tensors": (lambda x, i, j: x[i[:, None], j[None]], CUBE, ROWS, ROWS),
    "tensor_and_range": (lambda x, i: x[i, 1:3], CUBE, ROWS),
    "tensor_and_number": (lambda x, i: x[i, 1], CUBE, ROWS),
    "range_and_tensor_last": (lambda x, i: x[:, :, i], CUBE, ROWS),
    "batch_and_position": (lambda x, i: x[torch.arange(3), i], CUBE, ROWS),
    "last_token": (lambda x, n: x[torch.arange(x.shape[0]), n - 1], CUBE, torch.tensor([4, 2, 1])),
    "mask": (lambda x, m: x[m], MATRIX, booleans(4, 5)),
    "mask_of_constants": (lambda x: x[torch.tensor([True, False, True])], CUBE),
    "select": (lambda x: x.select(1, -1), CUBE),
    "narrow": (lambda x: x.narrow(1, 1, 2), CUBE),
    "index_select": (lambda x, i: x.index_select(1, i), CUBE, ROWS),
    "take": (lambda x, i: x.take(i), MATRIX, integers(3, 2, high=20)),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), MATRIX, integers(4, 2, high=5)),
    "assign_row": (lambda x: assigned(x, 1, 0.0), MATRIX),
    "assign_last_column": (lambda x, v: assigned(x, (slice(None), -1), v), MATRIX, normal(4)),
    "assign_range": (lambda x, v: assigned(x, (slice(1, 3), slice(None, None, 2)), v), MATRIX, normal(2, 3)),
    "assign_tensor": (lambda x, i, v: assigned(x, i, v), CUBE, ROWS, normal(3, 4, 5, seed=1)),
    "assign_columns": (lambda x, i, v: assigned(x, (slice(None), i), v), CUBE, ROWS, normal(3, 3, 5)),
    "assign_broadcast": (lambda x, i: assigned(x, (i, i), torch.tensor(3.0)), CUBE, ROWS),
    "assign_mask": (lambda x: assigned(x, x > 0, 0.0), MATRIX),
    "assign_mask_of_rows": (lambda x, m: assigned(x, m, -1.0), MATRIX, booleans(4)),
    "assign_mask_of_tensor": (lambda x: assigned(x, x < 0, torch.tensor(2.0)), MATRIX),
    "assign_mask_of_values": (lambda x, v: assigned(x, x > 0, v[x > 0]), MATRIX, normal(4, 5, seed=2)),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), MATRIX, booleans(4, 5)),
    "masked_select": (lambda x, m: x.masked_select(m), MATRIX, booleans(4, 5)),
    "index_fill": (lambda x, i: x.index_fill(0, i, 7.0), MATRIX, ROWS),
    "index_copy": (lambda x, i, v: x.index_copy(1, i, v), CUBE, ROWS, normal(3, 3, 5)),
    "index_add": (lambda x, i, v: x.index_add(0, i, v, alpha=2), CUBE, ROWS, normal(3, 4, 5, seed=1)),
    "index_put": (lambda x, i, v: x.index_put((i,), v), CUBE, ROWS, normal(3, 4, 5, seed=1)),
    "index_put_sum": (
        lambda x, v: x.index_put((torch.tensor([0, 0, 2]),), v, accumulate=True),
        CUBE,
        normal(3, 4, 5, seed=1),
    ),
    "select_scatter": (lambda x, v: torch.select_scatter(x, v, 0, -1), MATRIX, normal(5)),
    "slice_scatter": (lambda x, v: torch.slice_scatter(x, v, 0, 1, 3), MATRIX, normal(2, 5)),
    "diagonal_scatter": (lambda x, v: torch.diagonal_scatter(x, v), MATRIX, normal(4)),
    "nonzero": (lambda x: torch.nonzero(x > 0), MATRIX),
    "where_of_one": (lambda x: torch.where(x > 0), MATRIX),
    "random_rows": (lambda x, i: x[i].sum(0), normal(9, 4), positions(4, 9)),
}
