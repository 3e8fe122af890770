"""Design space that the settings of a search choose for a task."""

from __future__ import annotations

from tvm.target import Target

from ...compiler.task import Task
from ...compiler.templates.cpu.chains.chain import read_chain
from ...compiler.templates.cpu.winograd import read_winograd
from ...dataset.hardware import Hardware
from ..search.config import OneShotConfig
from .base import DesignSpace
from .registry import space_class
from .templates import TemplateSpace

SKETCHES = 8
"""Templates whose tile sizes a search may change, for Winograd's algorithm and for fused chains."""


def chosen_space(config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> DesignSpace:
    """The space of `search.space`, or the template space for tasks with templates of their own.

    Raises the errors of `DesignSpace.of_task`.
    """
    if _has_own_templates(task):
        return TemplateSpace(hardware, SKETCHES)
    space: type[DesignSpace] = space_class(config.space)
    return space.of_task(config, task, target, hardware)


def _has_own_templates(task: Task) -> bool:
    """Whether a task has templates and MetaSchedule's rules are hopeless for it.

    The rules leave the numbers of Winograd's transforms to run time, and they store the values that a chain
    keeps in cache.
    """
    return read_winograd(task.mod) is not None or read_chain(task.mod) is not None
