"""Design space of a task: its templates, or the space that the settings of a search choose."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule
from tvm.target import Target

from ...compiler.task import Task
from ...compiler.templates.cpu.attention.attention_schedule import is_attention
from ...compiler.templates.cpu.chains.chain import read_chain
from ...compiler.templates.cpu.programs import template_programs
from ...compiler.templates.cpu.winograd import read_winograd
from ...compiler.tvm_compat import stock_space
from ...dataset.hardware import Hardware
from ..search.config import OneShotConfig
from ..search.registry import SPACES
from .base import DesignSpace


@dataclass(frozen=True)
class TemplateSpace(DesignSpace):
    """The templates of a task, the most promising first. A task that no template fits has its plain loops.

    Opening a task raises RuntimeError. It has the message of MissingInstructionError if the target has no
    instruction for the task's data types, and of AccumulatorOverflowError if its sums may overflow.
    """

    hardware: Hardware | None = None
    """Device whose caches rank the templates; None assumes a second-level cache of one MiB."""
    most: int | None = None
    """Maximum number of templates; None sets no limit."""

    def generator(self, target: Target) -> ms.SpaceGenerator:
        """See DesignSpace."""

        def sketches(plain: Schedule) -> list[Schedule]:
            programs = template_programs(plain.mod, target, self.hardware, require=True)
            return [program for _, program in islice(programs, self.most)] or [plain]

        stock = stock_space(target)
        return ms.space_generator.ScheduleFn(
            sketches,
            sch_rules=[],
            postprocs=list(stock.postprocs),
            mutator_probs=dict(stock.mutator_probs),
        )


SKETCHES = 8
"""Templates whose tile sizes a search may change, for Winograd's algorithm and for fused chains."""


def chosen_space(config: OneShotConfig, task: Task, target: Target, hardware: Hardware | None) -> DesignSpace:
    """The space of `search.space`, or the template space for tasks with templates of their own.

    Raises the errors of `DesignSpace.of_task`.
    """
    if _has_own_templates(task):
        return TemplateSpace(hardware, SKETCHES)
    space: type[DesignSpace] = SPACES.find(config.space)
    return space.of_task(config, task, target, hardware)


def _has_own_templates(task: Task) -> bool:
    """Whether a task has templates and MetaSchedule's rules are hopeless for it.

    The rules leave the numbers of Winograd's transforms to run time, and they store the values that a chain
    keeps in cache. They do not read the loops of attention.
    """
    return read_winograd(task.mod) is not None or read_chain(task.mod) is not None or is_attention(task.mod)
