"""Loops and accesses of a task's blocks as plain numbers, independent of TVM.

A buffer index is a sum of terms c * ((a . x) // d % m) over the loops x of its block. This form covers
strides, dilation, groups and fused axes. All loops start at 0, so the span of a term over a tile follows from
the extents of the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Term:
    """Term `coefficient` * ((sum of axis coefficients times loops) // `divisor` % `modulus`)."""

    coefficient: int
    axes: tuple[tuple[int, int], ...]  # (axis of the block, coefficient)
    divisor: int = 1
    modulus: int = 0  # 0 for none

    def span(self, extents: Sequence[Floats]) -> Floats:
        """Maximum minus minimum over a tile with these extents (by axis); all arrays have one shape."""
        span: Floats = sum((abs(c) * (extents[axis] - 1) for axis, c in self.axes), np.float32(0))
        if self.divisor != 1:
            span = np.floor(span / np.float32(self.divisor))
        if self.modulus:
            span = np.minimum(span, np.float32(self.modulus - 1))
        return np.float32(abs(self.coefficient)) * span


@dataclass(frozen=True)
class Access:
    """Buffer access of a block, a read or a write."""

    buffer: str
    shape: tuple[int, ...]
    element_bytes: float
    indices: tuple[tuple[Term, ...] | None, ...]
    """Index of each dimension as a sum of terms, None if it has another form."""
    widths: tuple[int, ...]
    """Elements that one iteration touches along each dimension."""
    packed: bool = False
    """Whether the schedule chooses the buffer's layout, which makes its reads contiguous."""
    offsets: tuple[int, ...] = ()
    """Index of each dimension in the first iteration."""

    def extents(self, tile: Sequence[Floats]) -> list[Floats]:
        """Elements that a tile with these extents (by axis) touches in each dimension, at most the shape."""
        found = []
        for terms, width, size in zip(self.indices, self.widths, self.shape, strict=True):
            if terms is None:
                found.append(np.full_like(tile[0], size))
                continue
            span = sum((term.span(tile) for term in terms), np.zeros_like(tile[0]))
            found.append(np.minimum(span + np.float32(width), np.float32(size)))
        return found

    def footprint(self, tile: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Bytes that a tile with these extents (by axis) touches, and how many of them are contiguous.

        All bytes of a packed buffer count as contiguous. All arrays have the shape of the extents.
        """
        extents = self.extents(tile)
        touched = np.full_like(tile[0], self.element_bytes)
        for extent in extents:
            touched = touched * extent
        if self.packed:
            return touched, touched
        run = np.full_like(tile[0], self.element_bytes)
        whole = np.ones(np.shape(tile[0]), dtype=np.bool_)
        # An access is contiguous from the last dimension on, as long as it touches whole dimensions.
        for extent, size in zip(reversed(extents), reversed(self.shape), strict=True):
            run = np.where(whole, run * extent, run)
            whole &= extent >= size
        return touched, run

    def stride(self, axis: int) -> int:
        """Elements between two neighbours along a loop, 0 if the loop does not move the access.

        A packed buffer has stride 1 along every loop that moves it.
        """
        pitch, total = 1, 0
        for terms, size in zip(reversed(self.indices), reversed(self.shape), strict=True):
            for term in terms or ():
                step = term.coefficient * dict(term.axes).get(axis, 0)
                total += pitch * abs(step) if term.divisor == 1 else 0
            pitch *= size
        return min(total, 1) if self.packed else total


@dataclass(frozen=True)
class Guard:
    """Condition for an iteration to add more than zero: a sum of loops has a certain remainder by `modulus`.

    Other iterations multiply the zeros inserted between the elements of a transposed convolution's data.
    """

    axes: tuple[tuple[int, int], ...]  # (axis of the block, coefficient)
    modulus: int
    inlined_blocks: tuple[str, ...] = ()
    """Blocks that compute the zeros; the guard applies once they are inlined."""


@dataclass(frozen=True)
class Block:
    """Computation with its loops, outermost first, and the buffers that it accesses."""

    name: str
    extents: tuple[int, ...]
    reduction: tuple[bool, ...]
    writes: tuple[Access, ...]
    reads: tuple[Access, ...]
    guards: tuple[Guard, ...] = ()
    """Conditions outside of which the computed value or a factor of it is zero."""
    zero_initialised: bool = True
    """Whether the block is a sum initialised with zero, so that adding zero changes nothing."""
    copies: bool = False
    """Whether the block copies elements of a buffer, perhaps with zeros around them, and computes nothing."""

    @property
    def iterations(self) -> float:
        """Number of times the innermost statement runs."""
        return float(np.prod(self.extents, dtype=np.float64))


@dataclass(frozen=True)
class TaskStructure:
    """Blocks of an unscheduled task, in program order."""

    blocks: tuple[Block, ...]
    flops: float

    def block(self, name: str) -> Block | None:
        """Block with this name, None if there is none."""
        return next((block for block in self.blocks if block.name == name), None)

    @property
    def is_empty(self) -> bool:
        """Whether the task computes nothing: it has no block, or each block has a loop without iterations."""
        return not any(block.iterations for block in self.blocks)

    @property
    def anchor(self) -> Block | None:
        """Block with the most iterations, None without blocks."""
        return max(self.blocks, key=lambda block: block.iterations, default=None)
