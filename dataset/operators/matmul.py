"""Matrix products: a linear layer and a batch of products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import te

from .epilogue import fuse
from .settings import OperatorSettings


@dataclass(frozen=True, kw_only=True)
class Dense(OperatorSettings):
    """Linear layer: data [rows, in_features], weight [in_features, out_features], bias [out_features].

    PyTorch keeps the weight transposed; import folds the transpose of a constant, so tasks have it this way.
    `rows` is what a network's batch and sequence length come to.
    """

    operator: ClassVar[str] = "dense"
    packable: ClassVar[bool] = True
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_gelu", "bias_add", "relu")

    rows: int
    in_features: int
    out_features: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "rows", "in_features", "out_features")

    def tensors(self) -> list[te.Tensor]:
        data = te.placeholder((self.rows, self.in_features), dtype=self.dtype, name="data")
        weight = te.placeholder((self.in_features, self.out_features), dtype=self.dtype, name="weight")
        inputs, output = fuse(_matmul(data, weight, self.accumulator), self.epilogue, (self.out_features,))
        return [data, weight, *inputs, output]

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.in_features * self.out_features

    @property
    def label(self) -> str:
        return f"{self.rows}x{self.in_features}x{self.out_features}"


@dataclass(frozen=True, kw_only=True)
class BatchMatmul(OperatorSettings):
    """One product a pair of matrices: [batch, rows, inner] x [batch, inner, columns], as attention has.

    With `transpose_right` the second is [batch, columns, inner], as the keys that attention's queries meet.
    """

    operator: ClassVar[str] = "batch_matmul"
    epilogues: ClassVar[tuple[str, ...]] = ("none",)

    batch: int
    rows: int
    inner: int
    columns: int
    transpose_right: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "rows", "inner", "columns")
        self._check_choice("transpose_right", (False, True))

    def tensors(self) -> list[te.Tensor]:
        left = te.placeholder((self.batch, self.rows, self.inner), dtype=self.dtype, name="left")
        matrix = (self.columns, self.inner) if self.transpose_right else (self.inner, self.columns)
        right = te.placeholder((self.batch, *matrix), dtype=self.dtype, name="right")
        return [left, right, _matmul(left, right, self.accumulator, self.transpose_right)]

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns

    @property
    def label(self) -> str:
        transposed = "_nt" if self.transpose_right else ""
        return f"{self.batch}x{self.rows}x{self.inner}x{self.columns}{transposed}"


def _matmul(left: te.Tensor, right: te.Tensor, out_dtype: str, transpose_right: bool = False) -> te.Tensor:
    """[..., m, k] x [..., k, n], or [..., n, k] if that is transposed -> [..., m, n]."""
    k = te.reduce_axis((0, left.shape[-1]), name="k")
    columns = right.shape[-2 if transpose_right else -1]

    def product(*indices: te.Var) -> te.PrimExpr:
        *batch, row, column = indices
        right_indices = (column, k) if transpose_right else (k, column)
        factor = left(*batch, row, k).astype(out_dtype)
        return te.sum(factor * right(*batch, *right_indices).astype(out_dtype), axis=k)

    # The names that Relax gives: its pass that fuses a transpose into a product calls it NT_matmul.
    name = "NT_matmul" if transpose_right else "matmul"
    return te.compute([*left.shape[:-1], columns], product, name=name)
