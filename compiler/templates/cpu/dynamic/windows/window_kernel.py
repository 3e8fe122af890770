"""Kernel of windows over the channels of an image, in register tiles of neighbouring pixels.

Nothing is padded. From row to row, a tile runs over the taps inside of the data alone. Within a row, the
first and the last tile leave out their taps in the padding, and tiles between them may overlap. Each element
of the data is loaded once for all pixels of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx import DeclBuffer, IfThenElse

from ..addresses import Views
from ..finishing import finished
from ..nodes import (
    Places,
    allocated,
    ceildiv,
    fixed,
    in_type,
    local,
    loop,
    number,
    parallel,
    product,
    sequence,
    simple,
    split_index,
    store,
    tile_start,
    vector,
    with_loads,
    with_values,
)
from .window_task import ChannelWindows
from .window_tile import Border, WindowTile


def window_kernel(task: ChannelWindows, tile: WindowTile) -> Any:
    """Statement that computes the task for rows of as many pixels as the tile needs."""
    return _WindowKernel(task, tile).statement()


class _WindowKernel:
    """One kernel: its task, views of arrays, and what all tiles share."""

    def __init__(self, task: ChannelWindows, tile: WindowTile) -> None:
        self.task, self.tile, self.views = task, tile, Views()
        self.border = Border.of(task.pixel)
        self.data = self.views.of(task.source)
        self.offsets = _offsets(task, tile)

    def statement(self) -> Any:
        task, tile = self.task, self.tile
        extents = [axis.extent for axis in task.lead]
        panels = -(-task.channels // tile.channels)

        def job(at: Any) -> Any:
            *lines, panel = split_index(at, [*extents, panels])
            return self._row(lines, simple(tile_start(panel, tile.channels, task.channels)))

        rows = parallel("row", product([*extents, panels]), job)
        views = [DeclBuffer(view, data=source.data) for source, view in self.views.by_source.items()]
        return sequence(*views, rows)

    def _row(self, lines: Sequence[Any], channel: Any) -> Any:
        """Statement of all pixels of a row, for a panel of channels from `channel` on."""
        task, places = self.task, Places()
        computed, (channel, *lines) = places.kept([channel, *lines])
        origin, target = channel, number(0)
        bounds: list[Any] = []
        for axis, line, stride in zip(task.lead, lines, task.strides, strict=False):
            first = axis.first(line)
            origin, target = origin + first * stride, target * axis.extent + line
            if axis.tap is not None:
                bounds += axis.inside(first)
        target = target * task.pixel.extent * task.channels + channel
        more, (origin, target, *bounds) = places.kept([origin, target, *bounds])
        taps = list(zip(bounds[::2], bounds[1::2], strict=True))
        row = _PixelRow(self, lines, channel, origin, target, taps)
        return allocated([places.array], sequence(*computed, *more, self._tiles(row)))

    def _tiles(self, row: _PixelRow) -> Any:
        """Statement of all tiles of a row."""
        border, pixels, extent = self.border, self.tile.pixels, self.task.pixel.extent
        if fixed(extent) == pixels:
            return row.tile(0, left=True, gap=border.gaps[0])
        between = simple(number(extent) - 2 * pixels)
        last = simple(number(extent) - pixels)

        def middle(at: Any) -> Any:
            start = tirx.min((at + 1) * pixels, last - border.right)
            return row.tile(simple(start), left=False, gap=0)

        right = row.tile(last, left=False, gap=border.gaps[-1])
        for gap in border.gaps[:-1]:
            right = IfThenElse(border.gap == number(gap), row.tile(last, left=False, gap=gap), right)
        return sequence(row.tile(0, left=True, gap=0), loop("tile", ceildiv(between, pixels), middle), right)


def _offsets(task: ChannelWindows, tile: WindowTile) -> dict[int, list[tuple[int, int]]]:
    """Pixels of the data by distance from the first one of a tile, each with its readers: pixel and tap."""
    axis = task.pixel
    found: dict[int, list[tuple[int, int]]] = {}
    for pixel in range(tile.pixels):
        for tap in range(axis.taps):
            found.setdefault(pixel * axis.stride + tap * axis.dilation, []).append((pixel, tap))
    return dict(sorted(found.items()))


class _PixelRow:
    """A row of pixels for one panel of channels."""

    def __init__(
        self,
        kernel: _WindowKernel,
        lines: Sequence[Any],
        channel: Any,
        origin: Any,
        target: Any,
        taps: Sequence[tuple[Any, Any]],
    ) -> None:
        """`lines` are values of the leading axes. The row begins at the element `origin` of the data and at
        `target` of the output. `taps` has the first tap and the number of taps inside of the data, by leading
        axis with a window.
        """
        self.kernel, self.task, self.lines, self.channel = kernel, kernel.task, lines, channel
        self.origin, self.target, self.taps = origin, target, taps

    def tile(self, pixel: Any, *, left: bool, gap: int) -> Any:
        """Statement of the tile from `pixel` on.

        With `left`, it begins at the first pixel of a row. The window of its last pixel reaches `gap`
        elements into the padding.
        """
        task, tile, places = self.task, self.kernel.tile, Places()
        sums = local([tile.pixels, 1, tile.channels], str(task.sums.dtype), "sums")
        start = self.origin + (number(pixel) * task.pixel.stride - task.pixel.before) * task.channels
        computed, (pixel, start) = places.kept([pixel, start])
        terms = self._terms(sums, left, gap)

        def added(values: Mapping[Any, Any], place: Any) -> Any:
            steps, (place,) = places.kept([place])
            return sequence(*steps, *(term(values, place) for term in terms))

        def written(value: Any, line: Any, _: int, column: Any) -> Any:
            return self._stored(value, pixel + line, column)

        vectors = [(line, part) for line in range(tile.pixels) for part in range(tile.vectors)]
        epilogue = None if task.epilogue is None else task.epilogue.body.value
        body = sequence(
            *computed,
            *(self._vector(part, partial(self._initial, sums, line)) for line, part in vectors),
            self._lines(start, added),
            finished(sums, tile.lanes, epilogue, written),
        )
        return allocated([places.array, sums], body)

    def _vector(self, part: int, of: Callable[[Any], Any]) -> Any:
        """Statement of one vector of channels, from the column of each lane."""
        lanes = self.kernel.tile.lanes
        return vector(lanes, lambda lane: of(part * lanes + lane))

    def _initial(self, sums: Any, line: int, column: Any) -> Any:
        return store(sums, self.task.initial, [line, 0, column])

    def _terms(self, sums: Any, left: bool, gap: int) -> list[Callable[[Mapping[Any, Any], Any], Any]]:
        """Maker of the statements of one line of taps, from values of its taps and its first element.

        All readers of an element of the data follow each other, so that it is in a register meanwhile.
        """
        axis, tile = self.task.pixel, self.kernel.tile
        last = (tile.pixels - 1) * axis.stride + (axis.taps - 1) * axis.dilation - gap
        inside = [at for at in self.kernel.offsets if at <= last and (not left or at >= axis.before)]
        return [
            partial(self._added, sums, line, tap, offset, part)
            for offset in inside
            for part in range(tile.vectors)
            for line, tap in self.kernel.offsets[offset]
        ]

    def _added(
        self, sums: Any, line: int, tap: int, offset: int, part: int, values: Mapping[Any, Any], start: Any
    ) -> Any:
        """Statement that adds the term of a tap to one vector of sums."""
        task = self.task
        taps = {task.pixel.tap_var: tap}

        def element(column: Any) -> Any:
            place = start + offset * task.channels + column
            channel = {task.channel.var: self.channel + column}

            def loaded(load: TensorLoad) -> Any:
                if load.source.same_as(task.load.source):
                    return in_type(tirx.BufferLoad(self.kernel.data, [place]), str(load.ty.dtype))
                return with_values(load, {**values, **taps, **channel})

            at = [number(line), number(0), column]
            total = task.operation(tirx.BufferLoad(sums, at), with_loads(task.term, loaded))
            return store(sums, total, at)

        return self._vector(part, element)

    def _lines(self, start: Any, added: Callable[[Mapping[Any, Any], Any], Any]) -> Any:
        """Loops over the taps of all axes but the last around `added`."""
        axes = [
            (axis, stride)
            for axis, stride in zip(self.task.lead, self.task.strides, strict=False)
            if axis.tap is not None
        ]

        def nested(at: int, values: Mapping[Any, Any], place: Any) -> Any:
            if at == len(axes):
                return added(values, place)
            (axis, stride), (first, count) = axes[at], self.taps[at]

            def body(step: Any) -> Any:
                tap = first + step
                return nested(at + 1, {**values, axis.tap_var: tap}, place + tap * (axis.dilation * stride))

            return loop("tap", count, body)

        return nested(0, {}, start)

    def _stored(self, value: Any, pixel: Any, column: Any) -> Any:
        """Store of what follows from a sum."""
        task = self.task
        block = task.anchor if task.epilogue is None else task.epilogue
        place = self.target + pixel * task.channels + column
        output = block.writes[0].source
        if task.epilogue is None:
            return store(self.kernel.views.of(output), value, [place])
        names = [axis.var for axis in block.iter_vars]
        at = {
            names[-1]: self.channel + column,
            names[-2]: pixel,
            **dict(zip(names, self.lines, strict=False)),
        }

        def loaded(load: TensorLoad) -> Any:
            if load.source.same_as(task.sums):
                return value
            alike = len(load.indices) == len(names) and all(
                index.same_as(name) and tvm_ffi.structural_equal(simple(size), simple(own))
                for index, name, size, own in zip(
                    load.indices, names, load.source.shape, output.shape, strict=True
                )
            )
            if alike:
                return tirx.BufferLoad(self.kernel.views.of(load.source), [place])
            return with_values(load, at)

        return store(
            self.kernel.views.of(output), with_values(with_loads(block.body.value, loaded), at), [place]
        )
