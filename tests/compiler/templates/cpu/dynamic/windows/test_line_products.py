"""Convolutions of all channels whose register tiles have pixels of one row of an image, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.prediction import Machine, ProductSize, cycles
from foretune.compiler.templates.cpu.dynamic.symbolic_product import SymbolicProduct, read_symbolic_product
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST
from torch.nn import functional
from tvm import te, topi

from tests.compiler.templates.cpu.dynamic.kernels import Network, random, symbol, tensor


def convolution(
    rows: Any, columns: Any, window: int, stride: int, padding: int, dilation: int = 1, channels: int = 6
) -> list[te.Tensor]:
    """Images of any number with channels last, a weight for 20 outputs, and their convolution with ReLU."""
    data = tensor("data", symbol("batch"), rows, columns, channels)
    weight = tensor("weight", window, window, channels, 20)
    sums = topi.nn.conv(data, weight, stride, padding, dilation, 1, data_layout="NHWC", kernel_layout="HWIO")
    return [data, weight, topi.nn.relu(sums)]


def read(tensors: list[te.Tensor]) -> SymbolicProduct:
    found = read_symbolic_product(te.create_prim_func(tensors, index_dtype_override="int64"), frozenset({1}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("window", "stride", "padding", "dilation"),
    [(3, 1, 1, 1), (3, 2, 1, 1), (5, 2, 2, 1), (3, 1, 2, 2), (3, 1, 3, 1), (1, 2, 0, 1), (2, 2, 0, 1)],
)
def test_images_of_any_size(runs_here: None, window: int, stride: int, padding: int, dilation: int) -> None:
    """Images with fewer rows and columns than a window, and all remainders of register tiles."""
    rows, columns = symbol("rows"), symbol("columns")
    tensors = convolution(rows, columns, window, stride, padding, dilation)
    weight = random(window, window, 6, 20)
    ranges = {"batch": (1, 3), "rows": (2, 20), "columns": (2, 60)}
    run = Network(tensors, ranges, constants={1: weight}).compiled()
    filters = torch.tensor(weight).permute(3, 2, 0, 1)
    for size in range(2, 38):
        x = random(1 + size % 2, 2 + size % 7, size, 6)
        images = torch.tensor(x).permute(0, 3, 1, 2)
        wanted = functional.conv2d(images, filters, None, stride, padding, dilation).relu()
        found = run(x)
        np.testing.assert_allclose(found, wanted.permute(0, 2, 3, 1).numpy(), rtol=1e-4, atol=1e-4)


def test_taps_in_the_padding_are_clipped() -> None:
    task = read(convolution(2, symbol("columns"), 3, 1, 1))
    assert len(task.lines) == 2 and len(task.rows) == 1
    (axis,) = task.clipped
    inside = [tuple(map(int, axis.inside(axis.first(row)))) for row in range(2)]
    assert inside == [(1, 2), (0, 2)]


def test_pixels_of_a_product_are_in_one_row_each_only_where_this_saves_time() -> None:
    plain = read(convolution(9, 9, 1, 1, 0))
    assert plain.lines == () and len(plain.rows) == 3
    short = read(convolution(9, 3, 3, 1, 1))
    assert short.lines == () and short.clipped == ()
    assert len(read(convolution(9, 9, 1, 2, 0)).lines) == 2


def test_a_single_channel() -> None:
    """The columns of the window are the innermost axis of the sums then."""
    task = read(convolution(9, 9, 3, 1, 1, channels=1))
    assert [axis.tap_var.same_as(task.reduced[0].var) for axis in task.clipped] == [True]


def test_rows_of_images_cost_as_much_as_one_long_row() -> None:
    """Two rows of 12 pixels are four tiles of 6, as 24 pixels are."""
    member, machine = KernelParameters(16, 6, 1, COLUMNS_FIRST, 2), Machine(lanes=8, registers=16, cores=1)
    rows = cycles(member, ProductSize(12, 32, 64, lines=2), machine)
    assert rows == cycles(member, ProductSize(24, 32, 64), machine)
