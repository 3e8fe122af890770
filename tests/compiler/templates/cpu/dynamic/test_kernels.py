"""Kernels of symbolic tasks against NumPy: each kind of task at small, prime, whole and largest sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import erf
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.operators.shared.epilogue import fuse
from foretune.compiler.templates.cpu.dynamic.families import SizeRangeError
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.symbolic_product import read_symbolic_product
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST, ROWS_FIRST
from tvm import te, tirx, topi

from tests.compiler.templates.cpu.dynamic.kernels import (
    Array,
    Network,
    compiled_members,
    product,
    random,
    symbol,
    tensor,
)

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 24, 25, 31, 33, 47, 64)
"""All small ones, primes, and multiples of register tiles and vectors with their neighbours."""


pytestmark = pytest.mark.usefixtures("runs_here")


def gelu(x: Array) -> Array:
    return np.asarray(x * (0.5 + 0.5 * np.vectorize(erf)(x / 2**0.5)), dtype=np.float32)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def close(result: Array, wanted: Array) -> None:
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("lanes", "vectors", "columns"), [(4, 2, 11), (4, 3, 24), (8, 2, 17)])
def test_kernels_of_wide_panels_are_right_at_all_sizes(lanes: int, vectors: int, columns: int) -> None:
    """The last panel ends where the columns end, and overlaps the one before it unless it fits."""
    members = [
        KernelParameters(lanes * vectors, height, panels, order, vectors)
        for height, panels in ((1, 1), (1, 2), (4, 1), (6, 1))
        for order in (COLUMNS_FIRST, ROWS_FIRST)
    ]
    data, weight = tensor("data", symbol("rows"), 5), tensor("weight", 5, columns)
    values = random(5, columns)
    kernels = compiled_members([data, weight, product(data, weight)], values, members)
    for member, run in zip(members, kernels, strict=True):
        for rows in (*range(member.least_rows, 14), 31, 37, 61, 97):
            x = random(rows, 5)
            close(run(x), x @ values)


def test_each_kernel_is_right_at_all_sizes() -> None:
    """Tiles of two heights cover all rows; panels of 11 columns overlap."""
    members = [
        KernelParameters(4, height, panels, order)
        for height, panels in ((1, 3), (2, 2), (3, 1), (4, 2), (6, 2), (9, 1))
        for order in (COLUMNS_FIRST, ROWS_FIRST)
    ]
    data, weight = tensor("data", symbol("rows"), 3), tensor("weight", 3, 11)
    values = random(3, 11)
    kernels = compiled_members([data, weight, product(data, weight)], values, members)
    for member, run in zip(members, kernels, strict=True):
        for rows in range(member.least_rows, 101):
            x = random(rows, 3)
            close(run(x), x @ values)


@pytest.mark.parametrize("columns", [40, 13, 3, 1])
def test_linear_layer_with_bias_gelu_and_residual(columns: int) -> None:
    """Rows of two axes are one; columns that are no whole panels end with a panel that overlaps."""
    batch, length = symbol("batch"), symbol("length")
    data, weight = tensor("data", batch, length, 20), tensor("weight", 20, columns)
    bias, residual = tensor("bias", columns), tensor("residual", batch, length, columns)
    _, activated = fuse(topi.add(product(data, weight), bias), "gelu", ())
    values = random(20, columns)
    network = Network(
        [data, weight, bias, residual, topi.add(activated, residual)],
        {"batch": (1, 4), "length": (1, 64)},
        constants={1: values},
    )
    assert network.kind == "product"
    run = network.compiled()
    for rows in SIZES:
        x, b, r = random(2, rows, 20), random(columns), random(2, rows, columns)
        close(run(x, b, r), gelu(x @ values + b) + r)


@pytest.mark.parametrize("turned", [True, False])
def test_scores_of_attention(turned: bool) -> None:
    """Rows and columns are symbolic; consecutive columns are read where they are."""
    batch, length = symbol("batch"), symbol("length")
    query = tensor("query", batch, length, 6)
    key = tensor("key", batch, *((length, 6) if turned else (6, length)))
    mask = tensor("mask", length, length)
    scores = product(query, key, turned=turned)
    masked = te.compute(scores.shape, lambda b, i, j: scores[b, i, j] * 0.5 + mask[i, j], name="masked")
    run = Network([query, key, mask, masked], {"batch": (1, 3), "length": (1, 64)}).compiled()
    for rows in SIZES:
        q, k, m = random(3, rows, 6), random(3, *((rows, 6) if turned else (6, rows))), random(rows, rows)
        close(run(q, k, m), q @ (k.transpose(0, 2, 1) if turned else k) * 0.5 + m)


def test_values_of_attention() -> None:
    """The sums are over a symbolic axis."""
    batch, length = symbol("batch"), symbol("length")
    weights, value = tensor("weights", batch, length, length), tensor("value", batch, length, 12)
    run = Network([weights, value, product(weights, value)], {"batch": (1, 3), "length": (1, 64)}).compiled()
    for rows in SIZES:
        w, v = random(2, rows, rows), random(2, rows, 12)
        close(run(w, v), w @ v)


@pytest.mark.parametrize(("window", "stride", "padding"), [(1, 1, 0), (1, 2, 0), (3, 2, 1)])
def test_convolution_with_channels_last(window: int, stride: int, padding: int) -> None:
    batch = symbol("batch")
    data, weight = tensor("data", batch, 7, 7, 5), tensor("weight", window, window, 5, 12)
    sums = topi.nn.conv2d(data, weight, stride, padding, 1, data_layout="NHWC", kernel_layout="HWIO")
    values = random(window, window, 5, 12)
    network = Network([data, weight, topi.nn.relu(sums)], {"batch": (1, 8)}, constants={1: values})
    assert network.kind == "product"
    run = network.compiled()
    for images in (1, 2, 3, 8):
        x = random(images, 7, 7, 5)
        found = torch.nn.functional.conv2d(
            torch.tensor(x).permute(0, 3, 1, 2),
            torch.tensor(values).permute(3, 2, 0, 1),
            None,
            stride,
            padding,
        )
        close(run(x), torch.relu(found).permute(0, 2, 3, 1).numpy())


def rows_of(name: str) -> tuple[Sequence[Any], Any]:
    """Tensors of a task that is no product, and the function on arrays."""
    batch, length = symbol("batch"), symbol("length")
    square, wide = tensor("x", batch, length, length), tensor("x", batch, length, 20)
    if name == "softmax":
        return [square, topi.nn.softmax(square, axis=-1)], softmax
    if name == "largest":
        return [square, topi.max(square, axis=-1)], lambda x: x.max(-1)
    if name == "mean over rows":
        mean = topi.divide(topi.sum(wide, axis=1), tirx.Cast("float32", length))
        return [wide, mean], lambda x: x.mean(1)
    if name == "activation":
        _, activated = fuse(wide, "gelu", ())
        return [wide, activated], gelu
    if name == "transposition":
        return [wide, topi.transpose(topi.nn.relu(wide), [0, 2, 1])], lambda x: np.maximum(x, 0).transpose(
            0, 2, 1
        )
    raise ValueError(name)


@pytest.mark.parametrize("name", ["softmax", "largest", "mean over rows", "activation", "transposition"])
def test_rows_of_any_length(name: str) -> None:
    tensors, wanted = rows_of(name)
    network = Network(tensors, {"batch": (1, 3), "length": (1, 64)})
    assert network.kind == "rows"
    run = network.compiled()
    last = tensors[0].shape[-1]
    for rows in SIZES:
        x = random(2, rows, rows if isinstance(last, tirx.Var) else 20)
        close(run(x), wanted(x))


def test_layer_norm() -> None:
    """Mean and variance of a row are kept for this row alone."""
    batch, length = symbol("batch"), symbol("length")
    data, scale, shift = tensor("data", batch, length, 20), tensor("scale", 20), tensor("shift", 20)
    run = Network(
        [data, scale, shift, topi.nn.layer_norm(data, scale, shift, [2], 1e-5)],
        {"batch": (1, 3), "length": (1, 64)},
    ).compiled()
    for rows in (1, 2, 9):
        x, g, b = random(2, rows, 20), random(20), random(21)[:20]
        wanted = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
        close(run(x, g, b), wanted)


def test_pooling_of_a_padded_image() -> None:
    batch = symbol("batch")
    data = tensor("data", batch, 9, 9, 10)
    pooled = topi.nn.pool2d(data, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max", layout="NHWC")
    run = Network([data, pooled], {"batch": (1, 3)}).compiled()
    for images in (1, 3):
        x = random(images, 9, 9, 10)
        found = torch.nn.functional.max_pool2d(torch.tensor(x).permute(0, 3, 1, 2), 3, 2, 1)
        close(run(x), found.permute(0, 2, 3, 1).numpy())


def test_a_size_without_a_range_is_named() -> None:
    x = tensor("x", symbol("batch"), 4)
    with pytest.raises(SizeRangeError, match=r'size batch has none.*\{"batch": \(1, 512\)\}'):
        Network([x, topi.nn.relu(x)], {"length": (1, 4)})


@pytest.mark.parametrize("ends", [(0, 4), (5, 4)])
def test_an_empty_range_is_refused(ends: tuple[int, int]) -> None:
    x = tensor("x", symbol("batch"), 4)
    with pytest.raises(SizeRangeError, match=r"batch is from \d to 4; use 1 <= smallest <= largest"):
        Network([x, topi.nn.relu(x)], {"batch": ends})


def test_families_are_the_same_each_time() -> None:
    def made() -> tuple[str, list[dict[str, Any]]]:
        data, weight = tensor("data", symbol("batch"), 20), tensor("weight", 20, 40)
        network = Network(
            [data, weight, product(data, weight)], {"batch": (1, 64)}, constants={1: random(20, 40)}
        )
        return network.made.module.script(), [task.as_json() for task in network.made.tasks]

    assert made() == made()


def test_weights_of_all_kernels_are_packed_once() -> None:
    """Columns 8..12 of 13 lie in a panel that begins at column 5."""
    values = np.arange(2 * 13, dtype=np.float32).reshape(2, 13)
    data, weight = tensor("data", symbol("batch"), 2), tensor("weight", 2, 13)
    network = Network([data, weight, product(data, weight)], {"batch": (1, 64)}, constants={1: values})
    (call,) = (
        binding.value
        for block in network.made.module["main"].body.blocks
        for binding in block.bindings
        if hasattr(binding.value, "op")
    )
    packed = call.args[1][1].value.numpy()
    lanes = packed.shape[-1]
    assert packed.shape == (-(-13 // lanes), 2, lanes)
    assert packed[-1].tolist() == values[:, 13 - lanes :].tolist()
    assert packed[0].tolist() == values[:, :lanes].tolist()
    assert len(network.made.tasks[0].tables[0].members) > 1


def test_pitch_is_the_distance_of_the_data_of_neighbouring_rows() -> None:
    """Rows of a matrix; columns of a transposed one, one element apart; places of a window of stride 2."""
    rows, weight = symbol("rows"), tensor("weight", 5, 16)
    k, tap = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 3), "tap")

    def pitch(data: te.Tensor, *reduced: Any, weight: te.Tensor = weight, at: Any) -> Any:
        sums = te.compute((rows, 16), lambda i, j: te.sum(at(i) * weight(*reduced, j), reduced), "sums")
        func = te.create_prim_func([data, weight, sums], index_dtype_override="int64")
        task = read_symbolic_product(func, frozenset({1}))
        assert task is not None
        return task.pitch

    matrix, turned, line = tensor("data", rows, 5), tensor("data", 5, rows), tensor("data", rows * 2 + 1, 5)
    assert int(pitch(matrix, k, at=lambda i: matrix(i, k))) == 5
    assert int(pitch(turned, k, at=lambda i: turned(k, i))) == 1
    window = tensor("weight", 3, 5, 16)
    assert int(pitch(line, tap, k, weight=window, at=lambda i: line(i * 2 + tap, k))) == 10


def test_symbols_are_those_of_all_extents() -> None:
    """Images after a stride have half the extent, which is no symbol itself."""
    rows, weight = symbol("rows"), tensor("weight", 5, 16)
    k, data = te.reduce_axis((0, 5), "k"), tensor("data", (rows + 1) // 2, 5)
    sums = te.compute(((rows + 1) // 2, 16), lambda i, j: te.sum(data[i, k] * weight[k, j], k), "sums")
    task = read_symbolic_product(
        te.create_prim_func([data, weight, sums], index_dtype_override="int64"), frozenset({1})
    )
    assert task is not None
    assert [var.name for var in task.symbols] == ["rows"]
