"""Product of matrices that a sketch for tensor instructions makes of a block, by fusing its axes.

MetaSchedule copies the operands into matrices first (`ReIndex`): a convolution's windows become rows. The axes
of the product are those that are not fused, such as the batch of a batched product, then rows, columns and the
summed axis. Extents are filled up to whole tiles of the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from .structure import Access, Block, Term

MATRIX_AXES = 3
"""Axes of a product without a batch: rows, columns, summed."""

OPEN = 0
"""Size of a loop that a tile of the sketch will replace."""

TRANSPOSED = "_trans"
"""Part of the name of an instruction whose right operand has the summed axis last."""


def product_block(block: Block, extents: Sequence[int], *, transposed: bool) -> Block:
    """Product that stands for a block; `extents` [n_axes] are those of its axes in order."""
    batch = tuple(range(len(extents) - MATRIX_AXES))
    rows, columns, summed = range(len(batch), len(extents))
    right = (columns, summed) if transposed else (summed, columns)
    operands = [read for read in block.reads if read.buffer not in {w.buffer for w in block.writes}]
    return Block(
        name=block.name,
        extents=tuple(extents),
        reduction=(*(False,) * (len(extents) - 1), True),
        writes=tuple(_matrix(write, extents, (*batch, rows, columns)) for write in block.writes[:1]),
        reads=tuple(
            _matrix(read, extents, (*batch, *axes))
            for read, axes in zip(operands, ((rows, summed), right), strict=False)
        ),
        zero_initialised=block.zero_initialised,
    )


def _matrix(access: Access, extents: Sequence[int], axes: Sequence[int]) -> Access:
    return Access(
        buffer=f"{access.buffer} as a matrix",
        shape=tuple(extents[axis] for axis in axes),
        element_bytes=access.element_bytes,
        indices=tuple((Term(1, ((axis, 1),)),) for axis in axes),
        widths=(1,) * len(axes),
    )
