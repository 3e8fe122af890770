"""Register tile of windows: neighbouring pixels and vectors of channels, chosen by a closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...prediction import PER_CYCLE
from ..nodes import fixed, number, simple
from ..prediction import Machine
from .window_axes import WindowAxis
from .window_task import ChannelWindows

_MOST_PIXELS, _MOST_VECTORS = 16, 4
"""Pixels and vectors of channels of a register tile at most."""

_MOST_UNROLLED = 256
"""Terms of vectors without a branch, beyond which compiling takes long."""

_NARROW = 2.0
"""Time of a pixel in plain loops, compared with a row of one pixel."""

_JOB_START, _TILE_START, _SUM_START = 80, 15, 2
"""Cycles to begin a row of pixels and a register tile, and for each vector of sums of a tile."""


@dataclass(frozen=True)
class WindowTile:
    """Pixels of a row, and channels of each of them, whose sums are in registers."""

    pixels: int
    vectors: int
    """Vectors of channels of each pixel."""
    lanes: int
    """Channels of a vector."""

    @property
    def channels(self) -> int:
        return self.vectors * self.lanes


@dataclass(frozen=True, eq=False)
class Border:
    """Pixels at both ends of a row whose windows reach into the padding."""

    left: int
    """Pixels at the begin of a row."""
    gap: Any
    """Elements of padding that the window of the last pixel reaches."""
    gaps: tuple[int, ...]
    """All values of `gap`."""
    right: int
    """Pixels at the end of a row, at most."""

    @classmethod
    def of(cls, axis: WindowAxis) -> Border:
        """Border of the pixels of a row."""
        reach = (axis.taps - 1) * axis.dilation
        if not axis.padded:
            return cls(0, number(0), (0,), 0)
        last = (number(axis.extent) - 1) * axis.stride + reach - axis.before
        gap = simple(last - (number(axis.data) - 1))
        known = fixed(gap)
        gaps = (known,) if known is not None else tuple(axis.after - at for at in range(axis.stride))
        right = max(0, *(math.ceil(one / axis.stride) for one in gaps))
        return cls(math.ceil(axis.before / axis.stride), gap, gaps, right)


def window_tile(task: ChannelWindows, machine: Machine, low: int, high: int) -> WindowTile:
    """The tile that is predicted to be the fastest for rows of `low` to `high` pixels."""
    border = Border.of(task.pixel)
    sizes = [round(low * (high / low) ** (at / 4)) for at in range(5)] if high > low else [low]

    def cost(tile: WindowTile) -> float:
        """Cycles of a pixel; a row that is too narrow for the tile runs in plain loops."""
        return sum(
            _cycles(task, tile, size) / size
            if fits_row(tile, border, size, low == high)
            else _NARROW * _cycles(task, WindowTile(1, 1, tile.lanes), 1)
            for size in sizes
        )

    return min(_tiles(task, machine, max(1, border.left, border.right)), key=cost)


def fits_row(tile: WindowTile, border: Border, pixels: int, fixed_row: bool) -> bool:
    """Whether the tile is right for a row of so many pixels; a row of fixed extent may be a single tile."""
    return pixels >= least_pixels(tile, border) or (fixed_row and pixels == tile.pixels)


def least_pixels(tile: WindowTile, border: Border) -> int:
    """Pixels of a row from which the tile is right: no tile but the first and the last one reads padding.

    The tile has at least the pixels of either border.
    """
    return tile.pixels + border.left + border.right


def _tiles(task: ChannelWindows, machine: Machine, least: int) -> Iterator[WindowTile]:
    """Tiles of at least so many pixels that fit the registers, and the smallest one."""
    taps = task.pixel.taps
    lanes = machine.lanes if task.channels >= machine.lanes else 1 << (task.channels.bit_length() - 1)
    for vectors in range(1, min(_MOST_VECTORS, task.channels // lanes) + 1):
        for pixels in range(least, max(least, _MOST_PIXELS) + 1):
            needed = vectors * (pixels + taps + 1) + 1
            fits = needed <= machine.registers and pixels * vectors * taps <= _MOST_UNROLLED
            if fits or (pixels, vectors) == (least, 1):
                yield WindowTile(pixels, vectors, lanes)


def tiles_in_row(tile: WindowTile, pixels: int) -> int:
    """Tiles that cover a row: the first, the last, and those between."""
    return 1 if pixels <= tile.pixels else 2 + max(0, math.ceil((pixels - 2 * tile.pixels) / tile.pixels))


def _cycles(task: ChannelWindows, tile: WindowTile, pixels: int) -> float:
    """Predicted cycles of one row of pixels, over all channels."""
    axis = task.pixel
    lines = task.taps // axis.taps
    sums = tile.pixels * tile.vectors
    reach = (tile.pixels - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1
    work = max(sums * axis.taps, tile.vectors * (reach + axis.taps))
    one = lines * work / PER_CYCLE + _TILE_START + _SUM_START * sums
    panels = math.ceil(task.channels / tile.channels)
    return panels * (tiles_in_row(tile, pixels) * one + _JOB_START)
