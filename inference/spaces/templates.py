"""Design space of hardware-native templates: one sketch per template, with tile sizes that may change."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule
from tvm.target import Target

from ...compiler.templates.cpu.programs import template_programs
from ...compiler.tvm_compat import stock_space
from ...dataset.hardware import Hardware
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
