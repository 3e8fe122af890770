"""BShape, TShape and LShape, against Example 3 of ETO and by properties."""

from __future__ import annotations

import math

import pytest
from foretune.compiler.structure.limits import GpuLimits
from foretune.dataset.features.reading import task_reading
from foretune.inference.eto.search.program_features import Interval
from foretune.inference.eto.search.shapes import (
    CpuShapes,
    GpuShapes,
    OneCoreShapes,
    TShape,
    least_divisor,
)
from hypothesis import given
from hypothesis import strategies as st
from support.drafts import matmul
from support.reuse import CHILD

SHARED = 11264 * 4
"""Bytes of shared memory of a block of S*_β."""


@pytest.fixture(scope="module")
def child():
    return GpuShapes(task_reading(CHILD.mod).structure.anchor, GpuLimits())


def test_numbers_of_blocks_and_the_best_bshape_of_example_3(child):
    found = dict(child.block_shapes(Interval(28, 112)))
    assert list(found) == [28, 32, 49, 56, 64, 98, 112]
    assert found[56] == (1, 32, 2, 28)


def test_default_lshape_of_example_3(child):
    assert child.load_shape((1, 32, 2, 28), SHARED) == (2, 1, 1)
    assert child.step_bytes((1, 32, 2, 28), (2, 1, 1)) == SHARED
    assert child.load_shapes() == [(2**power, 1, 1) for power in range(9)]


def test_numbers_of_threads_and_the_best_tshapes_of_example_3(child):
    found = dict(child.unit_shapes((1, 32, 2, 28), (2, 1, 1), Interval(112, 224)))
    none = (1, 1, 1, 1)
    assert found == {
        112: TShape(none, (1, 4, 2, 2)),
        128: TShape(none, (1, 2, 1, 7)),
        224: TShape(none, (1, 4, 2, 1)),
    }
    assert child.unit_counts((1, 32, 2, 28), Interval(112, 224)) == [112, 128, 224]


def test_the_last_tile_is_the_least_divisor_of_what_is_left(child):
    # "for a space loop of length 16, the tile sizes on the first 3 levels are 2": 16 = 2 x 8, 8 = 2 x 2 x 2.
    assert child.space_tile(16, 8, 2, 2) == [2, 2, 2, 1, 2]
    # The loops of the program in Figure 2b.
    assert child.space_tile(128, 32, 1, 4) == [4, 1, 8, 2, 2]
    assert child.reduction_tile(512, 4) == [4, 64, 2]
    assert child.reduction_tile(1, 1) == [1, 1, 1]
    assert [least_divisor(n) for n in (1, 2, 9, 35, 13)] == [1, 2, 3, 5, 13]


def test_a_cpus_register_tile_loads_few_vectors():
    # c[32, 64] += a[32, 64] b[64, 64] in one chunk, register tiles of 64 outputs: a tile of 8 x 8 loads 8
    # scalars and a vector, one of 4 x 16 loads 4 and 2, one of 2 x 32 loads 2 and 4.
    shapes = CpuShapes(matmul(32, 64, 64).blocks[0], vector_bytes=32)
    ((units, shape),) = shapes.unit_shapes((32, 64), (1,), Interval(32, 32))
    assert units == 32
    assert shape.tile in ((4, 16), (2, 32))


def test_the_shapes_of_one_core_have_one_chunk_and_one_step():
    shapes = OneCoreShapes(matmul(16, 32, 64).blocks[0])
    ((count, chunk),) = shapes.block_shapes(Interval(1, 1))
    assert (count, chunk) == (1, (16, 32))
    units = [unit for _, unit in shapes.unit_shapes(chunk, shapes.load_shapes()[0], Interval(1, 1e9))]
    assert units
    for unit in units:
        sizes = zip((16, 32), chunk, unit.virtual, unit.tile, strict=True)
        assert all(shapes.space_tile(*of)[:2] == [1, 1] for of in sizes)


def test_a_cpus_reduction_keeps_its_last_factor_legal():
    shapes = CpuShapes(matmul(8, 8, 512).blocks[0])
    assert min(shapes.load_shapes()) == (8,)
    assert shapes.reduction_tile(512, 8) == [8, 64]


extents = st.tuples(*[st.sampled_from([1, 2, 3, 6, 7, 16, 20, 28, 64])] * 3)
low, high = st.integers(1, 40), st.integers(1, 8)


@given(extents, low, high, st.booleans())
def test_tiles_of_all_shapes_multiply_to_the_extents(sizes, least, factor, on_gpu):
    block = matmul(*sizes).blocks[0]
    shapes = GpuShapes(block, GpuLimits(min_threads=1)) if on_gpu else CpuShapes(block)
    blocks = Interval(least, least * factor)
    for count, shape in shapes.block_shapes(blocks):
        assert blocks.low <= count <= blocks.high
        assert math.prod(size // part for size, part in zip(sizes[:2], shape, strict=True)) == count
        loads = shapes.load_shape(shape, 4096)
        units = Interval(1, 64)
        seen = []
        for unit, chosen in shapes.unit_shapes(shape, loads, units):
            seen.append(unit)
            tiles = [
                shapes.space_tile(*place)
                for place in zip(sizes[:2], shape, chosen.virtual, chosen.tile, strict=True)
            ]
            assert [math.prod(tile) for tile in tiles] == list(sizes[:2])
            if on_gpu:
                assert math.prod(tile[2] for tile in tiles) == unit
            else:
                assert math.prod(shape) // math.prod(tile[3] for tile in tiles) == unit
        assert seen == shapes.unit_counts(shape, units)
        assert math.prod(shapes.reduction_tile(sizes[2], loads[0])) == sizes[2]
