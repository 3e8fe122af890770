"""Capsule convolution: a convolution whose elements are small matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from tvm import te, topi
from typing_extensions import Self

from ..registry import register
from ..settings import Pair
from ..shared.knobs import BATCH, IN_CHANNELS, OUT_CHANNELS, Knob, size_knob, window_knobs
from ..shared.uniform import up_to
from ..shared.window import SlidingWindow
from .conv2d import Conv2d

if TYPE_CHECKING:
    import numpy as np
    import torch

CAPSULE_SIZE = 4
"""Side of a capsule's pose matrix (Hinton et al., Matrix capsules with EM routing, ICLR 2018)."""

UNIFORM_SIZES = (2, 3, 4)
"""Capsule sizes of uniform draws."""


@register
@dataclass(frozen=True, kw_only=True)
class CapsuleConv2d(SlidingWindow):
    """Convolution that sums products of matrices in place of products of numbers (Hinton et al., ICLR 2018).

    With capsules of `capsule_size` c: data [batch, height, width, c, c, in_channels], weight
    [kh, kw, c, c, in_channels, out_channels], output [batch, rows, columns, c, c, out_channels].
    """

    operator: ClassVar[str] = "capsule_conv2d"
    marker: ClassVar[str] = "capsule_conv2d"
    made_of: ClassVar[str] = Conv2d.operator
    draw_order: ClassVar[int] = 17
    share: ClassVar[float] = 0.005
    knobs: ClassVar[tuple[Knob, ...]] = (
        *window_knobs(dilation=False),
        IN_CHANNELS,
        OUT_CHANNELS,
        size_knob("height", "width"),
        BATCH,
        Knob(("capsule_size",)),
    )
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
    capsule_size: int = CAPSULE_SIZE
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
        return [data, weight, te.compute(shape, product, name=self.marker)]

    @classmethod
    def derive(cls, other: Conv2d) -> Self | None:
        """Capsules over tensors of the same sizes; None where channels leave a capsule unfilled."""
        (in_capsules, in_rest), (out_capsules, out_rest) = (
            divmod(channels, CAPSULE_SIZE**2) for channels in (other.in_channels, other.out_channels)
        )
        if max(other.dilation) > 1 or in_rest or out_rest:
            return None
        return cls(
            batch=other.batch,
            in_channels=in_capsules,
            height=other.height,
            width=other.width,
            out_channels=out_capsules,
            kernel=other.kernel,
            stride=other.stride,
            padding=other.padding,
            capsule_size=CAPSULE_SIZE,
        )

    @classmethod
    def draw_uniform(cls, rng: np.random.Generator, **drawn: Any) -> dict[str, Any]:
        values = super().draw_uniform(rng, **drawn)
        most = cls.largest["in_channels"] // max(UNIFORM_SIZES) ** 2
        channels = {name: up_to(most, rng) for name in ("in_channels", "out_channels")}
        return {**values, **channels, "capsule_size": int(rng.choice(UNIFORM_SIZES))}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(
                batch=1, in_channels=2, height=5, width=6, out_channels=3, kernel=(3, 2), stride=(2, 1),
                padding=(1, 1), capsule_size=2,
            ),
        )  # fmt: skip

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """A plain convolution for each element of the matrices, and a sum over the inner one."""
        import torch

        data, weight = inputs
        size = range(self.capsule_size)
        elements = [
            torch.stack(
                [
                    torch.nn.functional.conv2d(
                        data[..., i, k, :].movedim(-1, 1),
                        weight[:, :, k, j].permute(3, 2, 0, 1),
                        stride=self.stride,
                        padding=self.padding,
                    )
                    for k in size
                ]
            ).sum(0)
            for i in size
            for j in size
        ]
        stacked = torch.stack(elements).unflatten(0, (len(size), len(size)))  # [i, j, n, o, y, x]
        return stacked.permute(2, 4, 5, 0, 1, 3)
