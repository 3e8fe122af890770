"""How much machine code a scheduled program becomes, which is what compiling it takes time for.

TVM copies the bodies of loops that it unrolls, and LLVM takes several seconds for a body of ten thousand
vector instructions. The schedule tells that before anything is lowered, in a tenth of a millisecond.
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

LANES = 8
"""Numbers of a vector instruction: LLVM prefers 256 bits also where AVX-512 is there."""

FUNCTIONS = {"tirx.exp": 22, "tirx.tanh": 15, "tirx.erf": 17}
"""Vector instructions that these functions become in `vector_math`, a product and a sum in one."""

_MAX_STEP = "pragma_auto_unroll_max_step"
_MOST_NESTED = 8  # tirx.UnrollLoop: no further loop is unrolled by a pragma around so many


@dataclass(frozen=True)
class _Code:
    """What is known of a statement once TVM has unrolled it."""

    stores: int = 0
    """What TVM counts against the step of the pragma."""
    instructions: int = 0
    nested: int = 0
    """Unrolled loops within each other."""
    loops: bool = False
    """Whether a loop is left in it, around which TVM unrolls none."""

    def then(self, other: _Code) -> _Code:
        return _Code(
            self.stores + other.stores,
            self.instructions + other.instructions,
            max(self.nested, other.nested),
            self.loops or other.loops,
        )


def code_size(mod: tvm.IRModule) -> int:
    """Vector instructions of the scheduled function `main`, each loop that stays a loop counted once.

    An estimate: every store takes one instruction, one for each buffer it reads and those of `FUNCTIONS`,
    times the vectors it is wide. What LLVM unrolls further is not seen.
    """
    return _code(mod["main"].body, lanes=1, max_step=0).instructions


def _code(node: object, lanes: int, max_step: int) -> _Code:
    """`lanes` are of the vectorised loops around, `max_step` of the innermost pragma."""
    if isinstance(node, For):
        return _loop(node, lanes, max_step)
    if isinstance(node, SeqStmt):
        return reduce(_Code.then, (_code(child, lanes, max_step) for child in node.seq), _Code())
    if isinstance(node, SBlockRealize):
        return _code(node.block, lanes, max_step)
    if isinstance(node, SBlock):
        if not node.writes:  # the root
            return _code(node.body, lanes, max_step)
        each = 1 + len(node.reads) + _in_functions(node.body)
        stores = _Code(1, math.ceil(lanes / LANES) * each)
        inside = _code(node.body, lanes, max_step)  # of a tensorised block, its loops
        initial = _Code() if node.init is None else _code(node.init, lanes, max_step)
        return (inside if inside.stores else stores).then(initial)
    body = getattr(node, "body", None)
    return _Code() if body is None else _code(body, lanes, max_step)


def _in_functions(body: object) -> int:
    """Instructions of the functions that are called in a body."""
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
