"""Interface of design spaces, which define the candidates of a task."""

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

    A generator's schedule rules make the sketches, its postprocessors reject programs, and its mutators
    define the changes that evolution and annealing make. Candidates are ordinary traces. Databases, the
    plug-in and stock compilation therefore work with the candidates of every space. `SPACES` of
    `search.registry` lists the spaces that `search.space` can choose; `check` and `of_task` create them.
    """

    needs_narrowing: ClassVar[bool] = False
    """Whether it excludes values of decisions, which needs a strategy that draws from `narrowed`."""

    @classmethod  # noqa: B027  # most spaces rule nothing out
    def check(cls, config: OneShotConfig, target: Target) -> None:
        """Raises OneShotConfigError if the settings or the target rule the space out."""

    @classmethod
    def of_task(cls, config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> Self:
        """The space of a task under the settings of a search; `hardware` is None for an unknown device.

        Raises the errors of `check`, and OneShotConfigError if the device must be known.
        """
        cls.check(config, target)
        return cls()

    @abstractmethod
    def generator(self, target: Target) -> ms.SpaceGenerator:
        """A generator for tasks of `target`; a tune context clones it before use."""

    def narrowed(self, spaces: Sequence[SketchSpace]) -> Sequence[SketchSpace]:
        """The sketches and values of decisions that a strategy drafts from; by default all of them.

        It expresses limits that a generator cannot: MetaSchedule's sampling accepts any divisor for a tile.
        """
        return spaces

    def python_cause(self, target: Target) -> str:
        """Cause of the programs that a postprocessor in Python rejects."""
        return PYTHON_POSTPROCESSOR
