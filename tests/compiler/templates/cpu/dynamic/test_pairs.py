"""Kernels that multiply bfloat16 in pairs against NumPy, at sizes with remainders along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.operators.shared.epilogue import fuse
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.panels import panels_of
from foretune.compiler.templates.cpu.dynamic.symbolic_product import read_symbolic_product
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST, ROWS_FIRST
from numpy.testing import assert_array_equal
from support.cpus import cpu, multiplies
from tvm import te, topi

from tests.compiler.templates.cpu.dynamic.kernels import (
    NARROW,
    PAIRS,
    Array,
    Network,
    compiled_members,
    narrow,
    product,
    random,
    symbol,
    tensor,
    whole,
)

SIZES = (1, 2, 3, 5, 8, 13, 15, 16, 17, 24, 25, 31, 33, 47, 64)
"""Small ones, primes, and multiples of vectors with their neighbours."""

DOT = "avx512_bf16"

runs = multiplies("bfloat16")


def exact(array: Array) -> Array:
    return array.astype(np.float32)


def rounded(value: te.Tensor) -> te.Tensor:
    """The tensor in bfloat16."""
    return topi.cast(value, str(NARROW))


def close(found: Array, wanted: Array) -> None:
    """Compares with values that were not rounded, which changes them by up to 2^-9."""
    np.testing.assert_allclose(exact(found), wanted, rtol=2**-8, atol=2**-8)


@runs
@pytest.mark.parametrize(("depth", "columns"), [(6, 16), (7, 17), (16, 48)])
def test_kernels_are_right_at_all_sizes(depth: int, columns: int) -> None:
    """An odd number of terms ends with half a pair, and the last panel overlaps the one before it."""
    members = [
        KernelParameters(16, height, panels, order, 1, DOT)
        for height, panels in ((1, 1), (2, 1), (4, 1), (9, 1), *([(3, 2)] if columns > 16 else []))
        for order in (COLUMNS_FIRST, ROWS_FIRST)
    ]
    data, weight = narrow("data", symbol("rows"), depth), narrow("weight", depth, columns)
    values = whole(depth, columns)
    kernels = compiled_members([data, weight, product(data, weight)], values, members, PAIRS)
    for member, run in zip(members, kernels, strict=True):
        for rows in (*range(member.least_rows, 14), 31, 61):
            x = whole(rows, depth)
            assert_array_equal(run(x), exact(x) @ exact(values))


@runs
def test_panels_may_have_several_vectors() -> None:
    members = [KernelParameters(32, height, 1, COLUMNS_FIRST, 2, DOT) for height in (1, 5)]
    data, weight = narrow("data", symbol("rows"), 9), narrow("weight", 9, 50)
    values = whole(9, 50)
    kernels = compiled_members([data, weight, product(data, weight)], values, members, PAIRS)
    for member, run in zip(members, kernels, strict=True):
        for rows in (member.least_rows, 7, 11, 24):
            x = whole(rows, 9)
            assert_array_equal(run(x), exact(x) @ exact(values))


@runs
def test_the_last_term_of_an_odd_sum_reads_nothing_of_the_next_row() -> None:
    data, weight = narrow("data", symbol("rows"), 3), narrow("weight", 3, 16)
    member = KernelParameters(16, 2, 1, COLUMNS_FIRST, 1, DOT)
    (run,) = compiled_members([data, weight, product(data, weight)], whole(3, 16), [member], PAIRS)
    x = np.array([[1, 2, 3], [np.nan, np.inf, np.nan]], NARROW)
    assert np.isfinite(run(x)[0]).all() and np.isnan(run(x)[1]).all()


def test_panels_have_pairs_next_to_each_other() -> None:
    """Three terms of five columns: panels begin at columns 0 and 1, and zeros fill up the second pair."""
    data, weight = narrow("data", symbol("rows"), 3), narrow("weight", 3, 5)
    func = te.create_prim_func([data, weight, product(data, weight)], index_dtype_override="int64")
    task = read_symbolic_product(func, frozenset({1}))
    assert task is not None and task.types == ("bfloat16", "bfloat16", "float32")
    found = panels_of(np.arange(15).reshape(3, 5).astype(NARROW), task, 4, 2)
    assert found.dtype == NARROW
    assert found.astype(int).tolist() == [
        [[0, 5, 1, 6, 2, 7, 3, 8], [10, 0, 11, 0, 12, 0, 13, 0]],
        [[1, 6, 2, 7, 3, 8, 4, 9], [11, 0, 12, 0, 13, 0, 14, 0]],
    ]


@pytest.mark.parametrize(
    ("target", "columns", "pairs"), [(PAIRS, 40, DOT), (PAIRS, 9, ""), (cpu("x86-64-v4"), 40, "")]
)
def test_kernels_multiply_in_pairs_where_the_target_can(target: Any, columns: int, pairs: str) -> None:
    """Vectors of fewer columns are converted to float32."""
    data, weight = narrow("data", symbol("rows"), 20), narrow("weight", 20, columns)
    network = Network(
        [data, weight, product(data, weight)], {"rows": (1, 64)}, {1: whole(20, columns)}, target
    )
    (table,) = network.made.tasks[0].tables
    assert {member.pairs for member in table.members} == {pairs}


@runs
@pytest.mark.parametrize(("depth", "columns"), [(20, 40), (21, 33), (20, 9), (7, 1)])
def test_linear_layer_with_bias_gelu_and_residual(depth: int, columns: int) -> None:
    batch, length = symbol("batch"), symbol("length")
    data, weight = narrow("data", batch, length, depth), narrow("weight", depth, columns)
    bias, residual = tensor("bias", columns), narrow("residual", batch, length, columns)
    _, activated = fuse(topi.add(product(data, weight), bias), "gelu", ())
    total = rounded(topi.add(activated, topi.cast(residual, "float32")))
    values = (whole(depth, columns) / 8).astype(NARROW)
    network = Network(
        [data, weight, bias, residual, total], {"batch": (1, 4), "length": (1, 64)}, {1: values}, PAIRS
    )
    assert network.kind == "product"
    run = network.compiled()
    for rows in SIZES:
        x, b, r = whole(2, rows, depth), random(columns), whole(2, rows, columns)
        hidden = torch.from_numpy(exact(x) @ exact(values) + b)
        close(run(x, b, r), torch.nn.functional.gelu(hidden).numpy() + exact(r))


@runs
@pytest.mark.parametrize("turned", [True, False])
def test_scores_of_attention(turned: bool) -> None:
    """Few keys do not fill a vector; others are brought into panels."""
    batch, length = symbol("batch"), symbol("length")
    query = narrow("query", batch, length, 6)
    key = narrow("key", batch, *((length, 6) if turned else (6, length)))
    tensors = [query, key, product(query, key, turned=turned)]
    run = Network(tensors, {"batch": (1, 3), "length": (1, 64)}, target=PAIRS).compiled()
    for rows in SIZES:
        q, k = whole(3, rows, 6), whole(3, *((rows, 6) if turned else (6, rows)))
        assert_array_equal(run(q, k), exact(q) @ exact(k.transpose(0, 2, 1) if turned else k))


@runs
def test_values_of_attention() -> None:
    """The sums are over a symbolic axis, odd or even."""
    batch, length = symbol("batch"), symbol("length")
    weights, value = narrow("weights", batch, length, length), narrow("value", batch, length, 24)
    tensors = [weights, value, product(weights, value)]
    run = Network(tensors, {"batch": (1, 3), "length": (1, 64)}, target=PAIRS).compiled()
    for rows in SIZES:
        w, v = whole(2, rows, rows), whole(2, rows, 24)
        assert_array_equal(run(w, v), exact(w) @ exact(v))


@runs
def test_data_whose_terms_are_not_adjacent() -> None:
    """The rows of the data are its last axis."""
    rows, depth = symbol("rows"), te.reduce_axis((0, 7), name="k")
    data, weight = narrow("data", 7, rows), narrow("weight", 7, 20)
    sums = te.compute(
        (rows, 20),
        lambda i, j: te.sum(data[depth, i].astype("float32") * weight[depth, j].astype("float32"), depth),
        name="matmul",
    )
    values = whole(7, 20)
    run = Network([data, weight, sums], {"rows": (1, 64)}, {1: values}, PAIRS).compiled()
    for size in SIZES:
        x = whole(7, size)
        assert_array_equal(run(x), exact(x).T @ exact(values))


def images(name: str, batch: Any) -> tuple[str, Sequence[te.Tensor], dict[int, Array], Any]:
    """Kind of a task of images [batch, 9, 9, channels], its tensors and constants, and PyTorch's function."""
    from_torch = torch.nn.functional
    if name == "pooling":
        data = narrow("data", batch, 9, 9, 10)
        image = topi.cast(data, "float32")
        pooled = topi.nn.pool2d(image, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max", layout="NHWC")
        return "windows", [data, rounded(pooled)], {}, lambda x: from_torch.max_pool2d(x, 3, 2, 1)
    channels, window, stride = {"1x1": (6, 1, 1), "odd": (5, 3, 2), "even": (4, 3, 1), "computed": (4, 3, 1)}[
        name
    ]
    data, weight = narrow("data", batch, 9, 9, channels), narrow("weight", window, window, channels, 20)
    image, padding = data, window // 2
    if name == "computed":  # the padding is computed in each term
        image, padding = topi.nn.pad(data, [0, 1, 1, 0]), 0
    sums = topi.nn.conv2d(
        *(image, weight, stride, padding, 1),
        data_layout="NHWC",
        kernel_layout="HWIO",
        out_dtype="float32",
    )
    values = whole(window, window, channels, 20)
    filters = torch.from_numpy(exact(values)).permute(3, 2, 0, 1)
    return (
        "rows" if name == "computed" else "product",
        [data, weight, topi.nn.relu(sums)],
        {1: values},
        lambda x: torch.relu(from_torch.conv2d(x, filters, None, stride, window // 2)),
    )


@runs
@pytest.mark.parametrize("name", ["1x1", "odd", "even", "computed", "pooling"])
def test_images_with_channels_last(name: str) -> None:
    kind, tensors, constants, wanted = images(name, symbol("batch"))
    network = Network(tensors, {"batch": (1, 8)}, constants, PAIRS)
    assert network.kind == kind
    run = network.compiled()
    for batch in (1, 2, 3, 8):
        x = whole(*(int(extent) if at else batch for at, extent in enumerate([1, *tensors[0].shape[1:]])))
        expected = wanted(torch.from_numpy(exact(x)).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        assert_array_equal(exact(run(x)), expected.numpy())
