"""Parameters of a template: the register tile, and the order of the loops around it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...instruction_sets import Instruction

COLUMNS_FIRST, ROWS_FIRST = "columns", "rows"
"""Loop that is outermost, which threads share."""

MOST_ROWS = 16
"""Rows of a tile register."""


@dataclass(frozen=True)
class Template:
    """One template for one contraction."""

    instruction: Instruction
    row_tile: tuple[int, ...]
    """Rows in registers, by row axis of the contraction."""
    vectors: int
    """Vectors in registers for each row; columns of tiles with AMX."""
    unroll: int = 1
    """Steps of the reduction in a row without a branch."""
    order: str = COLUMNS_FIRST
    row_tiles: int = 1
    """Tiles of AMX along the rows; `row_tile` is one of them."""
    ragged: int = 0
    """Columns in registers where these do not fill all `vectors`, else 0."""

    @property
    def rows(self) -> int:
        """Rows of the register tile, or of one tile of AMX."""
        return math.prod(self.row_tile)

    @property
    def lanes(self) -> int:
        """Columns of a vector of the schedule; `wide_vectors` makes registers of a ragged one."""
        return self.ragged or self.instruction.lanes

    @property
    def columns(self) -> int:
        """Columns of the register tile."""
        return self.ragged or self.vectors * self.instruction.lanes

    def words(self, depth: int) -> int:
        """Words of 4 bytes of one tile of AMX along a reduction of `depth`: at most 16 that divide it."""
        return words_of(depth, self.instruction.step)


def divisors(extent: int, most: int | None = None) -> list[int]:
    """Divisors in order, of at most `most`."""
    limit = extent if most is None else min(extent, most)
    return [factor for factor in range(1, limit + 1) if extent % factor == 0]


def panels(extent: int, lanes: int, most: int) -> list[tuple[int, int]]:
    """Panels of up to `most` vectors that divide an axis: (vectors, 0), or (vectors, elements) if ragged.

    An axis of whole vectors has no ragged panels. Another one has, for each number of vectors, the panel that
    fills them best, if that is half of them or the panel is the whole axis.
    """
    if extent % lanes == 0:
        return [(vectors, 0) for vectors in divisors(extent // lanes, most)]
    best = {math.ceil(width / lanes): width for width in divisors(extent, most * lanes)}
    return [(n, width) for n, width in best.items() if width == extent or 2 * width >= n * lanes]


def words_of(depth: int, step: int) -> int:
    """Words of a tile along a reduction of `depth`, `step` elements each: at most 16 that divide it."""
    return max(words for words in range(1, MOST_ROWS + 1) if depth // step % words == 0)
