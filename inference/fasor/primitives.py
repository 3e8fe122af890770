"""Fasor's schedule primitives (Table 1) as decisions of MetaSchedule on a CPU, and the values they may have.

| primitive | decision |
|---|---|
| split | factors of a spatial tile inside the reduction, except for the vector |
| vectorisation | innermost factor of the axis whose outputs are contiguous |
| parallel | factor of a spatial tile that one core runs in sequence; the outermost factor runs in parallel |
| reorder | inner factors of a reduction, whose loops run inside of the spatial tiles |
| unrolling | unroll step |
| fuse | loop that a consumer or a cached write joins: the choice among sketches |
| compute_at | loop at which an input is computed |
| compute_inline | whether an input is computed inside of its consumer's expression |

MetaSchedule always runs the outermost loops in parallel, as section 5 (1) asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...compiler.structure.domains import Table
from ...compiler.structure.sketch import AT_ROOT, INLINED, Decision, Sketch
from ...compiler.structure.space import SketchSpace

PRIMITIVES = (
    "split", "fuse", "vectorisation", "reorder", "unrolling", "parallel", "compute_at", "compute_inline",
)  # fmt: skip

LANES = 16
"""Innermost factor of a vector axis by default; if it is impossible, the largest factor below it."""

UNROLL_STEP = 64
"""Unroll step by default; if it is impossible, the largest step below it."""


def roles(sketch: Sketch, decision: Decision) -> tuple[str, ...]:
    """Primitive of each column of a tile or of a categorical decision; "" for a column without one."""
    if decision.kind != "tile":
        unrolls = sketch.unroll >= 0 and sketch.decisions[sketch.unroll] == decision
        return ("unrolling" if unrolls else "",)
    reduction = sketch.block.reduction
    axis = next((atom.axis for atom in sketch.atoms if atom.column == decision.column), -1)
    inner = decision.width - 1
    if axis >= 0 and reduction[axis]:
        return ("", *["reorder"] * inner)
    vector = next((atom.axis for atom in sketch.atoms[::-1] if not reduction[atom.axis]), -1)
    last = "vectorisation" if axis == vector >= 0 else "split"
    if axis < 0 or decision.width < 3:
        return ("", *["split"] * inner)
    return ("", "parallel", *["split"] * (inner - 2), last)


def settings(sketch: Sketch, values: Sequence[int]) -> dict[str, tuple[object, ...]]:
    """Setting of each primitive in a candidate with values [width]; equal for programs that agree in it."""
    found: dict[str, list[object]] = {name: [] for name in PRIMITIVES}
    found["fuse"] += [sketch.write_level, sketch.cached_write, sketch.structure]
    for decision in sketch.decisions:
        own = [int(value) for value in values[decision.column : decision.column + decision.width]]
        if decision.kind == "location":
            inlined = own[0] == INLINED
            found["compute_inline"].append(inlined)
            found["compute_at"].append(None if inlined else own[0])
            continue
        for role, value in zip(roles(sketch, decision), own, strict=True):
            if role:
                found[role].append(decision.values[value] if decision.kind == "categorical" else value)
    return {name: tuple(setting) for name, setting in found.items()}


def narrowed(spaces: Sequence[SketchSpace], fixed: Collection[str]) -> list[SketchSpace]:
    """Sketch spaces with pruned options (section 5 (1)) and the `fixed` primitives at their defaults.

    The tile factors inside of the outermost one are powers of two, or powers of two times the odd part of the
    extent. The paper allows powers of two only, which leaves convolutions of 7 x 7 outputs without a vector.
    """
    kept = list(spaces)
    if "fuse" in fixed:
        kept = [space for space in kept if not space.sketch.cached_write] or kept
        outermost = min((space.sketch.write_level for space in kept), default=0)
        kept = [space for space in kept if space.sketch.write_level == outermost]
    return [
        replace(
            space,
            domains=tuple(
                table[mask] if (mask := allowed(space.sketch, decision, table, fixed)).any() else table
                for decision, table in zip(space.sketch.decisions, space.domains, strict=True)
            ),
        )
        for space in kept
    ]


def allowed(sketch: Sketch, decision: Decision, table: Table, fixed: Collection[str]) -> NDArray[np.bool_]:
    """Values of a decision in the sub-space, bool [n_values]."""
    if decision.kind == "location":
        return _allowed_locations(table[:, 0], fixed)
    mask = np.ones(len(table), dtype=np.bool_)
    for column, role in enumerate(roles(sketch, decision)):
        values = table[:, column]
        if decision.kind == "categorical":
            if role in fixed:
                mask &= _at_most(np.array(decision.values)[values], UNROLL_STEP)
        elif role:
            mask &= is_regular(values, int(np.prod(table[0])))
            if role in fixed:
                mask &= _at_most(np.where(mask, values, 1), LANES) if role == "vectorisation" else values == 1
    return mask


def is_regular(factors: NDArray[np.int64], extent: int) -> NDArray[np.bool_]:
    """Whether factors are powers of two, or powers of two times the odd part of the extent."""
    odd = extent // (extent & -extent)
    parts = factors // (factors & -factors)
    found: NDArray[np.bool_] = (parts == 1) | (parts == odd)
    return found


def _at_most(values: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Mask of the largest value up to `most`, or of the smallest value if all are larger."""
    below = values[values <= most]
    return values == (below.max() if len(below) else values.min())


def _allowed_locations(values: NDArray[np.int64], fixed: Collection[str]) -> NDArray[np.bool_]:
    is_inlined = values == INLINED
    mask = np.ones(len(values), dtype=np.bool_)
    if "compute_inline" in fixed:
        mask &= ~is_inlined
    if "compute_at" in fixed:
        mask &= is_inlined | (values == AT_ROOT)
    return mask
