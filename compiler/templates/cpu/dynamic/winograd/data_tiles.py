"""Transform of the data of a tile by Winograd's algorithm; data beyond an image are zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm import tirx
from tvm.tirx import IfThenElse

from .....operators.convolutions.winograd import Transforms
from .....types import WIDE
from ..nodes import (
    Places,
    allocated,
    local,
    loop,
    number,
    overlapping,
    sequence,
    split_index,
    store,
    vector,
)
from .convolution import SymbolicConvolution
from .transform import Element, loaded, transformed


class DataTiles:
    """Tiles of the data of a convolution, which become [element, tile, channel] of `target`.

    `source` is the array of the images as one axis.
    """

    def __init__(
        self, conv: SymbolicConvolution, transforms: Transforms, lanes: int, source: Any, target: Any
    ) -> None:
        self.conv, self.transforms, self.lanes = conv, transforms, lanes
        self.source, self.target = source, target

    def statement(self, tile: Any, at: Any) -> Any:
        """Statement that transforms tile `tile` of all images, as tile `at` of the target."""
        y, x, size, places = self.conv.y, self.conv.x, self.transforms.data_tile, Places()
        output = self.transforms.output_tile
        given, (tile,) = places.kept([tile])
        split, (image, row, column) = places.kept(split_index(tile, self.conv.grid(output)))
        corner, (top, left) = places.kept([y.first(row * output), x.first(column * output)])
        start = ((image * y.data + top) * x.data + left) * self.conv.in_channels
        placed, (start,) = places.kept([start])
        inside = tirx.all(top >= 0, top + size <= y.data, left >= 0, left + size <= x.data)

        def whole(channel: Any) -> Any:
            return self._transformed(at, channel, partial(self._element, start, channel))

        bounds, inner = places.kept([*_inside(top, size, y.data), *_inside(left, size, x.data)])
        border = sequence(*bounds, self._at_border(at, start, inner))
        body = IfThenElse(inside, self._over_channels(whole), border)
        return allocated([places.array], sequence(*given, *split, *corner, *placed, body))

    def _at_border(self, at: Any, start: Any, inner: Sequence[Any]) -> Any:
        """Statement for a tile; `inner` has its first row inside of an image, the number, and the columns."""
        size = self.transforms.data_tile
        top, rows, left, columns = inner
        patch = local([size, size, self.lanes], WIDE, "patch")

        def zero(row: int, column: int, lane: Any) -> Any:
            return store(patch, tirx.const(0, WIDE), [row, column, lane])

        def channels(channel: Any) -> Any:
            def copied(row: Any, column: Any, lane: Any) -> Any:
                return store(patch, self._element(start, channel, row, column, lane), [row, column, lane])

            def line(row: Any) -> Any:
                return loop("column", columns, lambda at: self._vector(copied, top + row, left + at))

            copies = loop("row", rows, line)
            return sequence(copies, self._transformed(at, channel, partial(loaded, patch)))

        zeros = [self._vector(zero, row, column) for row in range(size) for column in range(size)]
        return allocated([patch], sequence(*zeros, self._over_channels(channels)))

    def _vector(self, statement: Element, row: Any, column: Any) -> Any:
        return vector(self.lanes, partial(statement, row, column))

    def _over_channels(self, body: Callable[[Any], Any]) -> Any:
        return overlapping("channel", self.conv.in_channels, self.lanes, body)

    def _element(self, start: Any, channel: Any, row: Any, column: Any, lane: Any) -> Any:
        """The load of an element of the tile that begins at `start`."""
        pixel = row * number(self.conv.x.data) + column
        return tirx.BufferLoad(self.source, [start + pixel * self.conv.in_channels + channel + lane])

    def _transformed(self, at: Any, channel: Any, of: Element) -> Any:
        size = self.transforms.data_tile

        def written(row: int, column: int, value: Any, lane: Any) -> Any:
            return store(self.target, value, [row * size + column, at, channel + lane])

        return transformed(self.transforms.data, self.lanes, of, written)


def _inside(start: Any, size: int, extent: Any) -> tuple[Any, Any]:
    """First element inside of an extent, and number of such elements, of a tile that begins at `start`."""
    low = tirx.max(0 - start, 0)
    return low, tirx.max(tirx.min(number(extent) - start, size) - low, 0)
