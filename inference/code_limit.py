"""Programs that would take long to compile are no candidates, as those that a GPU cannot run are none."""

from __future__ import annotations

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule
from tvm.target import Target

from ..dataset.code_size import code_size
from ..dataset.tvm_compat import make_tune_context


@derived_object
class CodeLimit(ms.postproc.PyPostproc):
    """A postprocessor that refuses programs of more than `most` instructions, see `code_size`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        """Needs nothing of it."""

    def apply(self, sch: Schedule) -> bool:
        """Whether the program is short enough."""
        return code_size(sch.mod) <= self.most

    def clone(self) -> CodeLimit:
        """Another one like it."""
        return CodeLimit(self.most)


def limited_space(mod: tvm.IRModule, target: Target, most: int) -> ms.SpaceGenerator:
    """MetaSchedule's design space of a module, without programs of more than `most` instructions."""
    stock = make_tune_context(mod, target, seed=0).space_generator
    return ms.space_generator.PostOrderApply(
        sch_rules=list(stock.sch_rules),
        postprocs=[*stock.postprocs, CodeLimit(most)],
        mutator_probs=dict(stock.mutator_probs),
    )
