"""Transform of the products of a tile by Winograd's algorithm, with the epilogue of the convolution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tvm import tirx

from .....operators.convolutions.winograd import Transforms
from .....types import WIDE
from ..kernel_parameters import KernelParameters
from ..nodes import (
    Places,
    allocated,
    local,
    loop,
    number,
    sequence,
    split_index,
    store,
    vector,
    with_loads,
    with_values,
)
from .convolution import SymbolicConvolution
from .transform import loaded, transformed


class OutputTiles:
    """Tiles of the output of a convolution, from the products [element, tile, channel of a panel]."""

    def __init__(
        self, conv: SymbolicConvolution, transforms: Transforms, member: KernelParameters, products: Any
    ) -> None:
        self.conv, self.transforms, self.member, self.products = conv, transforms, member, products

    def statement(self, tile: Any, at: Any, channel: Any) -> Any:
        """Statement that stores tile `tile` of all images, which is tile `at` of the products.

        The panel begins at the output channel `channel`. Outputs beyond an image are left out.
        """
        conv, size, places = self.conv, self.transforms.output_tile, Places()
        given, (tile,) = places.kept([tile])
        split, (image, row, column) = places.kept(split_index(tile, conv.grid(size)))
        corner, (top, left) = places.kept([row * size, column * size])
        ends = [number(axis.extent) - start for axis, start in ((conv.y, top), (conv.x, left))]
        bounds, (rows, columns) = places.kept([tirx.min(end, size) for end in ends])
        outputs = local([size, size, self.member.lanes], WIDE, "outputs")

        def written(row: int, column: int, value: Any, lane: Any) -> Any:
            return store(outputs, value, [row, column, lane])

        def vectors(number_of: Any) -> Any:
            first = number_of * self.member.lanes
            of = partial(self._product, at, first)

            def stored(row: Any, column: Any, lane: Any) -> Any:
                place = [image, top + row, left + column, channel + first + lane]
                return self._stored(loaded(outputs, row, column, lane), place)

            def line(row: Any) -> Any:
                return loop("column", columns, lambda at: vector(self.member.lanes, partial(stored, row, at)))

            computed = transformed(self.transforms.output, self.member.lanes, of, written)
            return sequence(computed, loop("row", rows, line))

        body = loop("vector", self.member.vectors, vectors)
        return allocated([places.array, outputs], sequence(*given, *split, *corner, *bounds, body))

    def _product(self, at: Any, first: Any, row: int, column: int, lane: Any) -> Any:
        place = [number(row * self.transforms.data_tile + column), number(at), first + lane]
        return tirx.BufferLoad(self.products, place)

    def _stored(self, value: Any, place: Sequence[Any]) -> Any:
        """Store of what follows from a sum at its place in the output."""
        task = self.conv.product
        block = task.epilogue or task.anchor
        axes = dict(zip((axis.var for axis in block.iter_vars), place, strict=False))
        if task.epilogue is not None:
            result = with_loads(
                block.body.value, lambda load: value if load.source.same_as(task.sums) else load
            )
            value = with_values(result, axes)
        target = block.writes[0]
        return store(target.source, value, [with_values(one.min, axes) for one in target.region])
