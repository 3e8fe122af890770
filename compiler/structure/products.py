"""Product of matrices that a sketch for tensor instructions makes of a block, by fusing its axes.

MetaSchedule copies the operands into matrices first (`ReIndex`), so that a convolution's windows become rows.
Its axes are the axes that no index map fuses, such as the batch of a batched product, then rows,
columns and the summed axis. Extents are filled up to whole tiles of the instruction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .sources import Digits, Source
from .structure import Access, Block, Term

OPEN = 0
"""Size of a loop that a tile of the sketch will replace."""

Group = Mapping[str, int]
"""Fused axes: the weight of each by its variable."""


@dataclass
class MappedProduct:
    """Product that the index maps of a trace make of a block."""

    variables: tuple[str, ...]
    """Variables of the block's axes, in order."""
    axes: tuple[Group, ...]
    """Axes of the product."""
    matrices: dict[tuple[int, int], tuple[Group, ...]] = field(default_factory=dict)
    """Dimensions of each operand and of the output, by its place and by 0 for a read, 1 for a write."""

    def size(self, axis: int, block: Block) -> int:
        """Extent of an axis before it is filled up."""
        extent = 1
        for variable in self.axes[axis]:
            extent *= block.extents[self.variables.index(variable)]
        return extent

    def block(self, block: Block, extents: Sequence[int]) -> Block:
        """Block that stands for the product; `extents` [n_axes] are filled up."""
        summed = [self.variables[axis] for axis, reduces in enumerate(block.reduction) if reduces]
        return Block(
            name=block.name,
            extents=tuple(extents),
            reduction=tuple(any(variable in summed for variable in group) for group in self.axes),
            writes=tuple(self._matrix(write, extents, (0, 1)) for write in block.writes[:1]),
            reads=tuple(self._matrix(read, extents, (i, 0)) for i, read in enumerate(operands(block))),
            zero_initialised=block.zero_initialised,
        )

    def source(self, block: Block, filled: Block, key: tuple[int, int], origin: Source) -> Source | None:
        """Addresses of a matrix by those of the buffer that it stands for; see `matrices` for its key.

        `filled` is the product. None if the rows of the matrix are filled up, which makes their elements
        conditional.
        """
        access = block.writes[0] if key[1] else operands(block)[key[0]]
        groups = self.matrices[key]
        last = self.axes.index(groups[-1])
        if filled.extents[last] != self.size(last, block):
            return None
        steps = [0] * len(block.extents)
        for ((step, _),), terms in zip(origin.steps, access.indices, strict=True):
            for term in terms or ():
                for axis, coefficient in term.axes if term.divisor == 1 and not term.modulus else ():
                    steps[axis] += step * term.coefficient * coefficient

        def digits(group: Group) -> Digits:
            places = [self.variables.index(v) for v in sorted(group, key=lambda v: group[v])]
            return tuple((steps[axis], block.extents[axis]) for axis in places) or ((0, 1),)

        return Source(tuple(digits(group) for group in groups), origin.offset)

    def _matrix(self, access: Access, extents: Sequence[int], key: tuple[int, int]) -> Access:
        axes = [self.axes.index(group) for group in self.matrices[key]]
        return Access(
            buffer=f"{access.buffer} as a matrix",
            shape=tuple(extents[axis] for axis in axes),
            element_bytes=access.element_bytes,
            indices=tuple((Term(1, ((axis, 1),)),) for axis in axes),
            widths=(1,) * len(axes),
        )


def operands(block: Block) -> list[Access]:
    """Reads of a block without its own output."""
    written = {write.buffer for write in block.writes}
    return [read for read in block.reads if read.buffer not in written]


def index_groups(text: str) -> tuple[tuple[str, ...], tuple[Group, ...]]:
    """Variables and results of an index map (TVM's JSON) whose results are weighted sums of variables.

    Raises ValueError for other results.
    """
    graph = json.loads(text)
    nodes = graph["nodes"]

    def of(index: int) -> Any:
        return nodes[index]["data"]

    def weighted(index: int) -> dict[str, int]:
        kind, data = nodes[index]["type"], of(index)
        if kind == "ir.Var":
            return {of(data["name"]): 1}
        if kind == "ir.IntImm":
            return {"": of(data["value"])}
        if kind not in ("prim.Add", "prim.Mul"):
            raise ValueError(f"index map with {kind}")
        left, right = weighted(data["a"]), weighted(data["b"])
        if kind == "prim.Add":
            return {name: left.get(name, 0) + right.get(name, 0) for name in (*left, *right)}
        if set(right) != {""}:
            raise ValueError("index map with a product of variables")
        return {name: weight * right[""] for name, weight in left.items()}

    root = of(graph["root_index"])
    variables = tuple(of(of(index)["name"]) for index in of(root["initial_indices"]))
    groups = [weighted(index) for index in of(root["final_indices"])]
    return variables, tuple({name: w for name, w in group.items() if name} for group in groups)
