"""Search of a child by a parent's program, one sub-sketch of the program after another (ETO, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from .hierarchical import HierarchicalSearch, Search, best_of, side_by_side
from .program_features import CpuFeatures, FeatureRanges, Interval, program_features
from .programs import Programs, Row, UntiledError, nest_of, registers
from .shapes import CpuShapes, GpuShapes, OneCoreShapes, Shapes
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
    one_core: bool = False
    """Whether to visit a CPU's programs for one core, too, which are outside of ETO's range of B."""


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


def _all(base: Row, hierarchical: Sequence[HierarchicalSearch], simplified: SimplifiedSearch) -> Search:
    """Searches the sub-sketches in sequence; each one begins with the best candidate so far."""
    best = yield from side_by_side([one.search() for one in hierarchical])
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
) -> list[HierarchicalSearch]:
    """Algorithm 1, and with `one_core` another one for the programs of one core; empty without shapes."""
    block = space.sketch.block
    shapes = shapes_of(block, space.sketch.structure, target)
    if shapes is None:
        return []
    nest: Nest = nest_of(sketch, [values])
    needed, parent = float(registers(nest)[0]), program_features(nest, target.features)
    ranges = FeatureRanges.of(operator_from("", sketch.block), operator_from("", block))
    searched = [(shapes, ranges)]
    if target.one_core and isinstance(shapes, CpuShapes):
        one = Interval(1.0, 1.0).scaled(1 / float(parent.blocks[0]))
        searched.append((OneCoreShapes(block, target.vector_bytes), replace(ranges, blocks=one)))
    try:
        return [
            HierarchicalSearch(
                Programs(space, own, base, needed, target.limits), parent, within, target.features
            )
            for own, within in searched
        ]
    except UntiledError:
        return []
