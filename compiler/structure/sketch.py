"""Sketches: the instructions of a design space and how their decisions shape the loops of one block.

The *nest* is the loop nest of the block that the sketch tiles, or of the block with the most iterations if it
tiles none. A nest is a list of *atoms*, outermost first: the parts into which splits divide the axes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .sources import Source
from .structure import Block, Guard

AT_ROOT, INLINED = -1, -2
"""Values of a compute location that are no loop index."""


@dataclass(frozen=True)
class Decision:
    """Sampling instruction; its value takes `width` columns of the value matrix, starting at `column`.

    The value of a tile is its factors, of a categorical the index of the chosen value, and of a location the
    index of the loop, AT_ROOT or INLINED, as MetaSchedule numbers them.
    """

    instruction: int
    kind: str  # "tile", "categorical" or "location"
    column: int
    width: int = 1
    largest_innermost: int = 0  # of a tile
    values: tuple[float, ...] = ()  # of a categorical
    probabilities: tuple[float, ...] = ()  # of a categorical
    block: str = ""  # block of a location, "" for a block that the sketch creates


@dataclass(frozen=True)
class Atom:
    """Loop, or part of a fused loop.

    Its extent is the value in `column`; or, with `decision`, the chosen value of that categorical, or
    ceil(size / value) for the loop marked `outside`; or `size` if neither is set.
    """

    axis: int
    size: int = 1
    column: int = -1
    decision: int = -1
    outside: bool = False
    band: int = -1  # index into the tiling structure, -1 if untiled
    thread: str = ""  # thread tag that the loop is bound to


@dataclass(frozen=True)
class Fetch:
    """Copy of a read buffer into faster memory, repeated by each iteration outside of `level`."""

    read: int
    level: int  # number of atoms outside
    scope: str
    vector: int = -1  # decision of its vector length, -1 for none
    source: Source | None = None  # origin of its data; None for values that are computed on the way
    aligned: tuple[int, int] = (1, 0)
    """(factor, offset): rows are padded until their elements have this remainder by the factor."""


@dataclass(frozen=True)
class Sketch:
    """Design space without the values of its decisions."""

    instructions: str  # canonical JSON
    decisions: tuple[Decision, ...]
    block: Block
    atoms: tuple[Atom, ...]
    loop_starts: tuple[int, ...]
    """Index of the first atom of each loop, then the number of atoms: a block computed at loop `l` has
    `loop_starts[l + 1]` atoms around it."""
    structure: str  # such as SSRSRS, "" if nothing is tiled
    write_level: int  # atoms around the location where a consumer reads the output, 0 without a consumer
    cached_write: bool
    fetches: tuple[Fetch, ...]
    producers: tuple[tuple[int, int], ...]
    """(read, decision of its compute location) for each input whose producer has one."""
    inlined: tuple[int, ...]  # reads whose producer is inlined
    guards: tuple[tuple[Guard, tuple[int, ...]], ...]
    """Guards of the block, each with the compute locations that must be INLINED for it to apply."""
    max_parallel: int
    max_vector: int
    unroll: int  # decision of the unroll step, -1 for none
    pipeline_copies: int  # buffers that a software pipeline keeps of each fetch, 1 without a pipeline
    counts: tuple[tuple[str, int], ...]  # number of instructions of each kind
    min_threads: int = 1  # threads of a block that the sketch asks for at least
    in_warps: bool = False  # whether each bound thread stands for a warp, as tensor instructions need it
    output: Fetch | None = None
    """Copy of the output out of shared memory, which collects it for tensor instructions; its `read` is 0."""

    @property
    def width(self) -> int:
        """Number of columns of a value matrix."""
        return sum(decision.width for decision in self.decisions)

    def values_in(self, trace: str) -> list[int] | None:
        """Decision values of a trace (canonical JSON), or None if the trace belongs to another sketch.

        Raises ValueError if a decision is missing or does not fit the sketch.
        """
        if not trace.startswith(start := f"[{self.instructions},"):
            return None
        decided = dict(json.loads(trace[len(start) : -1]))
        found: list[int] = []
        for decision in self.decisions:
            value = decided.get(decision.instruction)
            value = value if isinstance(value, list) else [value]
            if len(value) != decision.width or not all(isinstance(v, int) for v in value):
                raise ValueError(
                    f"decision {decision.instruction} ({decision.kind}) cannot be {value}; "
                    f"expected {decision.width} integer(s)"
                )
            found += value
        return found


def place_of(atom: Atom) -> tuple[int, int, int, bool]:
    """Loop of an atom, which stays the same when its thread or band changes."""
    return atom.axis, atom.column, atom.decision, atom.outside


def changed(atom: Atom, **changes: Any) -> Atom:
    """The atom with other fields."""
    return Atom(**{**atom.__dict__, **changes})


def banded(atoms: Sequence[Atom], structure: str, block: Block) -> list[Atom]:
    """Atoms with their index into the tiling structure: the i-th S or R of the axis, -1 if untiled."""
    seen: dict[int, int] = {}
    found = []
    for atom in atoms:
        letter = "R" if block.reduction[atom.axis] else "S"
        places = [i for i, mark in enumerate(structure) if mark == letter]
        number = seen.get(atom.axis, 0)
        seen[atom.axis] = number + 1
        tiled = atom.column >= 0 and number < len(places)
        found.append(changed(atom, band=places[number] if tiled else -1))
    return found
