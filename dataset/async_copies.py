"""Check for asynchronous copies that TVM compiles to wrong code for CUDA.

With `tirx.use_async_copy`, the pass `InjectPTXAsyncCopy` turns a vector fetch into shared memory into one
copy of consecutive bytes, by the first element of its index alone. A fetch with another stride, such as four
rows of a column, then copies the wrong elements. Such programs are no candidates: they compute wrong
results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.expr import TensorLoad
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule
from tvm.target import Target
from tvm.tirx import AttrStmt, BufferStore, For, Ramp

from ..errors import UserError
from .tvm_compat import vectorised

STRIDED_COPY = "strided asynchronous copy"
"""Cause of a candidate that RejectStridedCopies rejected."""

_PIPELINE = "software_pipeline_async_stages"
_SCOPE = "async_scope"


class StridedCopyError(UserError, ValueError):
    """TVM would compile a program's asynchronous copies to wrong code."""


def has_strided_copies(mod: tvm.IRModule, target: Target) -> bool:
    """Whether a scheduled CUDA module has an asynchronous vector copy of elements that are not consecutive.

    Lowers programs with asynchronous pipeline stages; false at once for others and for other devices.
    """
    return target.kind.name == "cuda" and _has_async_stages(mod) and _copies_strided(vectorised(mod, target))


def check_copies(mod: tvm.IRModule, target: Target) -> None:
    """Raise StridedCopyError if `has_strided_copies`."""
    if has_strided_copies(mod, target):
        raise StridedCopyError(
            f"{STRIDED_COPY}: TVM copies other elements than the program says; choose another schedule, "
            "such as one with a vector length of 1 for this fetch"
        )


@derived_object
class RejectStridedCopies(ms.postproc.PyPostproc):
    """Postprocessor that rejects programs with strided asynchronous copies."""

    def __init__(self) -> None:
        super().__init__()
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule) -> bool:
        """Whether the program has no such copy."""
        return self._target is None or not has_strided_copies(sch.mod, self._target)

    def clone(self) -> RejectStridedCopies:
        """Another one, which takes the target of its own context."""
        return RejectStridedCopies()


def _has_async_stages(mod: tvm.IRModule) -> bool:
    return _any(mod, For, lambda loop: _PIPELINE in loop.annotations)


def _copies_strided(mod: tvm.IRModule) -> bool:
    return _any(
        mod, AttrStmt, lambda scope: scope.attr_key == _SCOPE and _any(scope, BufferStore, _is_strided_copy)
    )


def _is_strided_copy(store: BufferStore) -> bool:
    if not isinstance(store.value, TensorLoad) or store.value.source.scope() != "global":
        return False
    ramps = [index for index in (*store.value.indices, *store.indices) if isinstance(index, Ramp)]
    return any(int(ramp.stride) != 1 for ramp in ramps)


def _any(root: Any, kind: type, test: Callable[[Any], bool]) -> bool:
    """Whether a node of this kind within `root` passes the test."""
    stop = tvm_ffi.VisitInterrupt(None)
    found = tvm_ffi.structural_walk(root, (kind, lambda node: stop if test(node) else None), order="pre")
    return found is not None
