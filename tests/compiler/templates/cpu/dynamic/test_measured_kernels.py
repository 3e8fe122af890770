"""Measured kernels that correct the closed form, by hand-worked values and made-up times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters
from foretune.compiler.templates.cpu.dynamic.measured_kernels import (
    Correction,
    Measure,
    MeasuredKernel,
    size_at,
)
from foretune.compiler.templates.cpu.dynamic.product_family import FamilyTable
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST, ROWS_FIRST
from foretune.compiler.tvm_compat import argument_buffers
from tvm import te

from tests.compiler.templates.cpu.dynamic.kernels import Network, product, symbol, tensor

A, B, C = (KernelParameters(8, rows, 2, COLUMNS_FIRST) for rows in (4, 5, 6))
SIZES = [23, 181]
"""Sizes that are measured, from 1 to 512."""


def table(measure: Measure | None = None) -> FamilyTable:
    """Table of a product of 1 to 512 rows."""
    data, weight = tensor("data", symbol("batch"), 256), tensor("weight", 256, 512)
    tensors = [data, weight, product(data, weight)]
    values = np.zeros((256, 512), np.float32)
    network = Network(tensors, {"batch": (1, 512)}, constants={1: values}, measure=measure)
    return network.made.tasks[0].tables[0]


def rows_of(module: tvm.IRModule) -> int:
    shape, _ = argument_buffers(module)[0]
    return shape[0]


def test_places_divide_a_range_on_a_logarithmic_scale() -> None:
    assert [size_at(1, 512, place) for place in (0, 1 / 6, 1 / 2, 5 / 6, 1)] == [1, 3, 23, 181, 512]
    assert size_at(7, 7, 1 / 2) == 7


def test_factors_are_smooth_between_measured_sizes() -> None:
    """Seconds a cycle of A: 1 at size 10, 4 at size 1000; half-way on a logarithmic scale, 2."""
    measured = [MeasuredKernel(A, 10, 100.0, 100.0), MeasuredKernel(A, 1000, 1000.0, 4000.0)]
    correction = Correction(measured)
    assert correction.factors(A, [1, 10, 100, 1000, 5000]) == pytest.approx([1, 1, 2, 4, 4])
    turned = KernelParameters(8, A.rows, 2, ROWS_FIRST)
    assert correction.factors(turned, [100]) == pytest.approx([2])


def test_kernels_without_measurements_have_the_mean_factor() -> None:
    """At size 10 the factors are 1 and 4, whose mean is 2; B takes twice as long as the mean there."""
    correction = Correction(
        [
            MeasuredKernel(A, 10, 1.0, 1.0),
            MeasuredKernel(B, 10, 1.0, 4.0),
            MeasuredKernel(A, 1000, 1.0, 4.0),
        ]
    )
    assert correction.factors(C, [10, 1000]) == pytest.approx([2, 4])
    assert correction.factors(B, [10, 1000]) == pytest.approx([4, 8])
    assert Correction([]).factors(A, [10, 20]).tolist() == [1, 1]


def test_kernels_that_turn_out_slow_are_not_chosen() -> None:
    """The kernel that is predicted fastest at each measured size takes ten times as long as the others."""
    sizes: list[int] = []

    def measure(modules: Sequence[tvm.IRModule]) -> list[float]:
        sizes.extend(map(rows_of, modules))
        return [1.0 if size in sizes[:index] else 10.0 for index, size in enumerate(sizes)]

    found = table(measure)
    assert sorted(set(sizes)) == SIZES
    assert all(2 <= sizes.count(size) <= 4 for size in SIZES)
    assert [one.size for one in found.measured] == sizes
    for size in SIZES:
        member = found.members[found.chosen[bisect_right(found.breakpoints, size)]]
        slow = [one.member for one in found.measured if (one.size, one.seconds) == (size, 10.0)]
        assert len(slow) == 1
        assert (member.rows, member.panels) != (slow[0].rows, slow[0].panels)


def test_all_extents_of_a_measured_kernel_are_fixed() -> None:
    """The mask has a symbol that the product lacks; rows are a multiple of a symbol."""
    batch, length = symbol("batch"), symbol("length")
    data, weight = tensor("data", batch * 2, 8), tensor("weight", 8, 8)
    mask, scale = tensor("mask", length, 8), tensor("scale", batch)
    sums = product(data, weight)
    masked = te.compute(sums.shape, lambda i, j: sums[i, j] + mask[0, j] * scale[0], name="masked")
    shapes: list[list[tuple[int, ...]]] = []

    def measure(modules: Sequence[tvm.IRModule]) -> list[None]:
        shapes.extend([shape for shape, _ in argument_buffers(module)] for module in modules)
        return [None] * len(modules)

    ranges = {"batch": (1, 64), "length": (2, 1024)}
    constants = {1: np.zeros((8, 8), np.float32)}
    Network([data, weight, mask, scale, masked], ranges, constants, measure=measure)
    assert {(one[0], one[2], one[-1]) for one in shapes} == {
        ((2 * batch_size, 8), (length_size, 8), (2 * batch_size, 8))
        for batch_size, length_size in zip((8, 32), (45, 362), strict=True)
    }


def test_without_times_predictions_decide() -> None:
    assert table(lambda modules: [None] * len(modules)) == table()
