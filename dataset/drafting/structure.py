"""The loops and accesses of a task's blocks as plain numbers: what remains of TIR once it has been read.

An index of a buffer is a sum of terms c * ((a . x) // d % m) over the loops x of its block, which covers
strides, dilation, groups and fused axes. All loops start at 0, so the span of a term over a tile follows from
the tile's extents alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Term:
    """`coefficient` * ((sum of axis coefficients times loops) // `divisor` % `modulus`)."""

    coefficient: int
    axes: tuple[tuple[int, int], ...]  # (axis of the block, coefficient)
    divisor: int = 1
    modulus: int = 0  # 0 for none

    def span(self, extents: Sequence[Floats]) -> Floats:
        """Highest value less the lowest over a tile of these extents (by axis), all of one shape."""
        span: Floats = sum((abs(c) * (extents[axis] - 1) for axis, c in self.axes), np.float32(0))
        if self.divisor != 1:
            span = np.floor(span / np.float32(self.divisor))
        if self.modulus:
            span = np.minimum(span, np.float32(self.modulus - 1))
        return np.float32(abs(self.coefficient)) * span


@dataclass(frozen=True)
class Access:
    """A buffer that a block reads or writes."""

    buffer: str
    shape: tuple[int, ...]
    element_bytes: float
    indices: tuple[tuple[Term, ...] | None, ...]
    """One sum of terms a dimension, None where it is no such sum."""
    widths: tuple[int, ...]
    """Elements that one iteration touches along each dimension."""
    packed: bool = False
    """Whether the program chooses the buffer's layout, so that what it reads in turn lies in that order."""

    def extents(self, tile: Sequence[Floats]) -> list[Floats]:
        """Elements along each dimension that a tile of these extents (by axis) touches, at most the shape."""
        found = []
        for terms, width, size in zip(self.indices, self.widths, self.shape, strict=True):
            if terms is None:
                found.append(np.full_like(tile[0], size))
                continue
            span = sum((term.span(tile) for term in terms), np.zeros_like(tile[0]))
            found.append(np.minimum(span + np.float32(width), np.float32(size)))
        return found

    def stride(self, axis: int) -> int:
        """Elements between two neighbours along a loop, 0 where it does not move the access.

        Of a packed buffer 1, as of the innermost loop that moves it.
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
    """What an iteration needs to add anything: that a sum of its loops leaves a certain rest by `modulus`.

    Others would multiply the zeros between the elements of a transposed convolution's data.
    """

    axes: tuple[tuple[int, int], ...]  # (axis of the block, coefficient)
    modulus: int
    through: tuple[str, ...] = ()
    """Blocks that compute the zeros: once they are inlined, the guard is in the block itself."""


@dataclass(frozen=True)
class Block:
    """One computation: its loops, outermost first, and the buffers that it touches."""

    name: str
    extents: tuple[int, ...]
    reduction: tuple[bool, ...]
    writes: tuple[Access, ...]
    reads: tuple[Access, ...]
    guards: tuple[Guard, ...] = ()
    """Conditions without which what is computed is zero, also as a factor."""
    sums: bool = True
    """Whether it adds up to what is zero at first, so that zero changes nothing."""

    @property
    def iterations(self) -> float:
        """Number of times the innermost statement runs."""
        return float(np.prod(self.extents, dtype=np.float64))


@dataclass(frozen=True)
class TaskStructure:
    """The blocks of an unscheduled task in the order of its code."""

    blocks: tuple[Block, ...]
    flops: float

    def block(self, name: str) -> Block | None:
        """The block of that name."""
        return next((block for block in self.blocks if block.name == name), None)

    @property
    def anchor(self) -> Block | None:
        """The block with the most iterations."""
        return max(self.blocks, key=lambda block: block.iterations, default=None)
