"""Check for asynchronous copies that TVM compiles to wrong code for CUDA.

With `tirx.use_async_copy`, the pass `InjectPTXAsyncCopy` turns a vector fetch into shared memory into one
copy of consecutive bytes, by the first element of its index alone.

- A fetch with another stride, such as four rows of a column, copies the wrong elements.
- A fetch whose address is not a multiple of its bytes ends the kernel, and with it the CUDA context. TVM's
  plain vector loads have a check for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule
from tvm.target import Target
from tvm.tirx import AttrStmt, Bind, BufferStore, For, Ramp

from ...errors import UserError
from ..targets import is_cuda
from ..tvm_compat import IF_THEN_ELSE, before_async_copies, has_mma_fragments, vectorised

WRONG_COPY = "wrong asynchronous copy"
"""Cause of a candidate that RejectWrongCopies rejected."""

_PIPELINE = "software_pipeline_async_stages"
_SCOPE = "async_scope"


class WrongCopyError(UserError, ValueError):
    """TVM would compile a program's asynchronous copies to wrong code."""


def has_wrong_copies(mod: tvm.IRModule, target: Target) -> bool:
    """Whether TVM compiles an asynchronous copy of a scheduled module for CUDA to wrong code.

    Lowers programs with asynchronous pipeline stages, which takes milliseconds, or up to a tenth of a
    second if an address shows only after unrolling. False at once for others and for other devices.
    """
    if not is_cuda(target) or not _async_loops(mod):
        return False
    early = _copies_wrongly(vectorised(mod, target))
    return bool(_copies_wrongly(before_async_copies(mod, target)) if early is None else early)


def check_copies(mod: tvm.IRModule, target: Target) -> None:
    """Raise WrongCopyError if `has_wrong_copies`."""
    if has_wrong_copies(mod, target):
        raise WrongCopyError(
            f"{WRONG_COPY}: TVM copies other elements than the program says, or from misaligned addresses; "
            "choose another schedule, such as one that fetches single elements"
        )


@derived_object
class RejectWrongCopies(ms.postproc.PyPostproc):
    """Postprocessor that rejects programs with wrong asynchronous copies."""

    def __init__(self) -> None:
        super().__init__()
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule) -> bool:
        """Whether the program has no such copy, and TVM lowers its pipeline."""
        if self._target is None:
            return True
        try:
            return not has_short_pipeline(sch.mod) and not has_wrong_copies(sch.mod, self._target)
        except tvm.error.InternalError:  # of TVM's lowering
            return False

    def clone(self) -> RejectWrongCopies:
        """Another one, which takes the target of its own context."""
        return RejectWrongCopies()


def has_short_pipeline(mod: tvm.IRModule) -> bool:
    """Whether a program for MMA has a single iteration to pipeline, which TVM does not compile."""
    return has_mma_fragments(mod) and any(int(loop.extent) < 2 for loop in _async_loops(mod))


def _async_loops(mod: tvm.IRModule) -> list[For]:
    found: list[For] = []
    _visit(mod, For, lambda loop: found.append(loop) if _PIPELINE in loop.annotations else None)
    return found


def _copies_wrongly(mod: tvm.IRModule) -> bool | None:
    """Whether a copy is wrong; None if none is, but one cannot be told before loops are unrolled."""
    verdicts: set[bool | None] = set()
    known = tvm.sym.Analyzer()
    # Addresses are sums of variables that hold common subexpressions.
    _visit(mod, Bind, lambda definition: known.bind(definition.var, definition.value))

    def judge_copies(scope: AttrStmt) -> None:
        if scope.attr_key == _SCOPE:
            _visit(scope, BufferStore, lambda store: verdicts.add(_is_wrong_copy(store, known)))

    _visit(mod, AttrStmt, judge_copies)
    return True if True in verdicts else None if None in verdicts else False


def _is_wrong_copy(store: BufferStore, known: tvm.sym.Analyzer) -> bool | None:
    value = store.value
    if isinstance(value, Call) and getattr(value.op, "name", "") == IF_THEN_ELSE:  # zeros around the input
        value = value.args[1]
    if not isinstance(value, TensorLoad) or value.source.scope() != "global":
        return False
    indices = [*value.indices, *store.indices]
    ramps = [index for index in indices if isinstance(index, Ramp)]
    if any(int(ramp.stride) != 1 or not _is_aligned(ramp, known) for ramp in ramps):
        return True
    # The pass leaves vectors of other indices alone, but unrolling may turn them into ramps.
    others = (index for index in indices if not isinstance(index, Ramp))
    return None if any(index.ty.dtype.lanes > 1 for index in others) else False


def _is_aligned(ramp: Ramp, known: tvm.sym.Analyzer) -> bool:
    """Whether the first index is known to be a multiple of the length, as for a plain vector load."""
    first = known.modular_set(ramp.base)
    lanes = int(ramp.lanes)
    return int(first.coeff) % lanes == 0 and int(first.base) % lanes == 0


def _visit(root: Any, kind: type, action: Callable[[Any], None]) -> None:
    """Calls the action with each node of this kind within `root`."""
    tvm_ffi.structural_walk(root, (kind, lambda node: action(node)), order="pre")
