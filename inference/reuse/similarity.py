"""Likeness of tasks: which ones may take each other's programs, and how far their loops are apart."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...compiler.structure.structure import Access, Block
from ...compiler.task import Task
from .conditions import UnreadableOperatorError, operator_of

OTHER_STEPS = 2.0
"""Distance between operators that step through their inputs otherwise, by a stride or a dilation."""


@dataclass(frozen=True)
class Loops:
    """Major loop nest of a task, as far as programs are chosen by it."""

    kind: str
    """Type τ of the operator (`conditions.Operator.type`). MetaSchedule's sketches follow from it in all but
    small operators; a program without its sketch is passed over when it is adapted."""
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    """Coefficients of the loops in the indices of the inputs: strides and dilations."""
    of_weight: tuple[bool, ...] = ()
    """Whether each loop runs over the constant weight; empty where none is known."""

    def distance(self, other: Loops) -> float:
        """Differences of the extents in powers of two, and OTHER_STEPS for other strides; of one kind."""
        apart = np.abs(np.log2(self.extents) - np.log2(other.extents)).sum()
        return float(apart) + (OTHER_STEPS if self.steps != other.steps else 0.0)

    def is_resized(self, other: Loops) -> bool:
        """Whether these are the other's loops at another size: some extents by one factor, the rest the same.

        So are the layers of a network at another batch size or sequence length, whose weights are the same.
        """
        if (self.kind, self.steps) != (other.kind, other.steps):
            return False
        factors = [Fraction(*pair) for pair in zip(self.extents, other.extents, strict=True)]
        if any(factor != 1 for factor, fixed in zip(factors, self.of_weight, strict=False) if fixed):
            return False
        return len(set(factors) - {1}) <= 1


def loops_of(task: Task) -> Loops | None:
    """Loops of a task; None where it has nothing to tile or its loops cannot be read."""
    if task.operator == "elementwise":
        return None
    try:
        operator = operator_of(task)
    except UnreadableOperatorError:
        return None
    assert operator.block is not None
    return Loops(operator.type, operator.extents, _steps(operator.block), _of_weight(operator.block))


def _steps(block: Block) -> tuple[int, ...]:
    return tuple(step for access in block.reads for step in _steps_of(access))


def _steps_of(access: Access) -> list[int]:
    return [
        term.coefficient * factor
        for terms in access.indices
        for term in terms or ()
        for _, factor in term.axes
    ]


def _of_weight(block: Block) -> tuple[bool, ...]:
    """Whether each loop indexes a buffer whose layout the schedule chooses: those are constants."""
    axes = {
        axis
        for access in block.reads
        if access.packed
        for terms in access.indices
        for term in terms or ()
        for axis, _ in term.axes
    }
    return tuple(axis in axes for axis in range(len(block.extents)))
