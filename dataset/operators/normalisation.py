"""Softmax and norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import te, topi

from .epilogue import fuse
from .settings import FLOATS, OPAQUE, OperatorSettings

EPSILON = 1e-5
"""What layer norm adds to a variance: PyTorch's default."""


@dataclass(frozen=True, kw_only=True)
class _OverRows(OperatorSettings):
    """Normalises each row of data [rows, columns]; `rows` is what all axes but the last come to."""

    dtypes: ClassVar[tuple[str, ...]] = FLOATS

    rows: int
    columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "rows", "columns")

    @property
    def label(self) -> str:
        return f"{self.rows}x{self.columns}"

    def _data(self) -> te.Tensor:
        return te.placeholder((self.rows, self.columns), dtype=self.dtype, name="data")


@dataclass(frozen=True, kw_only=True)
class Softmax(_OverRows):
    """exp(x - max(x)) / sum(exp(x - max(x))) of each row."""

    operator: ClassVar[str] = "softmax"
    op_pattern: ClassVar[int | None] = OPAQUE

    @property
    def flops(self) -> int:
        """A maximum, difference, sum and quotient of each element; the exponential is left out."""
        return 4 * self.rows * self.columns

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        return [data, topi.nn.softmax(data, axis=-1)]


@dataclass(frozen=True, kw_only=True)
class LayerNorm(_OverRows):
    """(x - mean) / sqrt(variance + 1e-5) * weight + bias of each row; weight and bias are [columns].

    Sums in float32 for float16 too, as PyTorch and Relax do.
    """

    operator: ClassVar[str] = "layer_norm"
    op_pattern: ClassVar[int | None] = OPAQUE

    @property
    def flops(self) -> int:
        """Three for the sums of an element and its square, four to normalise it."""
        return 7 * self.rows * self.columns

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weight, bias = (te.placeholder((self.columns,), self.dtype, name) for name in ("weight", "bias"))
        return [data, weight, bias, topi.nn.layer_norm(data, weight, bias, axis=[1], epsilon=EPSILON)]


@dataclass(frozen=True, kw_only=True)
class BatchNorm(OperatorSettings):
    """Inference: data [batch, channels, height, width] times scale plus shift, both [1, channels, 1, 1].

    The import of a network leaves so much of a batch norm that it cannot fold into a weight.
    """

    operator: ClassVar[str] = "batch_norm"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "relu")
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    op_pattern: ClassVar[int | None] = None

    batch: int
    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "channels", "height", "width")

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.channels * self.height * self.width

    @property
    def label(self) -> str:
        return f"{self.batch}x{self.channels}x{self.height}x{self.width}"

    def tensors(self) -> list[te.Tensor]:
        shape = (self.batch, self.channels, self.height, self.width)
        data = te.placeholder(shape, dtype=self.dtype, name="data")
        channel = (1, self.channels, 1, 1)
        scale, shift = (te.placeholder(channel, self.dtype, name) for name in ("scale", "shift"))
        inputs, output = fuse(topi.add(topi.multiply(data, scale), shift), self.epilogue, channel)
        return [data, scale, shift, *inputs, output]


@dataclass(frozen=True, kw_only=True)
class FrobeniusNorm(OperatorSettings):
    """Root of the sum of squares of each matrix: [batch, rows, columns] -> [batch]."""

    operator: ClassVar[str] = "frobenius_norm"
    dtypes: ClassVar[tuple[str, ...]] = FLOATS
    op_pattern: ClassVar[int | None] = None

    batch: int
    rows: int
    columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "rows", "columns")

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.columns

    @property
    def label(self) -> str:
        return f"{self.batch}x{self.rows}x{self.columns}"

    def tensors(self) -> list[te.Tensor]:
        data = te.placeholder((self.batch, self.rows, self.columns), dtype=self.dtype, name="data")
        row, column = te.reduce_axis((0, self.rows), "i"), te.reduce_axis((0, self.columns), "j")
        squares = te.compute(
            (self.batch,),
            lambda b: te.sum(data[b, row, column] * data[b, row, column], axis=[row, column]),
            name="sum_of_squares",
        )
        return [data, topi.sqrt(squares)]
