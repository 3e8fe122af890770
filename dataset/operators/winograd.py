"""Winograd's convolution F(4x4, 3x3) of Lavin and Gray (CVPR 2016), section 4: fewer multiplications.

Each 4x4 tile of outputs is A^T [(G w G^T) * (B^T d B)] A of its 6x6 tile of data d and the 3x3 weight w; *
multiplies element by element. Summed over input channels, that product is 36 matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tvm import te, topi

from .epilogue import fuse
from .settings import Pair
from .window import SlidingWindow

OUTPUT_TILE, DATA_TILE = 4, 6

UNTILED = {"schedule_rule": "None"}
"""Leaves a block to MetaSchedule's post-processors, which run it in parallel; only the products are tiled.

With the four transforms tiled too there are 243 design spaces, of which hardly a sample fits a GPU.
"""

DATA_TRANSFORM = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)  # fmt: skip
"""B^T of the paper."""

WEIGHT_TRANSFORM = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
"""G of the paper."""

OUTPUT_TRANSFORM = np.array(
    [
        [1, 1, 1, 1, 1, 0],
        [0, 1, -1, 2, -2, 0],
        [0, 1, 1, 4, 4, 0],
        [0, 1, -1, 8, -8, 1],
    ]
)
"""A^T of the paper."""


def transform_weight(weight: NDArray[np.floating]) -> NDArray[np.floating]:
    """G w G^T for each pair of channels: [3, 3, in_channels, out_channels] -> [6, 6, in.., out..]."""
    transformed = np.einsum("ai,bj,ijco->abco", WEIGHT_TRANSFORM, WEIGHT_TRANSFORM, weight)
    return transformed.astype(weight.dtype)


@dataclass(frozen=True, kw_only=True)
class WinogradConv2d(SlidingWindow):
    """3x3 convolution of stride 1: data [batch, height, width, in_channels], bias [1, 1, 1, out_channels].

    The weight is what `transform_weight` gives, as a network's weights are known before it runs. Only
    float32: transformed data are up to 100 times as large, which costs float16 the digits it has.
    """

    operator: ClassVar[str] = "conv2d_winograd"
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
        """Of the matrix products alone; the transforms are left out, as padding is elsewhere."""
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
        transformed = _transform(self._gather_tiles(data), DATA_TRANSFORM, "data_transform")
        product = te.compute(
            (DATA_TILE, DATA_TILE, transformed.shape[2], self.out_channels),
            lambda a, b, tile, out_channel: te.sum(
                transformed[a, b, tile, channel] * weight[a, b, channel, out_channel], axis=channel
            ),
            name="winograd_product",
        )
        output = self._scatter_tiles(_transform(product, OUTPUT_TRANSFORM, "output_transform"))
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
            name=self.operator,
        )


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
