"""Prefetches of packed weights: a product fetches the next panel while it computes this one.

A network's weights do not stay in a core's caches from one run to the next. A template reads a panel of its
weights once for each tile of rows, the first time from far away, and waits: the cores' own prefetchers see a
stream begin and end with each panel. So each pass over the current panel fetches a share of the next one.

`with_prefetches` adds these prefetches after scheduling, for the loops that a template marks (`PREFETCHED`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import For, PrimFunc

from ..operators.shared.tir import substituted
from ..templates.cpu.intrinsics.dot_intrinsics import pointer_to
from ..tvm_compat import importing_llvm

PREFETCHED = "foretune.prefetch"
"""Annotation of the innermost loop of a reduction that is no part of the register tile."""

LEAST_PASSES, MOST_PASSES = 2, 32
"""Passes over a panel for which prefetching saves time: one pass streams anyway, and many rarely wait."""

LINE_BYTES = 64
_FUNCTION = "foretune_prefetch"
_LLVM_IR = f"""
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define i32 @{_FUNCTION}(ptr %line) alwaysinline {{
  call void @llvm.prefetch.p0(ptr %line, i32 0, i32 2, i32 1) #0
  ret i32 0
}}
attributes #0 = {{ nounwind willreturn memory(inaccessiblemem: readwrite) }}
"""
"""A prefetch into the second cache. It touches no memory that a program sees: else LLVM would store the sums,
which it keeps in registers, before each one."""


def with_prefetches(func: PrimFunc) -> PrimFunc:
    """A scheduled function with a prefetch in each marked loop whose weights are packed in its order."""
    ahead: dict[tirx.Var, Any] = {}

    def visit(node: Any, loops: tuple[For, ...]) -> None:
        def enter(loop: For) -> tvm_ffi.WalkResult:
            if PREFETCHED in loop.annotations and (statement := _ahead(loop, loops)) is not None:
                ahead[loop.loop_var] = statement
            visit(loop.body, (*loops, loop))
            return tvm_ffi.WalkResult.SKIP

        tvm_ffi.structural_walk(node, (For, enter), order="pre")

    def changed(loop: For) -> For:
        if (statement := ahead.get(loop.loop_var)) is None:
            return loop
        body = tirx.SeqStmt([statement, loop.body])
        return For(
            loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations
        )

    visit(func.body, ())
    return func.with_body(tvm_ffi.structural_map(func.body, (For, changed))) if ahead else func


@dataclass(frozen=True)
class _Access:
    """Elements of an array that a block reads, by the loops around it."""

    array: tirx.Buffer
    starts: tuple[Any, ...]
    """First index along each axis, in loop variables."""
    elements: int
    """Elements that the block reads at once."""
    inner: tuple[For, ...]
    """Loops between the marked one and the block."""

    def at(self, values: Mapping[tirx.Var, Any]) -> Any:
        """Offset of the first element, with values in place of variables."""
        offset: Any = tirx.const(0, "int64")
        for start, extent in zip(self.starts, self.array.shape, strict=True):
            offset = offset * extent + start
        return Analyzer().simplify(substituted(offset, values))

    @cached_property
    def variables(self) -> set[tirx.Var]:
        """Loop variables that the offset depends on."""
        found: set[tirx.Var] = set()
        tvm_ffi.structural_walk(list(self.starts), (tirx.Var, lambda var: found.add(var)))
        return found


def _ahead(marked: For, around: Sequence[For]) -> Any | None:
    """Statement that prefetches the lines of the next panel that an iteration of the marked loop is due.

    None if no array is read in panels that follow each other in memory, over several passes each.
    """
    found = (_prefetches(access, (*around, marked)) for access in _accesses(marked))
    return next((statement for statement in found if statement is not None), None)


def _prefetches(access: _Access, loops: Sequence[For]) -> Any | None:
    """`_ahead` for one array: the loops are those of the panels, of the passes, and of the reduction."""
    reads = [loop.loop_var in access.variables for loop in loops]
    reduction = _run_before(reads, len(loops), True)
    first_pass = _run_before(reads, reduction, False)
    passes, reduced = loops[first_pass:reduction], loops[reduction:]
    panels = [loop for loop in loops[:first_pass] if loop.loop_var in access.variables]
    times = math.prod(map(_extent, passes))
    if not panels or not reduced or not LEAST_PASSES <= times <= MOST_PASSES:
        return None
    elements = _panel(access, loops, [*reduced, *access.inner])
    if elements is None:
        return None
    line = LINE_BYTES * 8 // tvm.DataType(access.array.dtype).bits
    iterations = math.prod(map(_extent, reduced))
    share = math.ceil(elements / line / times)
    count = math.ceil(share / iterations)
    step = math.ceil(share * line / iterations) if count == 1 else count * line
    first = {loop.loop_var: 0 for loop in (*reduced, *access.inner)}
    panel = panels[-1].loop_var
    start = access.at({**first, panel: panel + 1}) + _number(passes) * (share * line)
    offset = start + _number(reduced) * step
    return prefetch(access.array, [offset + number * line for number in range(count)])


def prefetch(array: Any, offsets: Sequence[Any]) -> Any:
    """Statement that prefetches the lines of the elements at these offsets in an array."""
    calls = [
        tirx.Evaluate(tirx.call_extern("int32", _FUNCTION, pointer_to(array, "r", offset)))
        for offset in offsets
    ]
    return importing_llvm(_LLVM_IR, calls[0] if len(calls) == 1 else tirx.SeqStmt(calls))


def _run_before(values: Sequence[bool], end: int, wanted: bool) -> int:
    """Begin of the run of a value that ends before `end`."""
    begin = end
    while begin and values[begin - 1] is wanted:
        begin -= 1
    return begin


def _panel(access: _Access, loops: Sequence[For], inside: Sequence[For]) -> int | None:
    """Elements that the loops `inside` read, None where these do not follow each other in memory."""
    zero = {loop.loop_var: 0 for loop in (*loops, *access.inner)}
    start = _whole(access.at(zero))
    count, reach = access.elements, access.elements
    for loop in inside:
        if loop.loop_var not in access.variables:
            continue
        extent = _extent(loop)
        step, end = (_whole(access.at({**zero, loop.loop_var: number})) - start for number in (1, extent - 1))
        if step <= 0 or end != step * (extent - 1):
            return None
        count *= extent
        reach = max(reach, step * extent)
    return count if count == reach else None


def _accesses(marked: For) -> list[_Access]:
    """Accesses by which the blocks below a loop read arrays of the function."""
    found: list[_Access] = []

    def visit(node: Any, loops: tuple[For, ...]) -> None:
        def enter_loop(loop: For) -> tvm_ffi.WalkResult:
            visit(loop.body, (*loops, loop))
            return tvm_ffi.WalkResult.SKIP

        def enter_block(realize: SBlockRealize) -> tvm_ffi.WalkResult:
            block = realize.block
            bound = {i.var: value for i, value in zip(block.iter_vars, realize.iter_values, strict=True)}
            for read in block.reads:
                if read.source.scope() != "global":
                    continue
                starts = tuple(substituted(one.min, bound) for one in read.region)
                elements = math.prod(_whole(one.extent) for one in read.region)
                found.append(_Access(read.source, starts, elements, loops))
            return tvm_ffi.WalkResult.SKIP

        callbacks = [(For, enter_loop), (SBlockRealize, enter_block)]
        tvm_ffi.structural_walk(node, callbacks, order="pre")

    visit(marked.body, ())
    return found


def _number(loops: Sequence[For]) -> Any:
    """Number of an iteration of nested loops."""
    number: Any = tirx.const(0, "int64")
    for loop in loops:
        number = number * loop.extent + loop.loop_var
    return number


def _extent(loop: For) -> int:
    return _whole(loop.extent)


def _whole(value: Any) -> int:
    return int(Analyzer().simplify(value)) if not isinstance(value, int) else value
