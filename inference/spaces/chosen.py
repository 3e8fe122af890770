"""Design space that the settings of a search choose for a task."""

from __future__ import annotations

from tvm.target import Target

from ...dataset.hardware import Hardware
from ...dataset.task import Task
from ...dataset.templates.winograd import read_winograd
from ..config import OneShotConfig
from ..strategies.checks import OneShotConfigError
from .base import DesignSpace
from .code_limit import StockSpace
from .config import STOCK, SUB_SPACE
from .sub_space import SubSpace
from .templates import TemplateSpace

WINOGRAD_SKETCHES = 8
"""Templates whose tile sizes a search of a convolution by Winograd's algorithm may change."""


def chosen_space(config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> DesignSpace:
    """The space by `search.space`; raises OneShotConfigError for the sub-space of a GPU or unknown device."""
    if config.space == STOCK and read_winograd(task.mod) is not None:
        # The rules leave the numbers of its transforms to run time, which makes them hopeless.
        return TemplateSpace(hardware, WINOGRAD_SKETCHES)
    if config.space == STOCK:
        return StockSpace(config.max_code)
    if target.kind.name != "llvm" or hardware is None:
        raise OneShotConfigError(
            f"search.space={SUB_SPACE}: primitives' weights are those of CPUs of known hardware, not of "
            f"{target.kind.name}; use search.space={STOCK}"
        )
    return SubSpace.of(task, hardware, config.sub_space, config.max_code)
