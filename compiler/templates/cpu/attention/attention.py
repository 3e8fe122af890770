"""Attention of all heads of a layer, and the blocks in which a kernel computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....instruction_sets import Instruction
from ....types import WIDE

Size = Any
"""A number, or an expression of symbolic extents."""


@dataclass(frozen=True)
class Layout:
    """Start and strides of the rows of an array, in elements. Elements of one row are adjacent."""

    size: Size
    """Elements of the whole array."""
    start: Size
    batch: Size
    """Distance of one batch from the next; 0 where all have the same."""
    head: Size
    row: Size


@dataclass(frozen=True, kw_only=True)
class BlockedAttention:
    """softmax(scale query key^T + mask) value for each batch and head.

    The factors of both products have the data type of the kernel's instruction; the rest is float32.
    """

    batch: Size
    heads: Size
    queries: Size
    """Rows of the query."""
    keys: Size
    """Rows of key and value."""
    width: int
    """Columns of one head."""
    scale: float
    """Factor of the scores."""
    query: Layout
    key: Layout
    value: Layout
    output: Layout
    mask: Layout | None = None
    """Array that is added to the scores; one row has `keys` elements. None without one."""
    zeros: bool = False
    """Whether a row whose keys are all hidden is zero, and not NaN."""
    dtype: str = WIDE
    """Data type of the arrays of query, key and value."""
    mask_dtype: str = WIDE
    output_dtype: str = WIDE
    ahead: int | None = None
    """A constant mask hides the keys from `query + ahead + 1` on; None if it may show all keys."""

    @property
    def pairs(self) -> Size:
        """Pairs of a batch and a head."""
        return self.batch * self.heads


@dataclass(frozen=True)
class Blocks:
    """Register tile and blocks of a kernel."""

    instruction: Instruction
    rows: int
    """Queries of a register tile."""
    vectors: int
    """Vectors of a register tile: of keys, and of columns of the values."""
    queries: int
    """Queries of a block: a multiple of `rows`."""
    keys: int
    """Keys of a block: a multiple of `columns`."""

    @property
    def lanes(self) -> int:
        return self.instruction.lanes

    @property
    def columns(self) -> int:
        """Columns of a register tile."""
        return self.vectors * self.lanes
