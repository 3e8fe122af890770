"""Programs from shapes (ETO, section 5.1, GetS), and the default annotations of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.domains import DomainError
from ....compiler.structure.limits import GpuLimits, within_limits
from ....compiler.structure.nest import Nest
from ....compiler.structure.parallelism import accumulated_outputs
from ....compiler.structure.sketch import Sketch
from ....compiler.structure.space import SketchSpace
from .costs import inputs
from .program_features import has_threads
from .shapes import Shape, Shapes, TShape

Row: TypeAlias = tuple[int, ...]
"""Values [width] of a candidate's decisions."""

VECTOR_BYTES = (2, 4, 8, 16)
"""Bytes of the words that a GPU loads from global memory in one instruction, in addition to single bytes."""


class UntiledError(Exception):
    """The sketch has no multi-level tiling that covers all loops of its block."""


def nest_of(sketch: Sketch, rows: Sequence[Row]) -> Nest:
    """Loop nests of candidates."""
    return Nest.of(sketch, np.array(rows, dtype=np.int64).reshape(-1, sketch.width))


def unrolled_level(nest: Nest) -> NDArray[np.int64]:
    """Level of the outermost loop that is unrolled together with all loops inside; [n]."""
    inside = nest.outer[-1] / nest.outer
    return np.argmax(inside <= np.maximum(nest.unroll_step(), 1), axis=0)


def registers(nest: Nest) -> NDArray[np.floating]:
    """Registers that a thread needs, in the approximation of GetS; [n].

    They hold its outputs, and the inputs that it loads in the innermost loop after unrolling.
    """
    sketch, columns = nest.sketch, np.arange(len(nest))
    if has_threads(nest):
        reduction = sketch.block.reduction
        own = [not reduction[a.axis] and not a.thread.startswith(("block", "thread")) for a in sketch.atoms]
        outputs = nest.product(own)
    else:
        outputs = accumulated_outputs(nest)
    level = unrolled_level(nest)
    loaded = [nest.footprint(read)[0][level, columns] / read.element_bytes for read in inputs(sketch.block)]
    return outputs + np.sum(loaded, axis=0)


class Programs:
    """Candidates of a tiled sketch, composed from shapes. A base candidate gives the remaining decisions."""

    def __init__(
        self, space: SketchSpace, shapes: Shapes, base: Row, registers: float, limits: GpuLimits | None
    ) -> None:
        """Creates the composition; `registers` is the number that the parent's program needs.

        Raises UntiledError if the sketch tiles loops other than the shapes' loops.
        """
        self.space = space
        self.sketch = space.sketch
        self.shapes = shapes
        self._base = base
        self._registers = registers
        self._limits = limits
        self._column = _columns(self.sketch, shapes)

    def programs(self, shaped: Sequence[tuple[Shape, TShape, Shape]]) -> list[Row]:
        """Legal candidates with these shapes, with scalar loads and the default unrolling (GetS)."""
        rows = [self._tiled(*shapes) for shapes in shaped]
        return [self._default_unroll(row) for row in self._legal(rows)]

    def other_loads(self, row: Row, loads: Sequence[Shape]) -> list[Row]:
        """The candidate with other LShapes (line 15)."""
        return [self._default_unroll(r) for r in self._legal([self._loaded(row, shape) for shape in loads])]

    def other_unrolls(self, row: Row) -> list[Row]:
        """The candidate with each unrolling pragma that unrolls a different set of loops (line 17)."""
        if self.sketch.unroll < 0:
            return []
        decision = self.sketch.decisions[self.sketch.unroll]
        rows = [_set(row, decision.column, [index]) for index in range(len(decision.values))]
        levels = unrolled_level(nest_of(self.sketch, rows)).tolist()
        own = levels[row[decision.column]]
        return [rows[levels.index(level)] for level in sorted(set(levels)) if level != own]

    def other_vectors(self, row: Row, fetch: int) -> list[Row]:
        """The candidate with other vector lengths for loading one input (lines 20 and 21).

        Each length divides the number of elements that a thread loads.
        """
        of = self.sketch.fetches[fetch]
        if of.vector < 0:
            return []
        nest = nest_of(self.sketch, [row])
        read = self.sketch.block.reads[of.read]
        elements = float(nest.shared_footprint(of)[0]) / read.element_bytes
        threads = float(nest.product([atom.thread == "threadIdx.x" for atom in self.sketch.atoms])[0])
        decision = self.sketch.decisions[of.vector]
        return self._legal(
            [
                _set(row, decision.column, [index])
                for index, lanes in enumerate(decision.values)
                if index != row[decision.column]
                and lanes * read.element_bytes in VECTOR_BYTES
                and lanes > 1
                and elements % (threads * lanes) == 0
            ]
        )

    def _tiled(self, shape: Shape, units: TShape, loads: Shape) -> Row:
        row = self._base
        block = self.shapes.block
        for place, axis in enumerate(self.shapes.space):
            sizes = shape[place], units.virtual[place], units.tile[place]
            row = _set(row, self._column[axis], self.shapes.space_tile(block.extents[axis], *sizes))
        for fetch in self.sketch.fetches:
            if fetch.vector >= 0:  # scalar loads by default: the shortest length
                decision = self.sketch.decisions[fetch.vector]
                row = _set(row, decision.column, [int(np.argmin(decision.values))])
        return self._loaded(row, loads)

    def _loaded(self, row: Row, loads: Shape) -> Row:
        for place, axis in enumerate(self.shapes.reduction):
            extent = self.shapes.block.extents[axis]
            row = _set(row, self._column[axis], self.shapes.reduction_tile(extent, loads[place]))
        return row

    def _default_unroll(self, row: Row) -> Row:
        """The candidate with the pragma whose register count is closest to the parent's program."""
        if self.sketch.unroll < 0:
            return row
        decision = self.sketch.decisions[self.sketch.unroll]
        rows = [_set(row, decision.column, [index]) for index in range(len(decision.values))]
        apart = np.abs(registers(nest_of(self.sketch, rows)) - self._registers)
        return rows[int(np.argmin(apart))]

    def _legal(self, rows: Sequence[Row]) -> list[Row]:
        """Distinct rows in the domains of the decisions and within the limits of a GPU."""
        known = []
        for row in dict.fromkeys(rows):
            try:
                self.space.choices(np.array([row]))
            except DomainError:
                continue
            known.append(row)
        if not known:
            return []
        kept = within_limits(nest_of(self.sketch, known), self._limits)
        return [row for row, legal in zip(known, kept, strict=True) if legal]


def _columns(sketch: Sketch, shapes: Shapes) -> dict[int, int]:
    """First column of each axis's tile."""
    first: dict[int, int] = {}
    for atom in sketch.atoms:
        if atom.column >= 0:
            first[atom.axis] = min(first.get(atom.axis, atom.column), atom.column)
    widths = {d.column: d.width for d in sketch.decisions if d.kind == "tile"}
    for axis, reduces in enumerate(sketch.block.reduction):
        wanted = shapes.structure.count("R" if reduces else "S")
        if widths.get(first.get(axis, -1)) != wanted:
            raise UntiledError(f"{sketch.structure}: axis {axis} has no tile of {wanted} factors")
    return first


def _set(row: Row, column: int, values: Sequence[int]) -> Row:
    return (*row[:column], *values, *row[column + len(values) :])
