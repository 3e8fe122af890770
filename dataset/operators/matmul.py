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
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu", "bias_gelu")

    rows: int
    in_features: int
    out_features: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "rows", "in_features", "out_features")

    def tensors(self) -> list[te.Tensor]:
        data = te.placeholder((self.rows, self.in_features), dtype=self.dtype, name="data")
        weight = te.placeholder((self.in_features, self.out_features), dtype=self.dtype, name="weight")
        inputs, output = fuse(_matmul(data, weight), self.epilogue, (self.out_features,))
        return [data, weight, *inputs, output]

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.in_features * self.out_features

    @property
    def label(self) -> str:
        return f"{self.rows}x{self.in_features}x{self.out_features}"


@dataclass(frozen=True, kw_only=True)
class BatchMatmul(OperatorSettings):
    """One product a pair of matrices: [batch, rows, inner] x [batch, inner, columns], as attention has."""

    operator: ClassVar[str] = "batch_matmul"
    epilogues: ClassVar[tuple[str, ...]] = ("none",)

    batch: int
    rows: int
    inner: int
    columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "rows", "inner", "columns")

    def tensors(self) -> list[te.Tensor]:
        left = te.placeholder((self.batch, self.rows, self.inner), dtype=self.dtype, name="left")
        right = te.placeholder((self.batch, self.inner, self.columns), dtype=self.dtype, name="right")
        return [left, right, _matmul(left, right)]

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.inner * self.columns

    @property
    def label(self) -> str:
        return f"{self.batch}x{self.rows}x{self.inner}x{self.columns}"


def _matmul(left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """[..., m, k] x [..., k, n] -> [..., m, n]."""
    k = te.reduce_axis((0, left.shape[-1]), name="k")

    def product(*indices: te.Var) -> te.PrimExpr:
        *batch, row, column = indices
        return te.sum(left(*batch, row, k) * right(*batch, k, column), axis=k)

    return te.compute([*left.shape[:-1], right.shape[-1]], product, name="matmul")
