"""Waste of caches, cores and vectors in lowered programs, worked by hand."""

from __future__ import annotations

import pytest
from foretune.compiler.counts.traffic import LoweredStores
from foretune.compiler.tvm_compat import as_task_module
from support.products import matmul, ordered
from tvm import te
from tvm.s_tir.schedule import Schedule


def row_by_row(rows, width, columns):
    """Sums of the first columns of a matrix, in which a tile of columns is read row by row."""
    k = te.reduce_axis((0, rows), name="k")
    x = te.placeholder((rows, width), name="x")
    mod = as_task_module(
        te.create_prim_func([x, te.compute((width,), lambda i: te.sum(x[k, i], axis=k), name="sums")])
    )
    schedule = Schedule(mod)
    block = schedule.get_sblock("sums")
    i, k = schedule.get_loops(block)
    outer, inner = schedule.split(i, [None, columns])
    schedule.reorder(outer, k, inner)
    schedule.decompose_reduction(block, outer)
    return schedule.mod


@pytest.mark.parametrize(
    ("columns", "cache_bytes", "runs"),
    [
        # Zeros are one stretch. All of x fits: it is one stretch, and so are the sums.
        (1024, 2**22, 3),
        (16, 2**22, 3),
        # A tile of 16 columns is a line of each of 64 rows, and its sums follow those of the last one. There
        # are more rows than a prefetcher follows, so that each of the 64 tiles has 64 stretches.
        (16, 8192, 2 + 64 * 64),
        (256, 2**17, 2 + 4 * 64),
        # Whole rows follow each other: each is fetched where the last one ended.
        (1024, 8192, 3),
    ],
)
def test_lines_that_follow_each_other_are_one_stretch(columns, cache_bytes, runs):
    assert LoweredStores(row_by_row(64, 1024, columns)).fetched_runs(cache_bytes, 64) == runs


def test_a_few_streams_go_on_where_they_ended():
    few, many = (LoweredStores(row_by_row(rows, 1024, 16)) for rows in (16, 17))
    # Tiles of 16 lines and one of sums do not stay for the next one.
    assert few.fetched_runs(17 * 64, 64) == 1 + 1 + 16
    assert many.fetched_runs(18 * 64, 64) == 1 + 1 + 17 * 64


def vector_of(shape, index):
    """A copy with one vector of all elements of a shape, of which `index` reads a buffer of 64 x 64."""
    x = te.placeholder((64, 64), name="x")
    copy = te.compute((1, *shape), lambda _, *at: x[index(*at)], name="copy")
    schedule = Schedule(as_task_module(te.create_prim_func([x, copy])))
    _, *inner = schedule.get_loops(schedule.get_sblock("copy"))
    schedule.vectorize(schedule.fuse(*inner))
    return LoweredStores(schedule.mod)


@pytest.mark.parametrize(
    ("shape", "index", "scattered"),
    [
        ((16,), lambda j: (3, j), 0),
        ((16,), lambda j: (3, j + 5), 0),
        ((16,), lambda j: (3, 7), 0),  # one element for all lanes
        ((16,), lambda j: (j, 7), 16),
        ((16,), lambda j: (3, 2 * j), 16),
        ((16,), lambda j: (3, 15 - j), 16),
        ((2, 7), lambda i, j: (i, j), 14),  # two rows of 7 in one vector
        ((2, 7), lambda i, j: (i, 0), 2),  # each for half of the lanes
        ((2, 64), lambda i, j: (i, j), 0),  # whole rows follow each other
    ],
)
def test_elements_of_a_vector_that_do_not_follow_each_other_are_scattered(shape, index, scattered):
    assert vector_of(shape, index).scattered_accesses() == scattered


def test_a_loop_that_is_no_vector_scatters_nothing():
    assert LoweredStores(ordered(16, "i", "k", "j")).scattered_accesses() == 0
    # Columns of b are 16 elements apart in each of 16 x 16 vectors of rows.
    schedule = Schedule(matmul(16))
    i, _, _ = schedule.get_loops(schedule.get_sblock("product"))
    schedule.reorder(*schedule.get_loops(schedule.get_sblock("product"))[1:], i)
    schedule.vectorize(i)
    schedule.decompose_reduction(
        schedule.get_sblock("product"), schedule.get_loops(schedule.get_sblock("product"))[0]
    )
    # Zeros, sums twice and a: rows of 16 elements each.
    assert LoweredStores(schedule.mod).scattered_accesses() == 16 * 16 + 3 * 16**3


def in_parallel(rows, width, tile, *, by_columns, vectorise=False):
    """A copy of a matrix by cores that take tiles of its columns, or its rows."""
    x = te.placeholder((rows, width), name="x")
    copy = te.compute((rows, width), lambda i, j: x[i, j] * 2.0, name="copy")
    schedule = Schedule(as_task_module(te.create_prim_func([x, copy])))
    i, j = schedule.get_loops(schedule.get_sblock("copy"))
    outer, inner = schedule.split(j, [None, tile])
    if by_columns:
        schedule.reorder(outer, i, inner)
    schedule.parallel(outer if by_columns else i)
    if vectorise:
        schedule.vectorize(inner)
    return LoweredStores(schedule.mod)


@pytest.mark.parametrize(
    ("rows", "width", "tile", "by_columns", "contested"),
    [
        (8, 16, 8, True, 8 * 16),  # two halves of each line
        (8, 32, 16, True, 0),  # a line each
        (8, 64, 8, True, 0),  # eight tiles, four lines: each core has two whole lines of a row
        (8, 48, 8, True, 8 * 16),  # of six tiles each core has three, and they share the second line
        (8, 16, 8, False, 0),  # rows of whole lines
        (2, 8, 8, False, 2 * 8),  # two rows in one line
        (4, 12, 4, False, 12),  # rows of 48 bytes: the second and the third one share one of their two lines
    ],
)
def test_stores_into_lines_of_two_cores_are_contested(rows, width, tile, by_columns, contested):
    nest = in_parallel(rows, width, tile, by_columns=by_columns)
    assert nest.contested_stores(2, 64) == contested
    assert nest.contested_stores(1, 64) == 0
    vectors = in_parallel(rows, width, tile, by_columns=by_columns, vectorise=True)
    assert vectors.contested_stores(2, 64) == contested / tile  # a store each


def test_a_buffer_of_each_iteration_is_not_contested():
    x = te.placeholder((64, 4), name="x")
    doubled = te.compute((64, 4), lambda i, j: x[i, j] * 2.0, name="doubled")
    k = te.reduce_axis((0, 4), name="k")
    sums = te.compute((64, 16), lambda i, j: te.sum(doubled[i, k], axis=k), name="sums")
    schedule = Schedule(as_task_module(te.create_prim_func([x, sums])))
    i, *_ = schedule.get_loops(schedule.get_sblock("sums"))
    schedule.compute_at(schedule.get_sblock("doubled"), i)
    schedule.parallel(i)
    assert LoweredStores(schedule.mod).contested_stores(2, 64) == 0
