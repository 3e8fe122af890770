"""Capsule convolution: a convolution whose elements are small matrices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from tvm import te, topi

from .settings import Pair
from .window import SlidingWindow


@dataclass(frozen=True, kw_only=True)
class CapsuleConv2d(SlidingWindow):
    """Sums products of matrices where a convolution sums products of numbers (Hinton et al., ICLR 2018).

    With capsules of `capsule_size` c: data [batch, height, width, c, c, in_channels], weight
    [kh, kw, c, c, in_channels, out_channels], output [batch, rows, columns, c, c, out_channels].
    """

    operator: ClassVar[str] = "capsule_conv2d"
    axes: ClassVar[tuple[str, ...]] = ("height", "width")
    window_fields: ClassVar[tuple[str, ...]] = ("kernel", "stride", "padding")
    layouts: ClassVar[tuple[str, ...]] = ("NHWC",)

    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    capsule_size: int = 4
    layout: str = "NHWC"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "in_channels", "out_channels", "capsule_size")

    @property
    def op_pattern(self) -> int | None:
        return None

    @property
    def data_channels(self) -> int:
        return self.in_channels

    @property
    def flops(self) -> int:
        outputs = self.batch * prod(self.output_size) * self.capsule_size**2 * self.out_channels
        return 2 * outputs * prod(self.kernel) * self.capsule_size * self.in_channels

    @property
    def label(self) -> str:
        return f"{super().label}_c{self.capsule_size}_o{self.out_channels}"

    def tensors(self) -> list[te.Tensor]:
        matrix = (self.capsule_size, self.capsule_size)
        data_shape = (self.batch, self.height, self.width, *matrix, self.in_channels)
        data = te.placeholder(data_shape, dtype=self.dtype, name="data")
        weight_shape = (*self.kernel, *matrix, self.in_channels, self.out_channels)
        weight = te.placeholder(weight_shape, dtype=self.dtype, name="weight")
        padded = topi.nn.pad(data, [0, *self.padding, 0, 0, 0], name="data_pad")
        ry, rx = (
            te.reduce_axis((0, self.kernel[0]), name="ry"),
            te.reduce_axis((0, self.kernel[1]), name="rx"),
        )
        inner = te.reduce_axis((0, self.capsule_size), name="inner")
        channel = te.reduce_axis((0, self.in_channels), name="rc")

        def product(
            n: te.Var, y: te.Var, x: te.Var, i: te.Var, j: te.Var, out_channel: te.Var
        ) -> te.PrimExpr:
            row, column = y * self.stride[0] + ry, x * self.stride[1] + rx
            left = padded[n, row, column, i, inner, channel].astype(self.accumulator)
            right = weight[ry, rx, inner, j, channel, out_channel].astype(self.accumulator)
            return te.sum(left * right, axis=[ry, rx, inner, channel])

        shape = (self.batch, *self.output_size, *matrix, self.out_channels)
        return [data, weight, te.compute(shape, product, name=self.operator)]
