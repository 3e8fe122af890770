"""Cost functions of shapes, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from foretune.inference.eto.search.costs import (
    block_line_requests,
    inputs,
    line_requests,
    register_requests,
    shared_requests,
)
from support.drafts import access, matmul

BLOCK = matmul(64, 64, 32).blocks[0]
"""c[64, 64] += a[64, 32] b[32, 64], float32."""


def tile(*extents):
    return [np.array([extent], np.float32) for extent in extents]


def requests(virtual, threads, inner, fetched=(16, 32, 8)):
    rows = [np.array([values]) for values in (virtual, threads, inner)]
    return shared_requests(BLOCK, fetched, [0, 1], *rows).tolist()


def test_lines_of_contiguous_runs():
    a, b = inputs(BLOCK)
    # 4 rows of a, each of 32 floats = 128 bytes: the rows are whole, so 512 bytes in a row.
    assert line_requests(a, tile(4, 8, 32), 32).tolist() == [16]
    # Half rows: 4 runs of 64 bytes.
    assert line_requests(a, tile(4, 8, 16), 32).tolist() == [8]
    # 16 rows of b, each of 3 floats: a line each.
    assert line_requests(b, tile(4, 3, 16), 32).tolist() == [16]
    assert block_line_requests(BLOCK, tile(4, 3, 16), 32).tolist() == [8 + 16]


def test_an_output_that_the_block_updates_is_no_input():
    block = matmul().blocks[0]
    updated = replace(block, reads=(*block.reads, access("c", (8, 16), [(0, 1)], [(1, 1)])))
    assert [read.buffer for read in inputs(updated)] == ["a", "b"]


def test_a_register_tile_loads_scalars_and_vectors():
    # 6 rows and 16 columns of c in one step: 6 scalars of a, 16 floats of b in two vectors of 32 bytes.
    assert register_requests(BLOCK, tile(6, 16, 1), 32).tolist() == [6 + 2]


def test_neighbouring_words_and_equal_ones_are_served_together():
    # 32 threads along j, one output each: a has one word for all, b 32 neighbouring ones. 8 elements of each
    # input: 8 * 1 + 8 * 1.
    assert requests((1, 1), (1, 32), (16, 1)) == [16 * 8 + 8]


def test_words_of_one_bank_are_served_one_after_the_other():
    # 16 x 2 threads with an output each of a 16 x 2 block. Rows of a are 8 words apart: 16 rows lie on
    # banks 0, 8, 16 and 24, four words each. b's two words are neighbours.
    assert requests((1, 1), (16, 2), (1, 1), (16, 2, 8)) == [8 * 4 + 8 * 1]


def test_strided_threads_conflict_and_virtual_threads_do_not():
    # 32 threads with two neighbouring columns each: words 0, 2, .., 62 of b lie twice on each even bank.
    side = requests((1, 1), (1, 32), (1, 2), (1, 64, 8))
    assert side == [8 * 1 + 16 * 2]
    # As virtual threads, the two columns are 32 apart: threads are neighbours.
    assert requests((1, 2), (1, 32), (1, 1), (1, 64, 8)) == [8 * 1 + 16 * 1]


def test_every_warp_counts_and_the_last_may_be_part_full():
    assert requests((1, 1), (3, 16), (1, 1), (3, 16, 8)) == [8 * 2 + 8 * 2]
