"""Parameters of one kernel of a family, and the heights of its register tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....instruction_sets import INSTRUCTION


@dataclass(frozen=True, order=True)
class KernelParameters:
    """One kernel of a family; it is right for all sizes of at least its `least_rows` and `columns`."""

    width: int
    """Columns of a panel."""
    rows: int
    """Rows of a tall register tile; short ones have one row fewer."""
    panels: int
    """Panels of the register tile."""
    order: str
    """Loop that is outermost."""
    vectors: int = 1
    """Vectors of a row of a panel."""
    pairs: str = ""
    """Name of the instruction that adds products in pairs; empty for multiply-adds that LLVM chooses."""

    @property
    def step(self) -> int:
        """Terms of a sum that a lane adds at once, which panels have next to each other: a word."""
        return INSTRUCTION[self.pairs].step if self.pairs else 1

    @property
    def lanes(self) -> int:
        """Columns of a vector."""
        return self.width // self.vectors

    @property
    def columns(self) -> int:
        """Columns of the register tile."""
        return self.panels * self.width

    @property
    def least_rows(self) -> int:
        """Rows of the shortest register tile."""
        return max(1, self.rows - 1)


def row_tiles(rows: Any, height: int, largest: Callable[[Any, Any], Any] = max) -> tuple[Any, Any]:
    """Number of tiles that cover all rows, and how many of them are tall: of `height` rows.

    The others are short, of one row fewer. Tall ones come first. All sizes of at least
    (height - 1) * (height - 2) are covered exactly; at a smaller one the last tile may overlap the one before
    it. `rows` is a number or an expression, and `largest` its maximum.
    """
    count = (rows + (height - 1)) // height
    return count, largest(rows - count * (height - 1), 0)
