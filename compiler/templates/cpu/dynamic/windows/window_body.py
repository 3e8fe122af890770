"""Statement of a task of windows for all sizes of a range."""

from __future__ import annotations

from typing import Any

from tvm.tirx import IfThenElse

from ..expected_sizes import Ends
from ..nodes import number
from ..prediction import Machine
from .window_kernel import window_kernel
from .window_task import ChannelWindows
from .window_tile import Border, fits_row, least_pixels, window_tile


def window_body(task: ChannelWindows, machine: Machine, ends: Ends, narrow: Any) -> Any:
    """Statement that computes the task; `narrow` does so for rows of fewer pixels than a register tile needs.

    None if there are such rows and `narrow` is None.
    """
    low, high = ends(task.pixel.extent)
    tile, border = window_tile(task, machine, low, high), Border.of(task.pixel)
    if fits_row(tile, border, low, low == high):
        return window_kernel(task, tile)
    least = least_pixels(tile, border)
    if high < least or narrow is None:
        return narrow
    return IfThenElse(number(task.pixel.extent) >= least, window_kernel(task, tile), narrow)
