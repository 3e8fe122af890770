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
    """The space by `search.space`, or templates for tasks that have their own.

    Raises what `DesignSpace.of_task` raises.
    """
    if _has_own_templates(task):
        return TemplateSpace(hardware, SKETCHES)
    space: type[DesignSpace] = space_class(config.space)
    return space.of_task(config, task, target, hardware)


def _has_own_templates(task: Task) -> bool:
    """Whether MetaSchedule's rules are hopeless for a task that has templates.

    They leave the numbers of Winograd's transforms to run time, and store what a chain keeps in cache.
    """
    return read_winograd(task.mod) is not None or read_chain(task.mod) is not None
