"""Similarity of tasks: which tasks may share programs, and the distance between their loops."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...compiler.structure.structure import Access, Block
from ...compiler.task import UNTILED, Task
from .conditions import UnreadableOperatorError, operator_of

OTHER_STEPS = 2.0
"""Distance between operators that step through their inputs with different strides or dilations."""


@dataclass(frozen=True)
class Loops:
    """Major loop nest of a task, reduced to the properties that determine the choice of programs."""

    kind: str
    """Type τ of the operator (`conditions.Operator.type`). For all but small operators it determines
    MetaSchedule's sketches. Adaptation skips a program whose sketch the task lacks."""
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    """Coefficients of the loops in the indices of the inputs: strides and dilations."""
    of_weight: tuple[bool, ...] = ()
    """Whether each loop runs over the constant weight; empty if no weight is known."""

    def distance(self, other: Loops) -> float:
        """Differences of the extents in powers of two, plus OTHER_STEPS for other strides; of equal kinds."""
        apart = np.abs(np.log2(self.extents) - np.log2(other.extents)).sum()
        return float(apart) + (OTHER_STEPS if self.steps != other.steps else 0.0)

    def is_resized(self, other: Loops) -> bool:
        """Whether the loops are the other's loops at another size: one factor scales some of the extents.

        The layers of a network at another batch size or sequence length are related in this way. Their
        weights are equal.
        """
        if (self.kind, self.steps) != (other.kind, other.steps):
            return False
        factors = [Fraction(*pair) for pair in zip(self.extents, other.extents, strict=True)]
        if any(factor != 1 for factor, fixed in zip(factors, self.of_weight, strict=False) if fixed):
            return False
        return len(set(factors) - {1}) <= 1


def loops_of(task: Task) -> Loops | None:
    """Loops of a task; None if it has nothing to tile or its loops cannot be read."""
    if task.operator in UNTILED:
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
    """Whether each loop indexes a buffer whose layout the schedule chooses; these buffers are constants."""
    axes = {
        axis
        for access in block.reads
        if access.packed
        for terms in access.indices
        for term in terms or ()
        for axis, _ in term.axes
    }
    return tuple(axis in axes for axis in range(len(block.extents)))
