"""Depthwise convolutions and pooling of symbolic extents against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.templates.cpu.dynamic.prediction import Machine
from foretune.compiler.templates.cpu.dynamic.windows.window_task import ChannelWindows, read_windows
from foretune.compiler.templates.cpu.dynamic.windows.window_tile import (
    Border,
    WindowTile,
    fits_row,
    least_pixels,
    tiles_in_row,
    window_tile,
)
from torch.nn import functional
from tvm import te, topi

from tests.compiler.templates.cpu.dynamic.kernels import Array, Network, random, symbol, tensor


def depthwise(
    rows: Any, columns: Any, channels: int, window: int, stride: int, padding: int, dilation: int = 1
) -> list[te.Tensor]:
    """Images of any number with channels last, a weight, and their depthwise convolution with ReLU6."""
    data = tensor("data", symbol("batch"), rows, columns, channels)
    weight = tensor("weight", window, window, 1, channels)
    sums = topi.nn.conv(
        data, weight, stride, padding, dilation, channels, data_layout="NHWC", kernel_layout="HWIO"
    )
    return [data, weight, topi.clip(sums, 0.0, 6.0)]


def convolved(data: Array, weight: Array, stride: int, padding: int, dilation: int = 1) -> Array:
    """The same by PyTorch."""
    found = functional.conv2d(
        torch.tensor(data).permute(0, 3, 1, 2),
        torch.tensor(weight).permute(3, 2, 0, 1),
        None,
        stride,
        padding,
        dilation,
        data.shape[-1],
    )
    return found.clip(0, 6).permute(0, 2, 3, 1).numpy()


def read(tensors: list[te.Tensor]) -> ChannelWindows:
    found = read_windows(te.create_prim_func(tensors, index_dtype_override="int64"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rows", "columns", "channels", "window", "stride", "padding", "dilation"),
    [
        (7, 7, 40, 3, 1, 1, 1),
        (14, 15, 24, 3, 2, 1, 1),
        (9, 30, 16, 5, 1, 2, 1),
        (9, 40, 16, 5, 2, 2, 1),
        (11, 33, 20, 3, 1, 2, 2),
        (8, 21, 5, 3, 1, 0, 1),
        (4, 1, 16, 3, 1, 1, 1),
        (2, 2, 16, 5, 1, 2, 1),
    ],
)
def test_images_of_any_number(
    runs_here: None,
    rows: int,
    columns: int,
    channels: int,
    window: int,
    stride: int,
    padding: int,
    dilation: int,
) -> None:
    weight = random(window, window, 1, channels)
    tensors = depthwise(rows, columns, channels, window, stride, padding, dilation)
    network = Network(tensors, {"batch": (1, 4)}, constants={1: weight})
    assert network.kind == "windows"
    run = network.compiled()
    for images in (1, 3):
        x = random(images, rows, columns, channels)
        np.testing.assert_allclose(
            run(x), convolved(x, weight, stride, padding, dilation), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(
    ("window", "stride", "padding"), [(3, 1, 1), (3, 2, 1), (5, 2, 2), (5, 3, 1), (2, 2, 0)]
)
def test_images_of_any_size(runs_here: None, window: int, stride: int, padding: int) -> None:
    """Narrow ones, too, in which a window reaches both borders, and all remainders of a tile and a stride."""
    rows, columns = symbol("rows"), symbol("columns")
    weight = random(window, window, 1, 12)
    tensors = depthwise(rows, columns, 12, window, stride, padding)
    network = Network(tensors, {"batch": (1, 2), "rows": (4, 60), "columns": (4, 60)}, constants={1: weight})
    assert network.kind == "windows"
    run = network.compiled()
    for size in range(4, 41):
        x = random(1, 4 + size % 5, size, 12)
        np.testing.assert_allclose(run(x), convolved(x, weight, stride, padding), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling(runs_here: None, kind: str) -> None:
    data = tensor("data", symbol("batch"), 9, 13, 20)
    pooled = topi.nn.pool2d(
        data, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], kind, layout="NHWC", count_include_pad=True
    )
    network = Network([data, pooled], {"batch": (1, 3)})
    assert network.kind == "windows"
    run = network.compiled()
    pool: Callable[..., Any] = {"max": functional.max_pool2d, "avg": functional.avg_pool2d}[kind]
    x = random(2, 9, 13, 20)
    wanted = pool(torch.tensor(x).permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(run(x), wanted, rtol=1e-4, atol=1e-4)


def test_settings_of_a_convolution_are_read() -> None:
    task = read(depthwise(symbol("rows"), 30, 24, 5, 2, 1, 2))
    assert task.channels == 24 and task.taps == 25
    axis = task.pixel
    assert (axis.stride, axis.dilation, axis.before, axis.after, axis.taps) == (2, 2, 1, 1, 5)
    assert [one.taps for one in task.lead] == [1, 5]


@pytest.mark.parametrize("padded", ["of another value", "of a convolution of all channels"])
def test_other_tasks_are_not_read(padded: str) -> None:
    """Elements outside of the image are left out, so they must not change a sum."""
    data = tensor("data", symbol("batch"), 9, 9, 16)
    if padded == "of another value":
        image = topi.nn.pad(data, (0, 1, 1, 0), (0, 1, 1, 0), 1.0)
        weight = tensor("weight", 3, 3, 1, 16)
        sums = topi.nn.conv(image, weight, 1, 0, 1, 16, data_layout="NHWC", kernel_layout="HWIO")
    else:
        weight = tensor("weight", 3, 3, 16, 16)
        sums = topi.nn.conv(data, weight, 1, 1, 1, 1, data_layout="NHWC", kernel_layout="HWIO")
    assert read_windows(te.create_prim_func([data, weight, sums], index_dtype_override="int64")) is None


def test_pixels_at_the_border() -> None:
    """Windows of 5 by steps of 2, from 2 before the data on: of 30, the last one reads 26 to 30."""
    fixed = Border.of(read(depthwise(30, 30, 8, 5, 2, 2)).pixel)
    assert (fixed.left, fixed.gaps, fixed.right) == (1, (1,), 1)
    symbolic = Border.of(read(depthwise(30, symbol("columns"), 8, 5, 2, 2)).pixel)
    assert (symbolic.left, symbolic.gaps, symbolic.right) == (1, (2, 1), 1)


def test_tiles_of_a_row() -> None:
    """The first and the last tile of 4 pixels cover 8; 9 pixels need one between."""
    tile = WindowTile(pixels=4, vectors=1, lanes=8)
    assert [tiles_in_row(tile, pixels) for pixels in (4, 5, 8, 9, 12, 13)] == [1, 2, 2, 3, 3, 4]
    border = Border.of(read(depthwise(30, 30, 8, 3, 1, 1)).pixel)
    assert least_pixels(tile, border) == 6


def test_a_short_row_is_one_tile() -> None:
    task = read(depthwise(7, 7, 16, 3, 1, 1))
    tile = window_tile(task, Machine(lanes=16, registers=32, cores=1), 7, 7)
    assert tile == WindowTile(pixels=7, vectors=1, lanes=16)
    assert fits_row(tile, Border.of(task.pixel), 7, fixed_row=True)
    assert not fits_row(tile, Border.of(task.pixel), 7, fixed_row=False)


def test_wide_rows_have_wide_tiles_though_narrow_rows_are_in_range() -> None:
    task = read(depthwise(symbol("rows"), symbol("columns"), 64, 3, 1, 1))
    machine = Machine(lanes=16, registers=32, cores=1)
    assert window_tile(task, machine, 1, 512).pixels >= 3
