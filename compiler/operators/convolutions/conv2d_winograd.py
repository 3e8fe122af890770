"""Winograd's convolution F(4x4, 3x3) with fewer multiplications (Lavin and Gray, CVPR 2016, section 4.3).

`shared.winograd` has the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from tvm import te, topi
from typing_extensions import Self

from ..registry import register
from ..settings import Pair
from ..shared.epilogue import first_steps, fuse
from ..shared.knobs import BATCH, Knob, epilogue_knob
from ..shared.window import SlidingWindow
from .base import convolve_in_layout
from .conv2d import Conv2d
from .winograd import F4, transform_weight

if TYPE_CHECKING:
    import torch

OUTPUT_TILE, DATA_TILE = F4.output_tile, F4.data_tile

UNTILED = {"schedule_rule": "None"}
"""Block attribute that leaves a block to MetaSchedule's post-processors, which run it in parallel.

Only the products are tiled: with the four transforms tiled too there are 243 design spaces, and few of their
samples fit a GPU.
"""


@register
@dataclass(frozen=True, kw_only=True)
class WinogradConv2d(SlidingWindow):
    """3x3 convolution of stride 1: data [batch, height, width, in_channels], bias [1, 1, 1, out_channels].

    The weight is transformed by `transform_weight` ahead of time, as a network's weights are known before it
    runs. Only float32: transformed data are up to 100 times as large, too large for the digits of float16.
    """

    operator: ClassVar[str] = "conv2d_winograd"
    marker: ClassVar[str] = "conv2d_winograd"
    counts_as_tvm: ClassVar[bool] = False
    made_of: ClassVar[str] = Conv2d.operator
    draw_order: ClassVar[int] = 15
    share: ClassVar[float] = 0.01
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob(("padding",)),
        Knob(("in_channels",)),
        Knob(("out_channels",), (("in_channels",),)),
        Knob(("height", "width"), (("in_channels",),)),
        BATCH,
        epilogue_knob("in_channels"),
    )
    epilogues: ClassVar[tuple[str, ...]] = ("none", "bias", "bias_relu")
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)
    axes: ClassVar[tuple[str, ...]] = ("height", "width")
    window_fields: ClassVar[tuple[str, ...]] = ("padding",)
    layouts: ClassVar[tuple[str, ...]] = ("NHWC",)
    kernel: ClassVar[int] = 3

    in_channels: int
    height: int
    width: int
    out_channels: int
    padding: Pair = (0, 0)
    layout: str = "NHWC"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "in_channels", "out_channels")

    @property
    def op_pattern(self) -> int | None:
        return None

    @property
    def data_channels(self) -> int:
        return self.in_channels

    @property
    def tiles(self) -> Pair:
        """Tiles of the output along height and width; the last may reach over the edge."""
        rows, columns = (ceil(extent / OUTPUT_TILE) for extent in self.output_size)
        return rows, columns

    @property
    def flops(self) -> int:
        """Operations of the matrix products; the transforms do not count, as padding does not elsewhere."""
        return (
            2
            * DATA_TILE**2
            * self.batch
            * self.tiles[0]
            * self.tiles[1]
            * self.in_channels
            * self.out_channels
        )

    @property
    def label(self) -> str:
        return f"{super().label}_o{self.out_channels}"

    def tensors(self) -> list[te.Tensor]:
        data = self._data()
        weight_shape = (DATA_TILE, DATA_TILE, self.in_channels, self.out_channels)
        weight = te.placeholder(weight_shape, dtype=self.dtype, name="weight")
        channel = te.reduce_axis((0, self.in_channels), name="rc")
        transformed = _transform(self._gather_tiles(data), F4.data, "data_transform")
        product = te.compute(
            (DATA_TILE, DATA_TILE, transformed.shape[2], self.out_channels),
            lambda a, b, tile, out_channel: te.sum(
                transformed[a, b, tile, channel] * weight[a, b, channel, out_channel], axis=channel
            ),
            name="winograd_product",
        )
        output = self._scatter_tiles(_transform(product, F4.output, "output_transform"))
        inputs, output = fuse(output, self.epilogue, self._bias_shape(self.out_channels))
        return [data, weight, *inputs, output]

    def _gather_tiles(self, data: te.Tensor) -> te.Tensor:
        """[batch, height, width, channels] -> [6, 6, batch * tiles, channels]."""
        rows, columns = self.tiles
        after = [
            count * OUTPUT_TILE + 2 - size - pad
            for count, size, pad in zip(self.tiles, self.input_size, self.padding, strict=True)
        ]
        padded = topi.nn.pad(data, [0, *self.padding, 0], [0, *after, 0], name="data_pad")
        return te.compute(
            (DATA_TILE, DATA_TILE, self.batch * rows * columns, self.in_channels),
            lambda y, x, tile, channel: padded[
                tile // (rows * columns),
                tile // columns % rows * OUTPUT_TILE + y,
                tile % columns * OUTPUT_TILE + x,
                channel,
            ],
            name="data_tiles",
        )

    def _scatter_tiles(self, tiles: te.Tensor) -> te.Tensor:
        """[4, 4, batch * tiles, channels] -> [batch, rows, columns, channels]."""
        rows, columns = self.tiles
        return te.compute(
            (self.batch, *self.output_size, self.out_channels),
            lambda n, y, x, channel: tiles[
                y % OUTPUT_TILE,
                x % OUTPUT_TILE,
                (n * rows + y // OUTPUT_TILE) * columns + x // OUTPUT_TILE,
                channel,
            ],
            name=self.marker,
        )

    @classmethod
    def derive(cls, other: Conv2d) -> Self | None:
        """The same convolution by Winograd's algorithm; None unless it is 3x3 of stride 1."""
        if (other.kernel, other.stride, other.dilation) != ((3, 3), (1, 1), (1, 1)):
            return None
        return cls(
            batch=other.batch,
            in_channels=other.in_channels,
            height=other.height,
            width=other.width,
            out_channels=other.out_channels,
            padding=other.padding,
            epilogue=first_steps(other.epilogue, cls.epilogues),
        )

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(batch=2, in_channels=3, height=7, width=10, out_channels=4, padding=(1, 0)),)

    def prepare_inputs(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The weight becomes the transform of a 3x3 one."""
        import torch

        data, weight, *extra = inputs
        return [data, torch.from_numpy(transform_weight(weight[:3, :3].numpy())), *extra]

    def reference(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """The convolution with the 3x3 weight that the given weight is the transform of."""
        import torch

        data, transformed = inputs
        inverse = torch.from_numpy(np.linalg.pinv(F4.weight))
        weight = torch.einsum("ia,jb,abco->ijco", inverse, inverse, transformed)
        conv2d = torch.nn.functional.conv2d
        return convolve_in_layout(self.layout, conv2d, [data, weight], padding=self.padding)


def _transform(tiles: te.Tensor, matrix: NDArray[np.floating], name: str) -> te.Tensor:
    """matrix @ tile @ matrix^T for each tile: [from, from, tiles, channels] -> [to, to, tiles, channels]."""
    size, size_before = matrix.shape
    constant = topi.utils.const_matrix(matrix.astype(str(tiles.dtype)), name=f"{name}_matrix")
    y, x = (te.reduce_axis((0, size_before), name=axis) for axis in ("ry", "rx"))
    # One axis after the other takes 2 * from multiply-adds an element, both at once from * from.
    columns = te.compute(
        (size, size_before, *tiles.shape[2:]),
        lambda a, b, tile, channel: te.sum(constant[a, y] * tiles[y, b, tile, channel], axis=y),
        name=f"{name}_columns",
        attrs=UNTILED,
    )
    return te.compute(
        (size, size, *tiles.shape[2:]),
        lambda a, b, tile, channel: te.sum(columns[a, x, tile, channel] * constant[b, x], axis=x),
        name=name,
        attrs=UNTILED,
    )
