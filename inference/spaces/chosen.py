"""Design space that the settings of a search choose for a task."""

from __future__ import annotations

from tvm.target import Target

from ...compiler.task import Task
from ...compiler.templates.cpu.chains.chain import read_chain
from ...compiler.templates.cpu.winograd import read_winograd
from ...dataset.hardware import Hardware
from ..fasor.sub_space import SubSpace, check_sub_space
from ..search.config import OneShotConfig
from ..search.settings_checks import OneShotConfigError
from .base import DesignSpace
from .config import STOCK, SUB_SPACE
from .stock import StockSpace
from .templates import TemplateSpace

SKETCHES = 8
"""Templates whose tile sizes a search may change, for Winograd's algorithm and for fused chains."""


def chosen_space(config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> DesignSpace:
    """The space by `search.space`, or templates for tasks that have their own.

    Raises OneShotConfigError for the sub-space of a GPU or unknown device, and WeightsError.
    """
    if _has_own_templates(task):
        return TemplateSpace(hardware, SKETCHES)
    if config.space == STOCK:
        return StockSpace(config.max_code)
    check_sub_space(config.sub_space, target)
    if hardware is None:
        raise OneShotConfigError(
            f"search.space={SUB_SPACE}: needs the figures of the device, which is not known; use "
            f"search.space={STOCK}"
        )
    return SubSpace.of(task, hardware, config.sub_space, config.max_code)


def _has_own_templates(task: Task) -> bool:
    """Whether MetaSchedule's rules are hopeless for a task that has templates.

    They leave the numbers of Winograd's transforms to run time, and store what a chain keeps in cache.
    """
    return read_winograd(task.mod) is not None or read_chain(task.mod) is not None
