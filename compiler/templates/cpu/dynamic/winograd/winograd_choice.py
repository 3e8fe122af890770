"""Choice of a kernel of Winograd's algorithm, and of the sizes at which it runs, by a closed form.

The time of the direct kernels grows with the rows of taps inside of the data, and the time of Winograd's
algorithm with the tiles, whose last ones reach beyond an image. It takes at least as long as the transfer of
its larger weight from memory. So it runs at sizes with

    rows of taps >= max(per_tile * tiles, at_least).

This holds for images of any number, height and width, while a table has breakpoints of one size alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from statistics import fmean
from typing import Any

from tvm import tirx

from .....operators.convolutions.winograd import TRANSFORMS, Transforms
from ...template import COLUMNS_FIRST
from ..kernel_parameters import KernelParameters
from ..nodes import fixed, number, product, with_values
from ..prediction import MOST_ROWS, Machine, ProductSize, cycles, members, panel_widths
from .convolution import SymbolicConvolution
from .winograd_kernel import WinogradParameters

LEAST_GAIN = 1.2
"""Least predicted speed-up at the largest sizes: the transformed weight takes more memory."""

_MARGIN = 1.1
"""Predicted speed-up from which a size takes the algorithm."""

_SUMS_SHARE, _DATA_BYTES = 0.5, 1 << 21
"""Share of the second cache for the sums of a thread, and bytes of the transformed data of a part."""

_ELEMENT, _TILE = 7.0, 150.0
"""Cycles of a transform for a vector of an element of a tile, and to begin a tile."""

_WEIGHT = 5
"""Bytes of a weight from memory in a cycle of a core."""

_BALANCED = 1.1
"""Time of the busiest thread over the mean, at most."""

_UNIT = 1 << 10
"""Unit of the comparison at run time, which is of integers."""

Values = Mapping[Any, int]
"""Sizes by symbolic variable."""


@dataclass(frozen=True)
class WinogradUse:
    """A kernel, and the sizes at which it runs: rows of taps >= max(per_tile * tiles, at_least)."""

    kernel: WinogradParameters
    per_tile: float
    at_least: float

    def condition(self, conv: SymbolicConvolution) -> Any:
        """The comparison at run time."""
        tiles = product(conv.grid(self.kernel.tile))
        per_tile, at_least = (ceil(_UNIT * one) for one in (self.per_tile, self.at_least))
        return conv.rows_of_taps * _UNIT >= tirx.max(tiles * per_tile, at_least)


@dataclass(frozen=True)
class WinogradCycles:
    """Predicted cycles of a kernel on all cores: of each tile, and of the weight from memory."""

    kernel: WinogradParameters
    tile: float
    weight: float

    def at(self, conv: SymbolicConvolution, values: Values) -> float:
        """Cycles at some sizes."""
        return max(self.tile * tiles_of(conv, self.kernel.tile, values), self.weight)

    def times(self, factor: float) -> WinogradCycles:
        """The cycles times a factor."""
        return replace(self, tile=self.tile * factor, weight=self.weight * factor)


def tiles_of(conv: SymbolicConvolution, tile: int, values: Values) -> int:
    """Tiles of all images at some sizes."""
    return _known(product(conv.grid(tile)), values)


def rows_of_taps(conv: SymbolicConvolution, values: Values) -> int:
    """`conv.rows_of_taps` at some sizes."""
    return _known(conv.rows_of_taps, values)


def predicted(
    conv: SymbolicConvolution,
    transforms: Sequence[Transforms],
    sizes: Sequence[Values],
    row_cycles: float,
    machine: Machine,
) -> WinogradCycles:
    """The kernel with which the convolution is predicted to be the fastest, as a geometric mean over sizes.

    Direct kernels run where they are faster; `row_cycles` is their time for a row of taps of an output.
    """
    direct = [row_cycles * rows_of_taps(conv, at) for at in sizes]
    counts = {one.output_tile: [tiles_of(conv, one.output_tile, at) for at in sizes] for one in transforms}
    every = [
        _cycles(conv, tile, member, machine)
        for tile in counts
        for width in panel_widths(conv.out_channels, machine.lanes)
        for member in members(width, MOST_ROWS, 1, machine)
        if member.order == COLUMNS_FIRST
    ]

    def mean(one: WinogradCycles) -> float:
        own = [max(one.tile * count, one.weight) for count in counts[one.kernel.tile]]
        return fmean(map(log, map(min, own, direct)))

    return min(every, key=mean)


def use_of(
    conv: SymbolicConvolution, found: WinogradCycles, row_cycles: float, largest: Values
) -> WinogradUse | None:
    """The sizes at which a kernel runs; None if it gains too little at the largest ones.

    `row_cycles` is the time of a direct kernel for a row of taps of an output, in the same unit.
    """
    if row_cycles * rows_of_taps(conv, largest) < LEAST_GAIN * found.at(conv, largest):
        return None
    per_tile, at_least = (round(_MARGIN * one / row_cycles, 3) for one in (found.tile, found.weight))
    return WinogradUse(found.kernel, per_tile, at_least)


def _cycles(
    conv: SymbolicConvolution, tile: int, member: KernelParameters, machine: Machine
) -> WinogradCycles:
    elements, lanes = TRANSFORMS[tile].data_tile ** 2, machine.lanes
    panels = ceil(conv.out_channels / member.width)
    most = _SUMS_SHARE * machine.cache_bytes / (4 * elements * member.width)
    most = min(most, _DATA_BYTES / (4 * elements * conv.in_channels))
    tiles = max(1, int(most / member.rows)) * member.rows
    kernel = WinogradParameters(tile, member, tiles, _parts(panels, machine.cores))
    size = ProductSize(tiles, member.width, conv.in_channels, batch=elements * panels)
    products = cycles(member, size, replace(machine, cores=1)) / tiles
    vectors = ceil(conv.in_channels / lanes) + panels * member.vectors
    transforms = elements * _ELEMENT * vectors + _TILE * (1 + panels)
    weight = 4 * elements * conv.in_channels * panels * member.width / _WEIGHT
    return WinogradCycles(kernel, (products + transforms) / machine.cores, weight / machine.cores)


def _parts(panels: int, cores: int) -> int:
    """Parts of a block, so that threads have nearly equal shares of its panels and parts."""

    def balance(parts: int) -> float:
        return ceil(panels * parts / cores) * cores / (panels * parts)

    return next(parts for parts in range(1, cores + 1) if parts == cores or balance(parts) <= _BALANCED)


def _known(expression: Any, values: Values) -> int:
    found = fixed(with_values(number(expression), values))
    assert found is not None
    return found
