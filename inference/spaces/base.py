"""Interface of design spaces: which candidates of a task exist."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ...compiler.structure.space import SketchSpace


class DesignSpace(ABC):
    """The candidates of tasks on a target, as a space generator of MetaSchedule.

    A generator's schedule rules make the sketches, its postprocessors refuse programs, and its mutators are
    what evolution and annealing change. Candidates are ordinary traces, so that databases, the plug-in and
    stock compilation work with those of every space.
    """

    @abstractmethod
    def generator(self, target: Target) -> ms.SpaceGenerator:
        """A generator for tasks of `target`; a tune context clones it before use."""

    def narrowed(self, spaces: Sequence[SketchSpace]) -> Sequence[SketchSpace]:
        """The sketches and values of decisions that a strategy drafts from; all of them by default.

        It narrows what a generator cannot express: MetaSchedule's sampling takes any divisor for a tile.
        """
        return spaces
