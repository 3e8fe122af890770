"""Loops in vectors that are wider than a register, as whole registers and a rest.

LLVM keeps 58 lanes that a loop carries as 58 scalars, since their number is no power of two. Three vectors of
16 lanes and one of 10 fill four registers instead: a product with 58 columns is twenty times as fast.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlock
from tvm.tirx import For, ForKind, IterVar, PrimFunc

from ..operators.shared.tir import substituted
from ..targets import traits
from ..tvm_compat import cpu_target


def with_register_vectors(func: PrimFunc) -> PrimFunc:
    """A scheduled function for a CPU whose wide vectors are whole registers and a rest.

    Vectors of a power of two stay unchanged. The others are as wide as the register is for the largest data
    type in the loop.
    """
    target = cpu_target(func)
    if target is None:
        return func
    wide = {loop.loop_var: lanes for loop, lanes in _wide(func, traits(target).vector_bits or 128)}

    def changed(loop: For) -> Any:
        lanes = wide.get(loop.loop_var)
        return loop if lanes is None else _split(loop, lanes)

    return func.with_body(tvm_ffi.structural_map(func.body, (For, changed))) if wide else func


def has_wide_sums(func: PrimFunc, bits: int) -> bool:
    """Whether sums of a scheduled function are in vectors that are split, on registers of `bits`."""
    return any(_sums(block) for loop, _ in _wide(func, bits) for block in _inside(loop))


def _sums(block: SBlock) -> bool:
    return any(axis.iter_type == IterVar.CommReduce for axis in block.iter_vars)


def _wide(func: PrimFunc, bits: int) -> list[tuple[For, int]]:
    """Loops to split, each with the lanes of a register."""
    found: list[For] = []
    tvm_ffi.structural_walk(func.body, (For, found.append))
    return [(loop, lanes) for loop in found if (lanes := _lanes(loop, bits))]


def _lanes(loop: For, bits: int) -> int:
    """Lanes of a register for a loop that is wider and no power of two; 0 for any other."""
    if loop.kind != ForKind.VECTORIZED or not isinstance(loop.extent, tirx.IntImm):
        return 0
    extent, inside = int(loop.extent), _inside(loop)
    sizes = [tvm.DataType(region.source.dtype).bits for block in inside for region in _regions(block)]
    if not sizes or extent & (extent - 1) == 0:
        return 0
    lanes = bits // max(8, *sizes)
    return lanes if extent > lanes else 0


def _inside(loop: For) -> list[SBlock]:
    """Blocks of a loop; none if it has loops inside, which cannot be there twice."""
    blocks: list[SBlock] = []
    loops: list[For] = []
    tvm_ffi.structural_walk(loop.body, [(SBlock, blocks.append), (For, loops.append)])
    return [] if loops else blocks


def _regions(block: SBlock) -> list[Any]:
    return [*block.reads, *block.writes]


def _split(loop: For, lanes: int) -> Any:
    """The loop as a loop over whole registers, and a loop over the rest."""
    whole, rest = divmod(int(loop.extent), lanes)
    name, dtype = loop.loop_var.name, loop.loop_var.ty.dtype

    def part(begin: Any, extent: int) -> For:
        lane = tirx.Var(f"{name}_lane", dtype)
        body = substituted(loop.body, {loop.loop_var: begin + lane})
        return For(lane, tirx.const(0, dtype), tirx.const(extent, dtype), ForKind.VECTORIZED, body)

    vector = tirx.Var(f"{name}_vector", dtype)
    registers = For(
        vector,
        tirx.const(0, dtype),
        tirx.const(whole, dtype),
        ForKind.UNROLLED,
        part(loop.min + vector * lanes, lanes),
    )
    return tirx.SeqStmt([registers, part(loop.min + whole * lanes, rest)]) if rest else registers
