"""Reading of a task of symbolic extents as windows over the channels of an image, with channels last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock
from tvm.tirx import IterVar, PrimFunc

from ...contraction import variables_of
from ..nodes import fixed, loads_of, product, simple, with_loads, with_values
from ..row_task import combination_of, reduced_of, spatial_of
from ..task_stages import read_stages
from .window_axes import WindowAxis, padding_of, window_axis


@dataclass(frozen=True, eq=False)
class ChannelWindows:
    """output[..., pixel, channel] = sum over taps of term(data[..., window of pixel, channel], weights).

    The sum is any combination of elements, such as the largest. The padding has the value that leaves a sum
    unchanged, so that its elements need not be read.
    """

    anchor: SBlock
    epilogue: SBlock | None
    """Block that writes the output from the sums; None if the anchor writes it."""
    lead: tuple[WindowAxis, ...]
    """Axes other than the pixels of a row and the channels: images, and rows of an image."""
    pixel: WindowAxis
    channel: IterVar
    channels: int
    operation: Any
    """Combination of a sum and a term."""
    initial: Any
    """First value of a sum."""
    term: Any
    """Expression that is added to a sum."""
    load: TensorLoad
    """The load of the term that reads the data, or the padded data."""
    source: Any
    """Array of the data."""

    @property
    def sums(self) -> Any:
        """Array of the sums."""
        return self.anchor.writes[0].source

    @property
    def taps(self) -> int:
        """Terms of one sum."""
        found = 1
        for axis in (*self.lead, self.pixel):
            found *= axis.taps
        return found

    @property
    def strides(self) -> list[Any]:
        """Elements from one element of the data to the next, by axis before the channels."""
        extents = [axis.data for axis in (*self.lead, self.pixel)]
        return [product([*extents[at + 1 :], self.channels]) for at in range(len(extents))]


def read_windows(func: PrimFunc) -> ChannelWindows | None:
    """The windows that a function computes; None for any other function."""
    stages = read_stages(func, lambda block: combination_of(block) is not None)
    if stages is None:
        return None
    anchor = stages.anchor
    *outer, channel = spatial_of(anchor)
    combined, channels = combination_of(anchor), fixed(channel.dom.extent)
    if combined is None or channels is None or not outer:
        return None
    operation, added = combined
    units = {axis.var: 0 for axis in reduced_of(anchor) if fixed(axis.dom.extent) == 1}
    term = with_loads(
        with_values(added, units), lambda load: tirx.BufferLoad(load.source, list(map(simple, load.indices)))
    )
    taps = [axis for axis in reduced_of(anchor) if axis.var not in units]
    images = [load for load in loads_of(term) if variables_of(load.indices) & {one.var for one in outer}]
    if len(images) != 1 or not taps or any(fixed(tap.dom.extent) is None for tap in taps):
        return None
    (load,) = images
    padding = padding_of(stages.prepared, load, anchor.init.value)
    if padding is None or len(load.indices) != len(outer) + 1 or not load.indices[-1].same_as(channel.var):
        return None
    axes = [
        window_axis(one, index, taps, *padded)
        for one, index, padded in zip(outer, load.indices, padding.around, strict=False)
    ]
    used = [axis.tap for axis in axes if axis is not None and axis.tap is not None]
    if None in axes or len(used) != len(taps) or len({tap.var for tap in used}) != len(taps):
        return None
    if any(axis.padded for axis in axes if axis is not None) and not _keeps(operation, term, load):
        return None
    *lead, pixel = [axis for axis in axes if axis is not None]
    return ChannelWindows(
        anchor=anchor,
        epilogue=stages.epilogue,
        lead=tuple(lead),
        pixel=pixel,
        channel=channel,
        channels=channels,
        operation=operation,
        initial=anchor.init.value,
        term=term,
        load=load,
        source=padding.source,
    )


def _keeps(operation: Any, term: Any, load: TensorLoad) -> bool:
    """Whether the term of a padding's element leaves a sum unchanged."""
    if isinstance(term, tirx.Cast):
        return _keeps(operation, term.value, load)
    if isinstance(term, TensorLoad):
        return bool(term.source.same_as(load.source))
    factors = (term.a, term.b) if operation is tirx.Add and isinstance(term, tirx.Mul) else ()
    return any(_keeps(operation, factor, load) for factor in factors)
