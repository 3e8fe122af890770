"""Kernels of Winograd's algorithm for images of any size, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from foretune.compiler.codegen.compilation import compile_module
from foretune.compiler.operators.convolutions.winograd import TRANSFORMS
from foretune.compiler.operators.convolutions.winograd_rounding import LARGEST_ROUNDING
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.nodes import scheduled_function
from foretune.compiler.templates.cpu.dynamic.product_family import parameters
from foretune.compiler.templates.cpu.dynamic.symbolic_product import read_symbolic_product
from foretune.compiler.templates.cpu.dynamic.winograd.convolution import (
    SymbolicConvolution,
    read_convolution,
    transformed_panels,
)
from foretune.compiler.templates.cpu.dynamic.winograd.winograd_choice import rows_of_taps
from foretune.compiler.templates.cpu.dynamic.winograd.winograd_kernel import (
    WinogradParameters,
    winograd_kernel,
)
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST
from foretune.compiler.types import WIDE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional
from tvm import te, tirx, topi

from tests.compiler.templates.cpu.dynamic.kernels import TARGET, Array, random, symbol, tensor

pytestmark = pytest.mark.usefixtures("runs_here")

LANES = 8
"""Channels of a vector; no case has a multiple of it."""


def convolution(
    inputs: int, outputs: int, padding: int | Sequence[int], *, residual: bool = False, **window: int
) -> list[te.Tensor]:
    """Images of any size with channels last, weight, bias, perhaps a residual, and the outputs with ReLU."""
    size, stride, dilation = window.get("size", 3), window.get("stride", 1), window.get("dilation", 1)
    data = tensor("data", symbol("batch"), symbol("rows"), symbol("columns"), inputs)
    weight, bias = tensor("weight", size, size, inputs, outputs), tensor("bias", outputs)
    sums = topi.nn.conv(data, weight, stride, padding, dilation, 1, data_layout="NHWC", kernel_layout="HWIO")
    added = topi.add(sums, bias)
    given = [tensor("residual", *sums.shape)] if residual else []
    return [data, weight, bias, *given, topi.nn.relu(topi.add(added, given[0]) if given else added)]


def read(tensors: Sequence[te.Tensor], lanes: int = LANES) -> SymbolicConvolution | None:
    task = read_symbolic_product(te.create_prim_func(tensors, index_dtype_override="int64"), frozenset({1}))
    return None if task is None else read_convolution(task, lanes)


@cache
def compiled(tile: int, inputs: int, outputs: int, padding: int, residual: bool) -> Callable[..., Array]:
    """The kernel with small blocks of two parts, as a function on data, bias and residual."""
    conv = read(convolution(inputs, outputs, padding, residual=residual))
    assert conv is not None
    chosen = WinogradParameters(tile, KernelParameters(2 * LANES, 3, 1, COLUMNS_FIRST, 2), tiles=4, parts=2)
    weight = random(3, 3, inputs, outputs)
    panels = transformed_panels(weight, conv.product, TRANSFORMS[tile], 2 * LANES)
    buffer = tirx.decl_buffer(panels.shape, "float32", "panels")
    func = scheduled_function(parameters(conv.product, buffer), winograd_kernel(conv, chosen, buffer))
    module = compile_module(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), TARGET)
    kept = tvm.runtime.tensor(panels)

    def run(data: Array, *others: Array) -> Array:
        batch, rows, columns, _ = data.shape
        shape = batch, rows + 2 * padding - 2, columns + 2 * padding - 2, outputs
        result = tvm.runtime.tensor(np.full(shape, np.nan, np.float32))
        module["main"](tvm.runtime.tensor(data), kept, *map(tvm.runtime.tensor, others), result)
        return np.asarray(result.numpy())

    return run


def wanted(data: Array, weight: Array, bias: Array, padding: int) -> Array:
    """The convolution with bias by PyTorch, channels last."""
    images, filters = torch.tensor(data).permute(0, 3, 1, 2), torch.tensor(weight).permute(3, 2, 0, 1)
    found = functional.conv2d(images.double(), filters.double(), torch.tensor(bias).double(), 1, padding)
    return found.permute(0, 2, 3, 1).numpy()


SIZES = st.one_of(st.integers(1, 33), st.sampled_from([1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]))


@pytest.mark.parametrize(
    ("tile", "inputs", "outputs", "padding", "residual"),
    [(4, 20, 37, 1, True), (2, 13, 18, 1, False), (4, 9, 17, 0, False), (2, 11, 43, 2, True)],
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.integers(1, 5), rows=SIZES, columns=SIZES)
def test_images_of_any_size(
    tile: int, inputs: int, outputs: int, padding: int, residual: bool, batch: int, rows: int, columns: int
) -> None:
    """Images smaller than a tile, tiles that reach beyond an image, and blocks with an empty part."""
    rows, columns = max(rows, 3 - 2 * padding), max(columns, 3 - 2 * padding)
    data, weight, bias = random(batch, rows, columns, inputs), random(3, 3, inputs, outputs), random(outputs)
    sums = wanted(data, weight, bias, padding)
    others = [random(*sums.shape)] if residual else []
    found = compiled(tile, inputs, outputs, padding, residual)(data, bias, *others)
    difference = np.abs(found - np.maximum(sum(others, sums), 0)).max()
    assert difference <= LARGEST_ROUNDING[WIDE] * np.abs(sums).max()


@pytest.mark.parametrize("window", [{"size": 5}, {"stride": 2}, {"dilation": 2}], ids=str)
def test_other_windows_are_not_read(window: dict[str, int]) -> None:
    assert read(convolution(16, 16, 1)) is not None
    assert read(convolution(16, 16, 1, **window)) is None


def test_channels_of_less_than_a_vector_are_not_read() -> None:
    assert read(convolution(7, 16, 1)) is None and read(convolution(16, 7, 1)) is None


def test_rows_of_taps_inside_of_the_data() -> None:
    """An image of two rows has two rows of taps at each output, one of one row has one."""
    conv = read(convolution(16, 16, 1))
    assert conv is not None
    values = {"batch": 4, "rows": 2, "columns": 37}
    for rows, taps in ((1, 1), (2, 4), (3, 7)):
        sizes: dict[Any, int] = {var: {**values, "rows": rows}[var.name] for var in conv.product.symbols}
        assert rows_of_taps(conv, sizes) == 4 * 37 * taps
