"""Choice between kernels by size: tables, rated sizes, and the closed form, by hand-worked values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from foretune.compiler.templates.cpu.dynamic.choice import cheapest, choose, sampled_sizes
from foretune.compiler.templates.cpu.dynamic.kernel_parameters import KernelParameters, row_tiles
from foretune.compiler.templates.cpu.dynamic.prediction import (
    Machine,
    ProductSize,
    ProductSizes,
    cycles,
    cycles_at,
    members,
    panel_widths,
)
from foretune.compiler.templates.cpu.template import COLUMNS_FIRST, ROWS_FIRST

AVX2 = Machine(lanes=8, registers=16, cores=1)


def times(candidates: Sequence[Any], sizes: Sequence[int], cost: Callable[[Any, int], float]) -> Any:
    """Times [candidates, sizes]."""
    return np.array([[cost(one, size) for size in sizes] for one in candidates])


def tiles(tile: int, size: int) -> float:
    """Rows that tiles of this many rows compute; a tile needs as many."""
    return math.inf if size < tile else math.ceil(size / tile) * tile


def test_each_size_takes_the_kernel_that_computes_the_fewest_rows() -> None:
    """One row at a time costs 1.5 a row here: 4 rows at once are worse for 5 (8 rows against 7.5)."""

    def cost(tile: int, size: int) -> float:
        return tiles(tile, size) * (1.5 if tile == 1 else 1.0)

    sizes = [1, 2, 3, 4, 5, 8, 100]
    family = choose([1, 4], sizes, times([1, 4], sizes, cost))
    assert family.members == (1, 4)
    assert family.breakpoints == (4, 5, 8)
    assert family.chosen == (0, 1, 0, 1)
    assert [family.at(size) for size in (1, 3, 4, 5, 7, 8, 1000)] == [1, 1, 4, 1, 1, 4, 4]
    assert family.regret_worst == family.regret_mean == 0


def test_a_kernel_that_saves_too_little_is_left_out() -> None:
    family = choose([1, 2], [1, 2, 4, 8], np.array([[1, 2, 4, 8], 0.9999 * np.array([np.inf, 2, 4, 8])]))
    assert family.members == (1,)
    assert family.breakpoints == ()
    assert family.regret_worst == pytest.approx(1 / 0.9999 - 1)


def test_no_more_kernels_than_allowed() -> None:
    found = range(1, 6)
    family = choose(found, found, times(found, found, lambda one, size: 1.0 + abs(one - size)), most=2)
    assert len(family.members) == 2


def test_a_kernel_runs_at_no_size_that_it_is_wrong_for() -> None:
    """The kernel of four rows is the fastest from four rows on."""
    sizes = range(1, 20)
    cost = times([1, 4], sizes, lambda one, size: 1.0 if one == 1 else 0.01 * tiles(4, size))
    family = choose([1, 4], sizes, cost)
    assert [family.at(size) for size in (1, 2, 3, 4, 19)] == [1, 1, 1, 4, 4]


def test_all_small_sizes_are_rated_and_large_ones_by_octave() -> None:
    sizes = sampled_sizes(1, 512)
    assert sizes == sorted(set(sizes))
    assert sizes[:65] == list(range(1, 66))
    assert sizes[-1] == 512
    assert sum(size > 256 for size in sizes) == 8
    assert sampled_sizes(7, 7) == [7]


@pytest.mark.parametrize(
    ("columns", "widths"),
    [(1, [1]), (3, [2]), (7, [4]), (8, [8]), (15, [8]), (17, [8, 16]), (768, [8, 16, 24, 32])],
)
def test_panels_are_no_wider_than_the_columns(columns: int, widths: list[int]) -> None:
    assert panel_widths(columns, lanes=8) == widths


def test_a_further_panel_is_a_further_stream() -> None:
    """6 x 2 vectors take 6 cycles a step from one panel of two vectors, and 1 % more from two panels."""
    size = ProductSize(6, 16, 64)
    wide, narrow = (
        cycles(KernelParameters(16 // panels, 6, panels, COLUMNS_FIRST, 2 // panels), size, AVX2)
        for panels in (1, 2)
    )
    assert narrow - wide == pytest.approx(64 * 6 * 0.01)


def test_wide_panels_fit_into_the_registers() -> None:
    found = [
        (one.rows, one.vectors, one.panels)
        for width in (8, 16, 24, 32)
        for one in members(width, most_rows=100, most_panels=100, machine=AVX2)
    ]
    assert {(6, 2, 1), (4, 3, 1), (2, 4, 1), (1, 4, 2), (1, 2, 4)} <= set(found)
    assert not {(7, 2, 1), (3, 4, 1), (1, 4, 3)} & set(found)


def test_the_family_of_the_fastest_width_is_taken() -> None:
    """Kernel `b` is slower at size 1 and faster at all others: the regret is that of size 1, weighted."""
    predicted = np.array([[1.0, 2.0, 4.0], [1.5, 1.0, 2.0]])
    families = [choose(name, [1, 2, 4], predicted[[row]]) for row, name in enumerate("ab")]
    found = cheapest(families, "ab", [1, 2, 4], predicted)
    assert found.members == ("b",) and found.regret_worst == pytest.approx(0.5)
    assert 0 < found.regret_mean < 0.5


def test_register_tiles_fit_into_the_registers() -> None:
    found = {(one.rows, one.panels) for one in members(8, most_rows=100, most_panels=100, machine=AVX2)}
    assert {(6, 2), (4, 3), (2, 4), (1, 8), (8, 1)} <= found
    # 7 x 2 sums, 2 vectors of weights and one element are 17 registers; 9 x 1 loads one for each product
    assert not {(7, 2), (5, 3), (3, 4), (9, 1)} & found
    assert {one.rows for one in members(8, most_rows=3, most_panels=1, machine=AVX2)} == {1, 2, 3}


def test_cycles_of_a_product_that_fills_its_tiles() -> None:
    """6 x 2 vectors: 12 multiply-adds, two a cycle, take 6 cycles; 12 rows and 32 columns are 4 tiles."""
    member, size = KernelParameters(16, 6, 1, COLUMNS_FIRST, 2), ProductSize(12, 32, 64)
    assert cycles(member, size, AVX2) == 4 * (64 * 6 + 60 + 4 * 12)
    assert cycles(member, size, Machine(8, 16, cores=3)) == 2 * (64 * 6 + 60 + 4 * 12)


def test_a_sum_of_pairs_has_half_as_many_steps() -> None:
    """63 terms are 31 pairs and a half."""
    member = KernelParameters(16, 6, 1, COLUMNS_FIRST, 2)
    pairs = replace(member, pairs="avx512_bf16")
    assert cycles(pairs, ProductSize(12, 32, 63), AVX2) == cycles(member, ProductSize(12, 32, 32), AVX2)


def test_one_row_more_makes_three_tiles_of_five_rows() -> None:
    """15 rows are computed for 13: 10 multiply-adds take 5 cycles."""
    member = KernelParameters(16, 6, 1, COLUMNS_FIRST, 2)
    assert cycles(member, ProductSize(13, 32, 64), AVX2) == 6 * (64 * 5 + 60 + 4 * 10)


def test_tiles_of_two_heights_share_the_cost() -> None:
    """17 rows are two tiles of 6 and one of 5."""
    member = KernelParameters(16, 6, 1, COLUMNS_FIRST, 2)
    assert cycles(member, ProductSize(17, 16, 64), AVX2) == 2 * (64 * 6 + 108) + (64 * 5 + 100)


def test_rows_a_whole_way_apart_push_each_other_out_of_the_first_cache() -> None:
    """12 lines share one place of 8 ways: (1 - 8 / 12) ** 2 of them are lost, 2.5 cycles each."""
    member = KernelParameters(8, 12, 1, COLUMNS_FIRST)
    alone, apart = (cycles(member, ProductSize(12, 8, 64, pitch=pitch), AVX2) for pitch in (1024 + 16, 1024))
    assert alone == 64 * 6.5 + 60 + 4 * 12
    assert apart == pytest.approx(64 * 6.5 * (1 + 2.5 * 2 / 9) + 60 + 4 * 12)


@pytest.mark.parametrize("height", range(1, 15))
def test_tiles_cover_all_rows_and_few_twice(height: int) -> None:
    for rows in range(max(1, height - 1), 101):
        count, tall = row_tiles(rows, height)
        assert 0 <= tall <= count == math.ceil(rows / height)
        computed = tall * height + (count - tall) * (height - 1)
        assert computed >= rows
        assert computed == rows or (tall == 0 and rows < (height - 1) * (height - 2))


def test_one_pass_streams_weights_from_far() -> None:
    """One row reads 8 vectors of 32 bytes a step, 12 bytes a cycle, of weights that no cache keeps."""
    member, size = KernelParameters(8, 1, 8, COLUMNS_FIRST), ProductSize(1, 1024, 1024)
    assert cycles(member, size, AVX2) == pytest.approx(16 * (1024 * 256 / 12 + 60 + 4 * 8))


@pytest.mark.parametrize("order", [COLUMNS_FIRST, ROWS_FIRST])
def test_several_sizes_are_predicted_at_once(order: str) -> None:
    """Sizes with weights in each cache, of one pass and of several, and with outputs that no cache keeps."""
    sizes = [
        ProductSize(*extents)
        for extents in [(1, 8, 3), (6, 64, 64), (13, 1024, 1024), (1, 1024, 1024), (1 << 16, 48, 16, 2, 3)]
    ]
    for member in (KernelParameters(16, 6, 1, order, 2), KernelParameters(8, 1, 4, order)):
        for machine in (AVX2, Machine(lanes=16, registers=32, cores=3)):
            alone = [cycles(member, size, machine) for size in sizes]
            assert cycles_at(member, ProductSizes.of(sizes), machine).tolist() == alone
            assert len(set(alone)) == len(sizes)


def test_a_large_output_is_written_in_whole_rows() -> None:
    """Three tiles across 2^16 rows: 6 x 16 elements of 4 bytes take 32 cycles longer by columns."""
    size = ProductSize(1 << 16, 48, 16)
    by_columns, by_rows = (
        cycles(KernelParameters(16, 6, 1, order, 2), size, AVX2) for order in (COLUMNS_FIRST, ROWS_FIRST)
    )
    _, tall = row_tiles(size.rows, 6)
    elements = 16 * size.rows
    assert tall > 0 and by_columns - by_rows == pytest.approx(3 * 4 * elements / 12, rel=1e-3)
    small = ProductSize(64, 48, 16)
    costs = {
        cycles(KernelParameters(16, 6, 1, order, 2), small, AVX2) for order in (COLUMNS_FIRST, ROWS_FIRST)
    }
    assert len(costs) == 1


def test_weights_that_are_fetched_again_are_not_hidden_whole() -> None:
    """6 x 2 vectors take 6 cycles a step, and 64 bytes of weights 5.3; 1 MB of them fit into no cache.

    By columns, all rows use a tile's weights before the next ones are fetched ahead.
    """
    size = ProductSize(12, 256, 1024)
    by_columns, by_rows = (
        cycles(KernelParameters(16, 6, 1, order, 2), size, AVX2) for order in (COLUMNS_FIRST, ROWS_FIRST)
    )
    assert by_columns == pytest.approx(32 * (1024 * 6 + 60 + 4 * 12))
    together = (6**3 + (64 / 12) ** 3) ** (1 / 3)
    assert by_rows == pytest.approx(32 * (1024 * together + 60 + 4 * 12))


@pytest.mark.parametrize("machine", [AVX2, Machine(lanes=16, registers=32, cores=2)])
@pytest.mark.parametrize(("low", "high"), [(1, 512), (70, 400)])
def test_the_worst_regret_holds_next_to_multiples_of_tiles(machine: Machine, low: int, high: int) -> None:
    """Above the small sizes, rated ones lie on a grid, which leaves out most of these neighbours."""

    def predicted(kernel: KernelParameters, rows: int) -> float:
        size = ProductSize(rows, 256, 768)
        return math.inf if rows < kernel.least_rows else cycles(kernel, size, machine)

    kernels = list(members(machine.lanes, high, 256 // machine.lanes, machine))
    rated = sampled_sizes(low, high)
    family = choose(kernels, rated, times(kernels, rated, predicted))
    near = {rows + step for tile in range(2, 15) for rows in range(tile, high, tile) for step in (-1, 0, 1)}
    others = [rows for rows in sorted(near - set(rated))[::3] if low <= rows <= high]
    best = {rows: min(predicted(one, rows) for one in kernels) for rows in others}
    worst = max(predicted(family.at(rows), rows) / best[rows] - 1 for rows in others)
    assert len(others) > 50 and worst < max(0.01, family.regret_worst)
