"""MetaSchedule's design space without programs that are not worth measuring."""

from __future__ import annotations

from functools import lru_cache

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule
from tvm.target import Target

from ..counts.code_size import code_size
from ..targets import is_cpu, is_cuda
from ..tvm_compat import parse_target, stock_space, target_to_json
from .async_copies import WRONG_COPY, RejectWrongCopies
from .tensor_core_space import cuda_sketches

CODE_SIZE = "code size"
"""Cause of a candidate that CodeLimit rejected."""

PYTHON_POSTPROCESSOR = "PyPostproc"
"""Name by which TVM calls every postprocessor in Python; a measurable space has at most one on a target."""


@derived_object
class CodeLimit(ms.postproc.PyPostproc):
    """Postprocessor that rejects programs of more than `most` vector instructions; see `code_size`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        """Needs nothing of the context."""

    def apply(self, sch: Schedule) -> bool:
        """Whether the program is within the limit."""
        return code_size(sch.mod) <= self.most

    def clone(self) -> CodeLimit:
        """Copy with the same limit."""
        return CodeLimit(self.most)


def measurable_space(target: Target, max_code: int | None) -> ms.SpaceGenerator:
    """MetaSchedule's space for a target, with a postprocessor that rejects programs not worth measuring.

    On CPUs these are programs above `max_code` vector instructions, which compile slowly and are rarely the
    fastest; `max_code` None sets no limit. On CUDA devices, which have limits of their own, they are programs
    whose asynchronous copies TVM compiles to wrong code.
    """
    limited = max_code is not None and is_cpu(target)
    return _generator(target_to_json(target), max_code if limited else None)


def python_cause(target: Target) -> str:
    """Cause of the candidates that PYTHON_POSTPROCESSOR rejects in the measurable space of a target."""
    return WRONG_COPY if is_cuda(target) else CODE_SIZE


@lru_cache(maxsize=8)  # rules depend on the target alone, and reading them takes a tune context
def _generator(target: str, most: int | None) -> ms.SpaceGenerator:
    parsed = parse_target(target)
    own = [] if most is None else [CodeLimit(most)]
    stock = stock_space(parsed)
    if is_cuda(parsed):
        return ms.space_generator.ScheduleFn(
            cuda_sketches(parsed, stock.sch_rules),
            sch_rules=[],
            postprocs=[*stock.postprocs, RejectWrongCopies()],
            mutator_probs=dict(stock.mutator_probs),
        )
    return ms.space_generator.PostOrderApply(
        sch_rules=list(stock.sch_rules),
        postprocs=[*stock.postprocs, *own],
        mutator_probs=dict(stock.mutator_probs),
    )
