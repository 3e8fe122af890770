"""Matrix product that linear layers and batches of products share."""

from __future__ import annotations

from tvm import te

from .tir import TirFunction

NAME = "matmul"
"""Name that Relax gives to a product."""

TRANSPOSED = "NT_"
"""Prefix of the name where Relax fuses a transpose of the right matrix into the product."""


def is_matmul(function: TirFunction) -> bool:
    """Whether the function's anchor is a matrix product."""
    return NAME in function.anchor.name_hint


def matmul(left: te.Tensor, right: te.Tensor, out_dtype: str, transpose_right: bool = False) -> te.Tensor:
    """[..., m, k] x [..., k, n], or [..., n, k] if that is transposed -> [..., m, n]."""
    k = te.reduce_axis((0, left.shape[-1]), name="k")
    columns = right.shape[-2 if transpose_right else -1]

    def product(*indices: te.Var) -> te.PrimExpr:
        *batch, row, column = indices
        right_indices = (column, k) if transpose_right else (k, column)
        factor = left(*batch, row, k).astype(out_dtype)
        return te.sum(factor * right(*batch, *right_indices).astype(out_dtype), axis=k)

    name = f"{TRANSPOSED}{NAME}" if transpose_right else NAME
    return te.compute([*left.shape[:-1], columns], product, name=name)
