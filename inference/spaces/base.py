"""Interface of design spaces: which candidates of a task exist."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target
from typing_extensions import Self

from ...compiler.spaces.measurable_space import PYTHON_POSTPROCESSOR
from ...compiler.structure.space import SketchSpace
from ...compiler.task import Task
from ...dataset.hardware import Hardware
from ..search.config import OneShotConfig


class DesignSpace(ABC):
    """The candidates of tasks on a target, as a space generator of MetaSchedule.

    A generator's schedule rules make the sketches, its postprocessors refuse programs, and its mutators are
    what evolution and annealing change. Candidates are ordinary traces, so that databases, the plug-in and
    stock compilation work with those of every space. A space that `search.space` chooses stands in
    `registry.SPACES`, and is made by `check` and `of_task`.
    """

    needs_narrowing: ClassVar[bool] = False
    """Whether it leaves out values of decisions, which takes a strategy that draws from `narrowed`."""

    @classmethod  # noqa: B027  # most rule nothing out
    def check(cls, config: OneShotConfig, target: Target) -> None:
        """Raises OneShotConfigError where the settings or the target rule the space out."""

    @classmethod
    def of_task(cls, config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> Self:
        """The space of a task by the settings of a search; `hardware` is None for an unknown device.

        Raises what `check` raises, and OneShotConfigError where the device must be known.
        """
        cls.check(config, target)
        return cls()

    @abstractmethod
    def generator(self, target: Target) -> ms.SpaceGenerator:
        """A generator for tasks of `target`; a tune context clones it before use."""

    def narrowed(self, spaces: Sequence[SketchSpace]) -> Sequence[SketchSpace]:
        """The sketches and values of decisions that a strategy drafts from; all of them by default.

        It narrows what a generator cannot express: MetaSchedule's sampling takes any divisor for a tile.
        """
        return spaces

    def python_cause(self, target: Target) -> str:
        """Cause of the programs that a postprocessor in Python rejects."""
        return PYTHON_POSTPROCESSOR
