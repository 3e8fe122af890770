"""Arrays of a kernel of attention: those of its function, and the panels of keys and values.

An instruction takes `step` adjacent terms of a sum at once: one of float32, two of bfloat16. Panels have
words of so many terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ....codegen.rounding import rounded_bits
from ....types import WIDE
from ..dynamic.nodes import number, product, simple, workspace
from .attention import BlockedAttention, Blocks, Layout, Size
from .attention_loops import tiles_of

DTYPE = WIDE
"""Data type of scores and sums."""

_BITS, _WORD = "uint16", "uint32"
"""Bits of a term of bfloat16, and of two adjacent ones."""


class Arrays:
    """Arrays of one kernel, by name."""

    def __init__(
        self,
        problem: BlockedAttention,
        blocks: Blocks,
        shapes: Sequence[Sequence[Size]],
        sources: Sequence[int],
    ) -> None:
        self.problem, self.blocks = problem, blocks
        names = ["query", "key", "value", *(["mask"] if problem.mask else [])]
        self.sources = {**dict(zip(names, sources, strict=True)), "output": len(shapes) - 1}
        dtypes = {source: self._dtype_of(name) for name, source in self.sources.items()}
        self.params = [
            tirx.decl_buffer([number(extent) for extent in shape], dtypes[index], f"p{index}")
            for index, shape in enumerate(shapes)
        ]
        # A view for each name, as TIR may define a view once only, and one array may have several names.
        self.views = {
            name: tirx.decl_buffer([product(self.params[source].shape)], dtypes[source], f"{name}_flat")
            for name, source in self.sources.items()
        }
        self.step, self.dtype = blocks.instruction.step, blocks.instruction.data
        self.depth = tiles_of(problem.width, self.step)
        """Words of one column of a head's keys."""
        self.lines = problem.keys if self.step == 1 else tiles_of(problem.keys, self.step)
        """Words of one column of a head's values."""
        self.panels = tiles_of(problem.keys, blocks.columns)
        self.padded = math.ceil(problem.width / blocks.lanes) * blocks.lanes
        keys = self.panels * blocks.columns
        word = self.dtype if self.step == 1 else _WORD
        self.keys = workspace([problem.pairs, keys * self.depth], word, "key_panels")
        self.values = workspace([problem.pairs, self.lines * self.padded], word, "value_panels")

    def base(self, name: str, pair: Any, row: Any) -> Any:
        """Place of the first element of a pair's row in the flat array of this name."""
        layout, heads = self._layout(name), self.problem.heads
        of_pair = layout.start + (pair // heads) * layout.batch + (pair % heads) * layout.head
        return simple(of_pair + row * layout.row)

    def element(self, name: str, base: Any, row: Any, column: Any) -> Any:
        """Element of a row, counted from a base."""
        place = base + row * self._layout(name).row + column
        return tirx.BufferLoad(self.views[name], [simple(place)])

    def word(self, *terms: Any) -> Any:
        """Terms as the word of a panel; zeros follow if they are fewer than `step`."""
        if self.step == 1:
            return terms[0]
        bits = [tirx.Cast(_WORD, _bits(term)) << (16 * place) for place, term in enumerate(terms)]
        return bits[0] if len(bits) == 1 else bits[0] | bits[1]

    def value_panels(self) -> list[tuple[int, int]]:
        """First column and width of each panel of the values."""
        wide = self.blocks.columns
        return [(start, min(wide, self.padded - start)) for start in range(0, self.padded, wide)]

    def _layout(self, name: str) -> Layout:
        found = getattr(self.problem, name)
        assert isinstance(found, Layout)
        return found

    def _dtype_of(self, name: str) -> str:
        dtypes = {"mask": self.problem.mask_dtype, "output": self.problem.output_dtype}
        return dtypes.get(name, self.problem.dtype)


def _bits(term: Any) -> Any:
    """Bits of a term in bfloat16, to which float32 is rounded."""
    return rounded_bits(term) if str(term.ty.dtype) == WIDE else tirx.reinterpret(_BITS, term)
