"""Softmax and norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm import te, topi

from .epilogue import fuse
from .settings import FLOATS, OperatorSettings

EPSILON = 1e-5
"""What is added to a variance: PyTorch's default."""


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

    @property
    def flops(self) -> int:
        """Three an element for the sums of it and of its square, eight to normalise it.

        The naive loop nest derives the mean and variance from the sums at each element again.
        """
        return 11 * self.rows * self.columns

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weight, bias = (te.placeholder((self.columns,), self.dtype, name) for name in ("weight", "bias"))
        return [data, weight, bias, topi.nn.layer_norm(data, weight, bias, axis=[1], epsilon=EPSILON)]


@dataclass(frozen=True, kw_only=True)
class BatchNorm(OperatorSettings):
    """Normalises each channel by its mean and variance: data [batch, channels, height, width].

    Weight and bias are [channels]. This is what runs in training, or where a network keeps no statistics;
    with kept ones a batch norm folds into a weight or is element-wise, which leaves nothing to decide. Sums
    in float32 for float16 too, as PyTorch does.
    """

    operator: ClassVar[str] = "batch_norm"
    epilogues: ClassVar[tuple[str, ...]] = ("none", "relu")
    dtypes: ClassVar[tuple[str, ...]] = FLOATS

    batch: int
    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "channels", "height", "width")

    @property
    def op_pattern(self) -> int | None:
        return None

    @property
    def flops(self) -> int:
        """Four an element for the sums of it and of its squared difference, five to normalise it."""
        return 9 * self.batch * self.channels * self.height * self.width

    @property
    def label(self) -> str:
        return f"{self.batch}x{self.channels}x{self.height}x{self.width}"

    def tensors(self) -> list[te.Tensor]:
        shape = (self.batch, self.channels, self.height, self.width)
        data = te.placeholder(shape, dtype=self.dtype, name="data")
        weight, bias, *kept = (
            te.placeholder((self.channels,), dtype=self.dtype, name=name)
            for name in ("weight", "bias", "mean", "variance")
        )
        wide = [x if self.dtype == "float32" else topi.cast(x, "float32") for x in (data, weight, bias)]
        # The kept statistics are what training updates; the output does not read them.
        output, *_ = topi.nn.batch_norm(*wide, *kept, axis=1, epsilon=EPSILON, training=True)
        output = output if self.dtype == "float32" else topi.cast(output, self.dtype)
        inputs, output = fuse(output, self.epilogue, (self.channels,))
        return [data, weight, bias, *inputs, output]


@dataclass(frozen=True, kw_only=True)
class FrobeniusNorm(OperatorSettings):
    """Root of the sum of squares of each matrix: [batch, rows, columns] -> [batch]."""

    operator: ClassVar[str] = "frobenius_norm"
    dtypes: ClassVar[tuple[str, ...]] = FLOATS

    batch: int
    rows: int
    columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "batch", "rows", "columns")

    @property
    def op_pattern(self) -> int | None:
        return None

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
