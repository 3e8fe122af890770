"""Reuse conditions between two operators (ETO, Definition 2), checked on short descriptions of them."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace

import numpy as np
from tvm.s_tir import meta_schedule as ms

from ...compiler.replay import trace_content
from ...compiler.structure.read_sketch import read_sketch
from ...compiler.structure.sketch import Sketch
from ...compiler.structure.structure import Access, Block, TaskStructure
from ...compiler.task import Task
from ...compiler.tvm_compat import design_spaces
from ...dataset.features.reading import task_reading
from ...errors import UserError


class UnreadableOperatorError(UserError, ValueError):
    """The task has no loop nest that can be described."""


@dataclass(frozen=True)
class SketchSignature:
    """Sketch 𝒦 without the names and extents of a task. Equal signatures accept equal decisions."""

    structure: str
    """Tiling structure such as SSSRRSRS, "" if nothing is tiled."""
    reduction: tuple[bool, ...]
    decisions: tuple[tuple[str, int, int, tuple[float, ...]], ...]
    """Kind, width, largest innermost factor and categorical values of each decision."""
    atoms: tuple[tuple[int, int, int, bool, str], ...]
    """Axis, band, column, whether a categorical decision sets the extent, and thread tag of each loop."""
    write_level: int
    cached_write: bool
    fetches: tuple[tuple[int, int, str, int], ...]
    pipeline_copies: int

    @classmethod
    def of(cls, sketch: Sketch) -> SketchSignature:
        """Signature of a sketch."""
        return cls(
            structure=sketch.structure,
            reduction=sketch.block.reduction,
            decisions=tuple((d.kind, d.width, d.largest_innermost, d.values) for d in sketch.decisions),
            atoms=tuple((a.axis, a.band, a.column, a.decision >= 0, a.thread) for a in sketch.atoms),
            write_level=sketch.write_level,
            cached_write=sketch.cached_write,
            fetches=tuple((f.read, f.level, f.scope, f.vector) for f in sketch.fetches),
            pipeline_copies=sketch.pipeline_copies,
        )


@dataclass(frozen=True)
class Operator:
    """Operator (ETO, Definition 1): its type τ, its major loop nest ℒ and its sketches 𝕂, if known."""

    type: str
    """τ: the operator's name and a hash of how its loops index its buffers. The hash does not depend on
    extents, strides and dilations."""
    extents: tuple[int, ...]
    """|𝕀(ℓ)| of each loop ℓ of ℒ."""
    reduction: tuple[bool, ...]
    """Whether each loop is a reduction loop (rℓ) or a space loop (sℓ)."""
    sketches: frozenset[SketchSignature] | None = None
    """𝕂; None if no design space was read: τ determines MetaSchedule's rules for all but small operators."""
    block: Block | None = field(default=None, compare=False)
    """Loop nest with its accesses, which the cost estimate needs; None if only the conditions are checked."""

    @property
    def iterations(self) -> float:
        """|𝕀(ℒ)|."""
        return float(math.prod(self.extents))

    @property
    def reduction_iterations(self) -> float:
        """|𝕀(rℒ)|, 1 without a reduction loop."""
        return float(math.prod(e for e, reduces in zip(self.extents, self.reduction, strict=True) if reduces))

    @property
    def space_iterations(self) -> float:
        """|𝕀(sℒ)|, 1 without a space loop."""
        return self.iterations / self.reduction_iterations

    def with_extents(self, extents: tuple[int, ...]) -> Operator:
        """Operator of the same type and sketches with other extents, such as a bridge (Definition 5)."""
        return replace(self, extents=extents, block=self.block and _resized(self.block, extents))


@dataclass(frozen=True)
class Dominance:
    """Dominance between the loop nests of a parent and a child (Definition 2, condition 2)."""

    larger: str
    """ "parent", "child", or "" if all loops have equal extents."""
    axes: tuple[int, ...]
    """Loops whose extents differ."""


def dominance(parent: Operator, child: Operator) -> Dominance | None:
    """Dominance between the loops of two operators of one type; None if neither nest dominates."""
    pairs = list(zip(parent.extents, child.extents, strict=True))
    axes = tuple(axis for axis, (ours, theirs) in enumerate(pairs) if ours != theirs)
    if not axes:
        return Dominance("", ())
    larger = {"parent" if pairs[axis][0] > pairs[axis][1] else "child" for axis in axes}
    return Dominance(larger.pop(), axes) if len(larger) == 1 else None


def same_type(parent: Operator, child: Operator) -> bool:
    """Reuse condition (1) of Definition 2: equal τ, and equal 𝕂 if the sketches of both are known."""
    if parent.type != child.type or parent.reduction != child.reduction:
        return False
    return parent.sketches is None or child.sketches is None or parent.sketches == child.sketches


def can_reuse(parent: Operator, child: Operator) -> bool:
    """Whether the child may reuse the parent's program, under both conditions of Definition 2."""
    return same_type(parent, child) and dominance(parent, child) is not None


def operator_of(task: Task, context: ms.TuneContext | None = None) -> Operator:
    """Description of a task.

    Args:
        context: tune context of the task. Its design space gives 𝕂 and needs a tenth of a second to read.
            None leaves 𝕂 open.

    Raises UnreadableOperatorError for a task without loops or with unreadable loops, and
    NoDesignSpaceError if the context has nothing to tune.
    """
    try:
        structure = task_reading(task.mod).structure
    except Exception as error:  # TVM raises InternalError and others
        raise UnreadableOperatorError(
            f"task={task.name}: its loops cannot be read ({type(error).__name__}); tune it without a parent"
        ) from error
    if structure.anchor is None:
        raise UnreadableOperatorError(f"task={task.name}: it has no loops; tune it without a parent")
    sketches = None if context is None else sketches_of(context, structure, task.name)
    return operator_from(task.operator, structure.anchor, sketches)


def operator_from(name: str, block: Block, sketches: frozenset[SketchSignature] | None = None) -> Operator:
    """Operator whose major loop nest is a block."""
    return Operator(f"{name} {_pattern(block)}", block.extents, block.reduction, sketches, block)


def sketches_of(context: ms.TuneContext, structure: TaskStructure, name: str) -> frozenset[SketchSignature]:
    """𝕂 of a task from its design space; raises NoDesignSpaceError."""
    traces = [trace_content(space.trace) for space in design_spaces(context, name)]
    return frozenset(SketchSignature.of(read_sketch(trace, structure)[0]) for trace in traces)


def _pattern(block: Block) -> str:
    """16 hex digits that hash the loops' kinds and the loops that index each dimension of each buffer."""
    accesses = [
        (
            access.element_bytes,
            access.packed,
            [
                None if terms is None else sorted({axis for term in terms for axis, _ in term.axes})
                for terms in access.indices
            ],
        )
        for access in (*block.writes, *block.reads)
    ]
    return hashlib.sha256(repr((block.reduction, accesses)).encode()).hexdigest()[:16]


def _resized(block: Block, extents: tuple[int, ...]) -> Block:
    """Block with other extents; each buffer has the size that the block accesses."""
    return replace(
        block,
        extents=extents,
        writes=tuple(_resized_access(access, extents) for access in block.writes),
        reads=tuple(_resized_access(access, extents) for access in block.reads),
    )


def _resized_access(access: Access, extents: tuple[int, ...]) -> Access:
    tile = [np.float32(extent) for extent in extents]
    unbounded = replace(access, shape=tuple(2**30 for _ in access.shape))
    shape = tuple(
        size if terms is None else int(touched)
        for terms, size, touched in zip(access.indices, access.shape, unbounded.extents(tile), strict=True)
    )
    return replace(access, shape=shape)
