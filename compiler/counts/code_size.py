"""Size of the machine code of a scheduled program, which determines its compile time.

TVM copies the bodies of unrolled loops, and LLVM takes several seconds for a body of ten thousand vector
instructions. The size is estimated from the schedule in a tenth of a millisecond, before lowering.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import tvm
import tvm_ffi
from tvm.ir import Call
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import For, ForKind, IntImm, SeqStmt

from ..tvm_compat import entry_function

LANES = 8
"""Elements of a vector instruction: LLVM prefers 256 bits even with AVX-512."""

FUNCTIONS = {"tirx.exp": 22, "tirx.tanh": 15, "tirx.erf": 17}
"""Vector instructions of these functions in `vector_math`; a multiply-add counts as one."""

_MAX_STEP = "pragma_auto_unroll_max_step"
_MOST_NESTED = 8  # tirx.UnrollLoop: a pragma unrolls no loop around this many nested unrolled loops


@dataclass(frozen=True)
class _Code:
    """Properties of a statement after unrolling."""

    stores: int = 0
    """Stores that TVM compares with the maximum step of the pragma."""
    instructions: int = 0
    nested: int = 0
    """Depth of nested unrolled loops."""
    loops: bool = False
    """Whether a loop remains in the statement; TVM unrolls no loop around it."""

    def then(self, other: _Code) -> _Code:
        return _Code(
            self.stores + other.stores,
            self.instructions + other.instructions,
            max(self.nested, other.nested),
            self.loops or other.loops,
        )


def code_size(mod: tvm.IRModule) -> int:
    """Estimated number of vector instructions of the scheduled entry function.

    Each store counts one instruction, one for each buffer that it reads and those of `FUNCTIONS`, times its
    vector length over `LANES`. A loop that is not unrolled counts once. Unrolling by LLVM is not included.
    """
    return _code(entry_function(mod).body, lanes=1, max_step=0).instructions


def _code(node: object, lanes: int, max_step: int) -> _Code:
    """Code of a node inside vectorised loops of `lanes` iterations and a pragma with step `max_step`."""
    if isinstance(node, For):
        return _loop(node, lanes, max_step)
    if isinstance(node, SeqStmt):
        return reduce(_Code.then, (_code(child, lanes, max_step) for child in node.seq), _Code())
    if isinstance(node, SBlockRealize):
        return _code(node.block, lanes, max_step)
    if isinstance(node, SBlock):
        if not node.writes:  # the root block
            return _code(node.body, lanes, max_step)
        each = 1 + len(node.reads) + _instructions_of_calls(node.body)
        stores = _Code(1, math.ceil(lanes / LANES) * each)
        inside = _code(node.body, lanes, max_step)  # a tensorised block has loops inside
        initial = _Code() if node.init is None else _code(node.init, lanes, max_step)
        return (inside if inside.stores else stores).then(initial)
    body = getattr(node, "body", None)
    return _Code() if body is None else _code(body, lanes, max_step)


def _instructions_of_calls(body: object) -> int:
    """Instructions of the function calls in a body."""
    found = []

    def count(call: Call) -> tvm_ffi.WalkResult:
        found.append(FUNCTIONS.get(getattr(call.op, "name", ""), 0))
        return tvm_ffi.WalkResult.ADVANCE

    tvm_ffi.structural_walk(body, [(Call, count)], order="pre")
    return sum(found)


def _loop(loop: For, lanes: int, max_step: int) -> _Code:
    extent = int(loop.extent) if isinstance(loop.extent, IntImm) else 0
    if loop.kind == ForKind.VECTORIZED:
        return _code(loop.body, lanes * max(extent, 1), max_step)
    max_step = int(loop.annotations.get(_MAX_STEP, max_step))
    body = _code(loop.body, lanes, max_step)
    if extent == 1:
        return body
    by_pragma = (
        loop.kind == ForKind.SERIAL
        and not body.loops
        and body.nested <= _MOST_NESTED
        and extent * body.stores <= max_step
    )
    if extent and (by_pragma or loop.kind == ForKind.UNROLLED):
        return _Code(extent * body.stores, extent * body.instructions, body.nested + 1, body.loops)
    return _Code(body.stores, body.instructions, body.nested, True)
