"""Kernel of Winograd's algorithm for images of any number, height and width.

Tiles of all images are one axis, which the kernel takes in blocks of nearly equal size. Threads first share
the tiles of a block and transform their data. Then they share the panels of output channels: a product of
matrices for each element of a tile, in the register tiles of `product_kernel`, whose sums stay in the second
cache until they are transformed and stored. So the arrays are bounded, and nothing is padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.tirx import DeclBuffer, IfThenElse

from .....operators.convolutions.winograd import TRANSFORMS
from ..addresses import Views
from ..kernel_parameters import KernelParameters
from ..nodes import (
    INDEX,
    Places,
    allocated,
    ceildiv,
    loop,
    number,
    parallel,
    product,
    sequence,
    simple,
    split_index,
    tile_start,
    with_values,
)
from ..product_kernel import panel_product
from ..symbolic_product import SymbolicProduct, read_symbolic_product
from .convolution import SymbolicConvolution
from .data_tiles import DataTiles
from .output_tiles import OutputTiles


@dataclass(frozen=True)
class WinogradParameters:
    """One kernel; it is right for all sizes."""

    tile: int
    """Rows and columns of a tile of outputs."""
    member: KernelParameters
    """Register tile of the products, of one panel."""
    tiles: int
    """Tiles of a part of a block, at most; as many as a register tile has rows, at least."""
    parts: int
    """Parts of a block, which threads share in addition to the panels."""

    @property
    def elements(self) -> int:
        """Elements of a tile of data."""
        return TRANSFORMS[self.tile].data_tile ** 2


def winograd_kernel(conv: SymbolicConvolution, chosen: WinogradParameters, panels: Any) -> Any:
    """Statement that computes the convolution; `panels` is the array of `transformed_panels`."""
    return _Winograd(conv, chosen, panels).statement()


class _Winograd:
    """One kernel: its arrays, and the numbers of tiles."""

    def __init__(self, conv: SymbolicConvolution, chosen: WinogradParameters, panels: Any) -> None:
        self.conv, self.chosen, self.panels = conv, chosen, panels
        self.first = tirx.Var("first", INDEX)
        self.product = _product(chosen, conv.in_channels, self.first)
        self.data = self.product.data.source
        self.tiles = product(conv.grid(chosen.tile))
        self.blocks = ceildiv(self.tiles, chosen.tiles * chosen.parts)
        self.in_block = simple((self.tiles + (self.blocks - 1)) // self.blocks)
        self.in_part = ceildiv(self.in_block, chosen.parts)

    def statement(self) -> Any:
        conv, member, transforms = self.conv, self.chosen.member, TRANSFORMS[self.chosen.tile]
        source = Views().of(conv.source)
        data = DataTiles(conv, transforms, member.lanes, source, self.data)
        outputs = OutputTiles(conv, transforms, member, self.product.sums)
        units = ceildiv(conv.out_channels, member.width) * self.chosen.parts

        def block(at: Any) -> Any:
            start = at * self.in_block
            count = simple(tirx.min(self.in_block, self.tiles - start))
            return sequence(
                parallel("tile", count, lambda tile: data.statement(start + tile, tile)),
                parallel("unit", units, lambda unit: self._unit(outputs, start, count, unit)),
            )

        view = DeclBuffer(source, data=conv.source.data)
        return allocated([self.data], sequence(view, loop("block", self.blocks, block)))

    def _unit(self, outputs: OutputTiles, start: Any, in_block: Any, unit: Any) -> Any:
        """Statement of a panel of output channels, for a part of the block from tile `start` on."""
        chosen, places = self.chosen, Places()
        panel, part = split_index(unit, [None, chosen.parts])
        given, (first, panel) = places.kept([part * self.in_part, panel])
        channel = tile_start(panel, chosen.member.width, self.conv.out_channels)
        sizes, (count, channel) = places.kept([tirx.min(self.in_part, in_block - first), channel])
        more, (rows, begin) = places.kept([tirx.max(count, chosen.member.least_rows), start + first])

        def products(at: Any) -> Any:
            matrix = panel * chosen.elements + at
            found = panel_product(self.product, chosen.member, self.panels, (at, matrix), rows)
            return with_values(found, {self.first: first})

        body = sequence(
            *more,
            loop("element", chosen.elements, products),
            loop("tile", count, lambda tile: outputs.statement(begin + tile, tile, channel)),
        )
        some = IfThenElse(count > 0, allocated([self.product.sums], body), None)
        return allocated([places.array], sequence(*given, *sizes, some))


def _product(chosen: WinogradParameters, channels: int, first: Any) -> SymbolicProduct:
    """Product of transformed data, from the tile `first` of a block on, and a panel of the weight."""
    elements, width, depth = number(chosen.elements), number(chosen.member.width), number(channels)
    data = te.placeholder((elements, number(chosen.tiles * chosen.parts), depth), name="tiles")
    weight = te.placeholder((elements, width, depth), name="weight")
    axis = te.reduce_axis((number(0), depth), name="depth")
    sums = te.compute(
        (elements, number(chosen.tiles), width),
        lambda at, tile, column: te.sum(data[at, first + tile, axis] * weight[at, column, axis], axis=axis),
        name="products",
    )
    func = te.create_prim_func([first, data, weight, sums], index_dtype_override=INDEX)
    found = read_symbolic_product(func, frozenset())
    assert found is not None
    return found
