"""Search of a child by a parent's program, one sub-sketch of the program after another (ETO, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....compiler.structure.adapting import adapted_choices, corresponds
from ....compiler.structure.limits import GpuLimits
from ....compiler.structure.nest import Nest
from ....compiler.structure.sketch import Sketch
from ....compiler.structure.space import SketchSpace
from ....compiler.structure.structure import Block
from ....compiler.task import Task
from ....dataset.features.reading import task_reading
from ...reuse.conditions import operator_from
from ...reuse.parent import ReuseParent
from .hierarchical import HierarchicalSearch, Search, best_of
from .program_features import CpuFeatures, FeatureRanges, program_features
from .programs import Programs, Row, UntiledError, nest_of, registers
from .shapes import CpuShapes, GpuShapes, Shapes
from .simplified import SimplifiedSearch


class NoReuseError(Exception):
    """The parent's program cannot be reused: it is unreadable, or the child lacks its sketch."""


@dataclass(frozen=True)
class ReuseTarget:
    """Properties of a target on which shapes depend."""

    limits: GpuLimits | None
    """Limits of a GPU's thread block; None for a CPU."""
    vector_bytes: int = 32
    """Width of a CPU's vectors."""
    features: CpuFeatures | None = None
    """Counterparts of B, T and M on a CPU; None for the defaults."""


@dataclass(frozen=True)
class ReuseSearch:
    """Search space and search of a child, for the sketch of the parent's program."""

    space: SketchSpace
    search: Search


def reuse_search(
    child: Task, spaces: Sequence[SketchSpace], parent: ReuseParent, target: ReuseTarget
) -> ReuseSearch:
    """Search of a child by a parent's program; `spaces` belong to the child. Raises NoReuseError."""
    try:
        known = task_reading(parent.task.mod)
        sketch, values = known.sketches.read(parent.trace)
        known_structure, structure = known.structure, task_reading(child.mod).structure
    except Exception as error:  # unreadable traces, and TVM's errors for unreadable loops
        raise NoReuseError(f"the program of {parent.task.name} cannot be read") from error
    space = _same_sketch(sketch, spaces)
    if space is None:
        raise NoReuseError(f"{child.name} has no sketch as the program of {parent.task.name}")
    base: Row = tuple(space.values(adapted_choices(sketch, values, space, 1))[0].tolist())
    simplified = SimplifiedSearch(space, structure, tuple(values), sketch, known_structure)
    hierarchical = _hierarchical(space, base, sketch, tuple(values), target)
    return ReuseSearch(space, _all(base, hierarchical, simplified))


def shapes_of(block: Block, structure: str, target: ReuseTarget) -> Shapes | None:
    """Shapes of a tiling structure on a target; None for a structure that Algorithm 1 does not cover."""
    if target.limits is not None:
        return GpuShapes(block, target.limits) if structure == GpuShapes.structure else None
    return CpuShapes(block, target.vector_bytes) if structure == CpuShapes.structure else None


def _all(base: Row, hierarchical: HierarchicalSearch | None, simplified: SimplifiedSearch) -> Search:
    """Searches the sub-sketches in sequence; each one begins with the best candidate so far."""
    best: Row | None = None
    if hierarchical is not None:
        best = yield from hierarchical.search()
    if best is None:  # nothing is tiled, or no legal candidate is in the ranges: the adapted program
        best = base
        yield from best_of([base])
    best = yield from simplified.search(best)
    return best


def _same_sketch(sketch: Sketch, spaces: Sequence[SketchSpace]) -> SketchSpace | None:
    """Space with the sketch; among several with corresponding decisions, one with the same instructions."""
    found = [space for space in spaces if corresponds(sketch, space.sketch)]
    return min(found, key=lambda space: space.sketch.counts != sketch.counts, default=None)


def _hierarchical(
    space: SketchSpace, base: Row, sketch: Sketch, values: Row, target: ReuseTarget
) -> HierarchicalSearch | None:
    shapes = shapes_of(space.sketch.block, space.sketch.structure, target)
    if shapes is None:
        return None
    nest: Nest = nest_of(sketch, [values])
    needed = float(registers(nest)[0])
    try:
        programs = Programs(space, shapes, base, needed, target.limits)
    except UntiledError:
        return None
    ranges = FeatureRanges.of(operator_from("", sketch.block), operator_from("", space.sketch.block))
    return HierarchicalSearch(programs, program_features(nest, target.features), ranges, target.features)
