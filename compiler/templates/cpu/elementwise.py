"""Reading of a task without sums, and the orders of its loops worth trying.

MetaSchedule has one program for such a task: all loops in one, in vectors of 64 elements. If an index is
no plain sum of loops, as in a shuffle of channels, each element of these vectors is then loaded on its own. A
transposition reads or writes across rows. Loops along the axes of the output keep indices simple.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir.schedule import Schedule, ScheduleError
from tvm.s_tir.stmt import SBlock
from tvm.sym import Analyzer
from tvm.tirx import BufferRegion

from ...operators.shared.tir import extents, substituted
from .contraction import blocks_of, is_elementwise, writes_output
from .stages import inline_blocks
from .template import divisors

VECTORS, LOOPS, TURNED = "vectors", "loops", "turned"
"""Orders: the last axis in vectors; as the output lies, with vectors left to LLVM; in squares of two axes, of
which one is consecutive in the output and the other in an input."""

SQUARE = 16
"""Elements of a square along each of its axes."""

_LEAST = 4096
"""Elements of all outputs, below which a task is over before its order matters."""

_FEW, _MOST = 64, 256
"""Elements of a vector: at most the first where a divisor of the axis is, and at most the second."""


@dataclass(frozen=True)
class Output:
    """One block that writes an output."""

    block: str
    extents: tuple[int, ...]
    turned: int | None
    """Axis along which an input is consecutive, where its last axis is not and squares of the two fit well;
    None if there is none."""

    @property
    def lanes(self) -> int | None:
        """Elements of a vector along the last axis; None where too few of them divide it."""
        last = self.extents[-1]
        found = max(divisors(last, _FEW))
        if found < SQUARE and found < last:
            found = max(divisors(last, _MOST))
        return found if found >= SQUARE or found == last else None


@dataclass(frozen=True)
class Elementwise:
    """A task whose blocks compute each element on its own."""

    inlined: tuple[str, ...]
    """Blocks whose values are computed at their readers, in order."""
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class ElementwiseTemplate:
    """Parameters of one schedule."""

    order: str


def read_elementwise(mod: tvm.IRModule) -> Elementwise | None:
    """The elements that `main` computes; None for another task, or a small one."""
    blocks = blocks_of(mod)
    if len({block.name_hint for block in blocks}) != len(blocks) or not all(map(is_elementwise, blocks)):
        return None
    stored = [block.name_hint for block in blocks if writes_output(block, mod["main"])]
    inlined = tuple(block.name_hint for block in blocks if block.name_hint not in stored)
    sch = Schedule(mod, debug_mask=0, error_render_level="none")
    try:
        inline_blocks(sch, inlined)
    except ScheduleError:  # such as a block that is read in two places of another shape
        return None
    outputs = tuple(_output(sch.get(sch.get_sblock(name))) for name in stored)
    if not all(output.extents for output in outputs):
        return None
    if sum(math.prod(output.extents) for output in outputs) < _LEAST:
        return None
    return Elementwise(inlined, outputs)


def elementwise_templates(task: Elementwise) -> Iterator[ElementwiseTemplate]:
    """Templates that fit, the most promising first."""
    turned = any(output.turned is not None for output in task.outputs)
    vectors = all(output.lanes for output in task.outputs)
    if turned:
        yield ElementwiseTemplate(TURNED)
    if vectors and not turned:
        yield ElementwiseTemplate(VECTORS)
    yield ElementwiseTemplate(LOOPS)
    if vectors and turned:
        yield ElementwiseTemplate(VECTORS)


def _output(block: SBlock) -> Output:
    sizes = tuple(int(one.dom.extent) for one in block.iter_vars)
    return Output(block.name_hint, sizes, _turned(block, sizes))


def _turned(block: SBlock, sizes: Sequence[int]) -> int | None:
    """See `Output.turned`; the input with most elements is looked at first."""
    at = {one.var: size // 2 for one, size in zip(block.iter_vars, sizes, strict=True)}
    for read in sorted(block.reads, key=lambda one: -math.prod(extents(one.source))):
        steps = [
            None if size == 1 else _step(read, at, one.var)
            for one, size in zip(block.iter_vars, sizes, strict=True)
        ]
        if steps and steps[-1] not in (None, 0, 1) and 1 in steps[:-1]:
            axis = steps.index(1)
            return axis if _fill(sizes[axis]) and _fill(sizes[-1]) else None
    return None


def _fill(extent: int) -> bool:
    """Whether an axis fills three quarters of the squares along it."""
    return extent >= 0.75 * SQUARE * math.ceil(extent / SQUARE)


def _step(read: BufferRegion, at: Mapping[Any, int], axis: Any) -> int | None:
    """Elements from one iteration of a loop to the next, in the middle of all; None by data of the task."""
    here, there = (_address(read, {**at, axis: at[axis] + by}) for by in (-1, 0))
    return None if here is None or there is None else there - here


def _address(read: BufferRegion, at: Mapping[Any, int]) -> int | None:
    """Number of the element that is read; None if it depends on data."""
    analyzer, found = Analyzer(), 0
    for region, extent in zip(read.region, extents(read.source), strict=True):
        value = getattr(analyzer.simplify(substituted(region.min, at)), "value", None)
        if not isinstance(value, int):
            return None
        found = found * extent + value
    return found
