"""Arrays of a kernel of attention: those of its function, and the panels of keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ..dynamic.nodes import number, product, simple, workspace
from .attention import BlockedAttention, Blocks, Layout, Size
from .attention_loops import tiles_of

DTYPE = "float32"


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
        self.params = [
            tirx.decl_buffer([number(extent) for extent in shape], DTYPE, f"p{index}")
            for index, shape in enumerate(shapes)
        ]
        names = ["query", "key", "value", *(["mask"] if problem.mask else [])]
        self.sources = {**dict(zip(names, sources, strict=True)), "output": len(shapes) - 1}
        # A view for each name, as TIR may define a view once only, and one array may have several names.
        self.views = {
            name: tirx.decl_buffer([product(self.params[source].shape)], DTYPE, f"{name}_flat")
            for name, source in self.sources.items()
        }
        self.panels = tiles_of(problem.keys, blocks.columns)
        self.padded = math.ceil(problem.width / blocks.lanes) * blocks.lanes
        keys = self.panels * blocks.columns
        self.keys = workspace([problem.pairs, keys * problem.width], DTYPE, "key_panels")
        self.values = workspace([problem.pairs, problem.keys * self.padded], DTYPE, "value_panels")

    def base(self, name: str, pair: Any, row: Any) -> Any:
        """Place of the first element of a pair's row in the flat array of this name."""
        layout, heads = self._layout(name), self.problem.heads
        of_pair = layout.start + (pair // heads) * layout.batch + (pair % heads) * layout.head
        return simple(of_pair + row * layout.row)

    def element(self, name: str, base: Any, row: Any, column: Any) -> Any:
        """Element of a row, counted from a base."""
        place = base + row * self._layout(name).row + column
        return tirx.BufferLoad(self.views[name], [simple(place)])

    def _layout(self, name: str) -> Layout:
        found = getattr(self.problem, name)
        assert isinstance(found, Layout)
        return found

    def value_panels(self) -> list[tuple[int, int]]:
        """First column and width of each panel of the values."""
        wide = self.blocks.columns
        return [(start, min(wide, self.padded - start)) for start in range(0, self.padded, wide)]
