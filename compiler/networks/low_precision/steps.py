"""Values in steps of a scale, as quantised networks have them, and sums of their products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from ...types import INT8, data_type

RANGES = {name: data_type(name).range for name in data_type(INT8).factors}
"""Smallest and largest value by data type."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The value scale * (data - zero_point)."""

    data: Any
    """Relax expression of integers."""
    scale: NDArray[np.float32]
    """[] for the whole array, or [channels]."""
    zero_point: NDArray[np.int64]
    """Like `scale`."""
    axis: int
    """Axis of the channels."""

    @classmethod
    def of(cls, data: Any, parameters: Sequence[Any], axis: int) -> Steps | None:
        """From the arguments of `quantize` or `dequantize`; None where scale or zero point are computed."""
        if not all(isinstance(parameter, tvm.ir.GenericConst) for parameter in parameters):
            return None
        scale, zero = (parameter.value.numpy() for parameter in parameters)
        if scale.dtype != np.float32 or zero.dtype.kind not in "iu":
            return None
        scale, zero = (array.reshape(()) if array.size == 1 else array for array in (scale, zero))
        shape = np.broadcast_shapes(scale.shape, zero.shape)
        if len(shape) > 1:
            return None
        return cls(
            data, np.broadcast_to(scale, shape), np.broadcast_to(zero.astype(np.int64), shape), int(axis)
        )

    @property
    def whole(self) -> bool:
        """Whether the whole array has one scale."""
        return self.scale.ndim == 0

    @property
    def values(self) -> NDArray[Any] | None:
        """Integers of a constant, None for computed values."""
        return self.data.value.numpy() if isinstance(self.data, tvm.ir.GenericConst) else None

    def same_grid(self, other: Steps) -> bool:
        """Whether another has the same scale and zero point."""
        return (
            (self.whole or self.axis == other.axis)
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def of_data(self, data: Any) -> Steps:
        """The same steps of other integers."""
        return replace(self, data=data)

    def signed(self) -> Steps | None:
        """In int8; uint8 constants are shifted by 128. None where that is not possible."""
        if str(self.data.ty.dtype) == INT8:
            return self
        if str(self.data.ty.dtype) != "uint8" or self.values is None:
            return None
        shifted = (self.values.astype(np.int16) - 128).astype(np.int8)
        return replace(self, data=relax.const(shifted, INT8), zero_point=self.zero_point - 128)

    def dequantised(self) -> NDArray[np.float32]:
        """float32 values of a constant."""
        values = self.values
        assert values is not None
        zero, scale = (along(array, self.axis, values.ndim) for array in (self.zero_point, self.scale))
        return ((values.astype(np.int64) - zero).astype(np.float32) * scale).astype(np.float32)

    def transposed(self, axes: Sequence[int] | None) -> Steps:
        """A constant with its axes in another order, reversed by default."""
        assert self.values is not None
        rank = self.values.ndim
        order = list(range(rank))[::-1] if axes is None else [axis % rank for axis in axes]
        turned = np.ascontiguousarray(self.values.transpose(order))
        axis = self.axis if self.whole else order.index(self.axis % rank)
        return replace(self, data=relax.const(turned, str(turned.dtype)), axis=axis)

    def reshaped(self, shape: Sequence[int]) -> Steps | None:
        """A constant of another shape; None if the channels do not stay an axis."""
        assert self.values is not None
        values = self.values.reshape(list(shape))
        axis = self.axis
        if not self.whole:
            if self.values.ndim != 1 or values.size not in values.shape:
                return None
            axis = values.shape.index(values.size)
        return replace(self, data=relax.const(values, str(values.dtype)), axis=axis)

    def in_float(self, builder: relax.BlockBuilder) -> Any:
        """Expression of the float32 value."""
        if self.values is not None:
            return constant(self.dequantised())
        rank = len(self.data.ty.shape)
        value = builder.emit(relax.op.astype(self.data, "float32"))
        if self.zero_point.any():
            value = builder.emit(relax.op.subtract(value, constant(along(self.zero_point, self.axis, rank))))
        return builder.emit(relax.op.multiply(value, constant(along(self.scale, self.axis, rank))))

    def rounded(self, builder: relax.BlockBuilder, scaled: Any, dtype: str) -> Any:
        """Integers of a value that is given in units of the scale, ties to even as in ONNX."""
        rank = len(scaled.ty.shape)
        value = builder.emit(relax.op.round(scaled))
        if self.zero_point.any():
            value = builder.emit(relax.op.add(value, constant(along(self.zero_point, self.axis, rank))))
        value = builder.emit(relax.op.clip(value, *RANGES[dtype]))
        return builder.emit(relax.op.astype(value, dtype))


@dataclass(frozen=True, eq=False)
class Affine:
    """The value factor * sums + summand, with one factor and one summand for each channel."""

    builder: relax.BlockBuilder
    sums: Any
    """float32 expression of complete sums of products."""
    factor: NDArray[np.float64]
    """[channels]."""
    summand: NDArray[np.float64]
    """[channels]."""
    axis: int

    @classmethod
    def of(
        cls,
        builder: relax.BlockBuilder,
        sums: Any,
        data: Steps,
        weight: Steps,
        columns: NDArray[Any],
        axis: int,
    ) -> Affine:
        """The value of a product of `data` and `weight`, whose int32 sums are given.

        `columns` [channels] are the sums of the weights of each channel.
        """
        factor = np.broadcast_to(float(data.scale) * weight.scale.astype(np.float64), columns.shape)
        summand = -int(data.zero_point) * columns * factor
        return cls(builder, builder.emit(relax.op.astype(sums, "float32")), factor, summand, axis)

    def plus(self, values: NDArray[Any]) -> Affine | None:
        """With a constant added; None for one that differs along other axes."""
        rank, channels = len(self.sums.ty.shape), len(self.factor)
        if values.ndim > rank:
            return None
        shape = [1] * (rank - values.ndim) + list(values.shape)
        expected = [1] * rank
        expected[self.axis] = channels
        if shape != expected and values.size != 1:
            return None
        return replace(self, summand=self.summand + values.astype(np.float64).reshape(-1))

    def scaled(self, by: float) -> Any:
        """Expression of the value times a number."""
        rank = len(self.sums.ty.shape)
        factor, summand = (along(array * by, self.axis, rank) for array in (self.factor, self.summand))
        value = self.builder.emit(relax.op.multiply(self.sums, constant(factor)))
        if summand.any():
            value = self.builder.emit(relax.op.add(value, constant(summand)))
        return value

    def in_float(self, _: relax.BlockBuilder) -> Any:
        """Expression of the float32 value."""
        return self.scaled(1.0)


def along(values: NDArray[Any], axis: int, rank: int) -> NDArray[Any]:
    """Values of channels, or one for all, in a shape that broadcasts along an axis of `rank`."""
    shape = [1] * rank
    if values.ndim:
        shape[axis] = -1
    return values.reshape(shape)


def constant(values: NDArray[Any]) -> Any:
    """float32 constant."""
    return relax.const(np.ascontiguousarray(values, np.float32), "float32")
