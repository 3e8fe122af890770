"""Reading of a product of symbolic extents as a convolution that Winograd's algorithm can compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .....operators.convolutions.winograd import KERNEL, Transforms, transform_weight
from .....types import WIDE
from ..nodes import ceildiv, fixed, number, product, simple
from ..panels import in_order, in_panels
from ..symbolic_product import SymbolicProduct, Weight
from ..windows.window_axes import WindowAxis, padding_of, window_axis


@dataclass(frozen=True, eq=False)
class SymbolicConvolution:
    """3x3 convolution of stride 1 over images of any size in float32, with channels last."""

    product: SymbolicProduct
    source: Any
    """Array of the images, without padding."""
    images: Any
    """Number of images."""
    y: WindowAxis
    x: WindowAxis
    in_channels: int
    out_channels: int

    def grid(self, tile: int) -> list[Any]:
        """Number of images, and of rows and columns of tiles that cover an image's outputs."""
        return [self.images, ceildiv(self.y.extent, tile), ceildiv(self.x.extent, tile)]

    @property
    def rows_of_taps(self) -> Any:
        """Rows of taps inside of the data, over all outputs; the direct kernels leave the others out."""
        y, clipped = self.y, (self.y.before, self.y.after)
        outside = sum(count * (count + 1) // 2 for count in clipped)
        return product([self.images, self.x.extent, simple(KERNEL * number(y.extent) - outside)])


def read_convolution(task: SymbolicProduct, lanes: int) -> SymbolicConvolution | None:
    """The convolution that a product computes, if it has the channels of a vector of `lanes`; else None."""
    if task.layout is not Weight.PACKED or set(task.types) != {WIDE} or len(task.lines) != 2:
        return None
    padding = padding_of(task.prepared, task.data, task.anchor.init.value)
    extents = [fixed(axis.dom.extent) or 0 for axis in task.reduced]
    columns = fixed(task.columns) or 0
    if padding is None or extents[:-1] != [KERNEL, KERNEL] or min(extents[-1], columns) < lanes:
        return None
    *indices, channel = task.data.indices
    axes = [
        window_axis(axis, simple(index), task.reduced[:-1], *padded)
        for axis, index, padded in zip((*task.lines, *task.rows), indices, padding.around, strict=True)
    ]
    image, y, x = axes
    if image is None or y is None or x is None or not channel.same_as(task.reduced[-1].var):
        return None
    taps = [axis.tap_var for axis in (y, x)]
    plain = all((one.stride, one.dilation) == (1, 1) for one in (y, x)) and image.tap is None
    if not plain or not all(tap is not None for tap in taps) or not taps[0].same_as(task.reduced[0].var):
        return None
    return SymbolicConvolution(task, padding.source, image.extent, y, x, extents[-1], columns)


def weight_of(array: NDArray[Any], task: SymbolicProduct) -> NDArray[Any]:
    """A constant weight as [3, 3, in_channels, out_channels]."""
    return np.moveaxis(in_order(array, task), 0, -1)


def transformed_panels(
    array: NDArray[Any], task: SymbolicProduct, transforms: Transforms, width: int
) -> NDArray[Any]:
    """A constant weight, transformed, in panels: [panel, element of a tile, in_channels, width]."""
    transformed = transform_weight(weight_of(array, task), transforms)
    _, _, inputs, outputs = transformed.shape
    return in_panels(np.moveaxis(transformed, -1, 0).reshape(outputs, -1, inputs), width)
