"""Cost functions of BShape and TShape (ETO, section 5.1), and their counterparts on a CPU.

All functions count the memory requests of the reads in the unscheduled block, for arrays of n shapes at once.
A tile consists of the extents along all axes of the block, each float32 [n].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.structure import Access, Block, Floats

GPU_LINE_BYTES = 32
"""Bytes of a cache-line request on a GPU: a sector, the unit of global reads and of Example 3's counts."""

CPU_LINE_BYTES = 64
"""Bytes of a CPU's cache line."""

BANKS, BANK_BYTES, WARP = 32, 4, 32
"""Banks of shared memory, bytes that a bank serves at a time, and threads that are served together."""


def inputs(block: Block) -> list[Access]:
    """Reads of a block, except its own output."""
    written = {write.buffer for write in block.writes}
    return [read for read in block.reads if read.buffer not in written]


def line_requests(access: Access, tile: Sequence[Floats], line_bytes: float) -> Floats:
    """Lines that a tile's part of a buffer occupies, if each contiguous run begins on a new line; [n]."""
    touched, run = access.footprint(tile)
    lines: Floats = touched / run * np.ceil(run / np.float32(line_bytes))
    return lines


def block_line_requests(block: Block, tile: Sequence[Floats], line_bytes: float) -> Floats:
    """Lines of all inputs of one block (BShape cost for one block of threads, or one chunk); [n].

    A block requests its input at once. Each block requests as many lines as the first one (GetBShape).
    """
    return np.sum([line_requests(read, tile, line_bytes) for read in inputs(block)], axis=0)


def register_requests(block: Block, tile: Sequence[Floats], vector_bytes: float) -> Floats:
    """Vectors of all inputs that one iteration around a register tile loads (CPU counterpart); [n]."""
    return block_line_requests(block, tile, vector_bytes)


def shared_requests(
    block: Block,
    fetched: Sequence[int],
    axes: Sequence[int],
    virtual: NDArray[np.int64],
    threads: NDArray[np.int64],
    inner: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Conflict-free shared-memory requests of all threads of a block in one fetch (TShape cost); [n].

    A thread loads each element that it needs once (GetTShape). The requests of a warp for one element are
    served together, unless they need different words from one bank. All elements have the same conflicts as
    the first one, because their addresses differ by equal amounts.

    Args:
        fetched: extents of one fetch by axis of the block: BShape, and a part of the reduction.
        axes: space axes of the block.
        virtual, threads, inner: virtual threads, threads, and outputs of a thread along each space axis,
            int64 [n, len(axes)]; the number of threads is equal for all n.
    """
    tile = [np.full(len(threads), extent, np.float32) for extent in fetched]
    for column, axis in enumerate(axes):
        tile[axis] = inner[:, column].astype(np.float32)
    total = np.zeros(len(threads))
    for read in inputs(block):
        whole = read.extents([np.float32(extent) for extent in fetched])
        buffer = replace(read, shape=tuple(int(size) for size in whole))
        strides = np.array([buffer.stride(axis) for axis in axes], dtype=np.int64)
        elements = np.prod(buffer.extents(tile), axis=0, dtype=np.float64)
        elements *= np.where(strides > 0, virtual, 1).prod(axis=1)
        steps = strides * inner
        # Threads along an axis that does not index the buffer still influence the grouping into warps.
        alike, of_row = np.unique(np.concatenate([threads, steps], axis=1), axis=0, return_inverse=True)
        their_threads, their_steps = np.split(alike, 2, axis=1)
        words = np.einsum("nta,na->nt", _places(their_threads), their_steps)
        waves = _wavefronts(words * int(read.element_bytes) // BANK_BYTES)
        total += elements * waves[of_row.reshape(-1)]
    return total


def _places(threads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Coordinates of each thread along the axes; the last axis varies fastest; [n, T, axes]."""
    count = int(threads[0].prod()) if len(threads) else 0
    numbers = np.arange(count)[None, :]
    found = np.empty((len(threads), count, threads.shape[1]), dtype=np.int64)
    inside = np.ones((len(threads), 1), dtype=np.int64)
    for column in range(threads.shape[1] - 1, -1, -1):
        along = threads[:, column : column + 1]
        found[:, :, column] = numbers // inside % along
        inside = inside * along
    return found


def _wavefronts(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Requests of all warps for one element each: per warp, the most words requested from one bank; [n].

    `words` [n, threads] are addresses. Equal words are served together.
    """
    padding = np.repeat(words[:, -1:], -words.shape[1] % WARP, axis=1)
    warps = np.sort(np.concatenate([words, padding], axis=1).reshape(-1, WARP), axis=1)
    first = np.ones(warps.shape, dtype=np.bool_)
    first[:, 1:] = warps[:, 1:] != warps[:, :-1]
    slots = np.arange(len(warps))[:, None] * BANKS + warps % BANKS
    asked = np.bincount(slots[first], minlength=len(warps) * BANKS).reshape(-1, BANKS)
    most: NDArray[np.int64] = asked.max(axis=1).reshape(len(words), -1).sum(axis=1)
    return most
