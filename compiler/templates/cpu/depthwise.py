"""Reading of a task as a depthwise convolution with channels last, and the templates worth trying for it.

Bolt's templates are products of matrices. A depthwise convolution has none: each output reads one channel.
Here a register tile holds neighbouring outputs, whose windows overlap. Unrolled, they load each element of
the data, and convert it to the type of the sums, once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir.stmt import SBlock
from tvm.target import Target
from tvm.tirx import IterVar

from ...instruction_sets import Instruction
from ...operators.shared.tir import extents, linear
from ...targets import target_instructions
from .contraction import blocks_of, only_pads, product_of, reduces, roles_of, variables_of, writes_output
from .prediction import PER_CYCLE
from .template import divisors, panels

MOST_LINES, MOST_PIXELS, MOST_VECTORS = 4, 16, 4
"""Rows, columns and vectors of channels of a register tile."""

_SUMS = ("float32", "int32")
"""Types of sums, which have as many lanes as the multiply-add of float32."""

_MOST_UNROLLED = 512
"""Multiply-adds of vectors without a branch, beyond which compiling takes long."""

_TILE_START, _BLOCK_START = 3, 40
"""Cycles to begin and end a register tile, and a block of rows for one vector of channels."""


@dataclass(frozen=True)
class Windows:
    """Sizes of a depthwise convolution with channels last: one output for each channel of the data."""

    images: int
    rows: int
    """Rows of an image of outputs."""
    columns: int
    channels: int
    taps: int
    """Products of one output."""
    reach: tuple[int, int]
    """Rows and columns of the data from the first to the last that one output reads."""
    stride: tuple[int, int]


@dataclass(frozen=True)
class Pooling:
    """Average of each channel of the output, a partial reduction after a convolution (Bolt, section 3.1)."""

    block: str
    """Name of the block that sums over rows and columns."""
    steps: tuple[str, ...]
    """Element-wise blocks after it, such as a division."""


@dataclass(frozen=True)
class Depthwise(Windows):
    """A task that is one depthwise convolution with element-wise steps around it."""

    block: str
    """Name of the block that reduces."""
    types: tuple[str, str, str]
    """Data types of data, weight and sums."""
    inlined: tuple[str, ...]
    """Blocks whose values are computed at their readers, in order; the padding is one of them."""
    prepared: tuple[str, ...]
    """Blocks whose values are stored before the convolution reads them."""
    epilogue: str | None
    """Last block of the image, which writes the output; None if the convolution writes it."""
    pooling: Pooling | None = None
    """Sum of the channels of the image; None without such a sum."""


@dataclass(frozen=True)
class DepthwiseTemplate:
    """Parameters of one schedule."""

    instruction: Instruction
    """Multiply-add of float32, whose lanes and registers those of any sums are."""
    block: int
    """Rows of outputs that a thread computes together."""
    tile: tuple[int, int]
    """Rows and columns of outputs in registers."""
    vectors: int
    """Vectors of channels in registers for each output."""
    ragged: int = 0
    """Channels in registers where these do not fill all `vectors`, else 0."""

    @property
    def lanes(self) -> int:
        """Channels of a vector of the schedule, as `Template.lanes`."""
        return self.ragged or self.instruction.lanes

    @property
    def channels(self) -> int:
        """Channels of the register tile."""
        return self.ragged or self.vectors * self.instruction.lanes


def read_depthwise(mod: tvm.IRModule) -> Depthwise | None:
    """The depthwise convolution that `main` computes; None for another task, or another layout."""
    anchor = product_of(mod)
    if anchor is None:
        return None
    windows = read_windows(anchor)
    if windows is None:
        return None
    blocks, pooling = _without_pooling(mod, windows)
    roles = roles_of(blocks, anchor)
    if roles is None:
        return None
    # Padding costs less in the reader than as a copy of the data: outputs of a tile share their reads.
    padding = tuple(
        block.name_hint for block in blocks if block.name_hint in roles["prepared"] and only_pads(block)
    )
    roles["inlined"] = (*roles["inlined"], *padding)
    roles["prepared"] = tuple(name for name in roles["prepared"] if name not in padding)
    data, weight = (str(region.source.dtype) for region in anchor.reads)
    types = data, weight, str(anchor.writes[0].source.dtype)
    return Depthwise(**asdict(windows), block=anchor.name_hint, types=types, pooling=pooling, **roles)


def _without_pooling(mod: tvm.IRModule, windows: Windows) -> tuple[Sequence[SBlock], Pooling | None]:
    """Blocks of the image, and the pooling after them if there is one; the image is an output then."""
    blocks = blocks_of(mod)
    reducing = [number for number, block in enumerate(blocks) if reduces(block)]
    if len(reducing) != 2:
        return blocks, None
    image, (pooling, *steps) = blocks[: reducing[1]], blocks[reducing[1] :]
    if not writes_output(image[-1], mod["main"]) or not _pools(pooling, image[-1].writes[0].source, windows):
        return blocks, None
    return image, Pooling(pooling.name_hint, tuple(step.name_hint for step in steps))


def _pools(block: SBlock, image: tirx.Buffer, windows: Windows) -> bool:
    """Whether a block sums each channel over all rows and columns of an image."""
    loops = [one for one in block.iter_vars if one.iter_type == IterVar.CommReduce]
    if len(block.reads) != 1 or not block.reads[0].source.same_as(image):
        return False
    read = [at.min for at in block.reads[0].region]
    channels = [one for one in block.iter_vars if int(one.dom.extent) > 1 and _only_at(read, one, 3)]
    return (
        [int(one.dom.extent) for one in loops] == [windows.rows, windows.columns]
        and list(block.iter_vars[-2:]) == loops
        and len(read) == 4
        and all(int(one.dom.extent) == 1 or _only_at(read, one, 1 + axis) for axis, one in enumerate(loops))
        and len(channels) == 1
        and isinstance(getattr(block.body, "value", None), tirx.Add)
    )


def read_windows(anchor: SBlock) -> Windows | None:
    """Sizes of the convolution of a block that reads data and a weight; None for another convolution."""
    spatial = [one for one in anchor.iter_vars if one.iter_type != IterVar.CommReduce]
    reduced = [one for one in anchor.iter_vars if one.iter_type == IterVar.CommReduce]
    data, weight = ([at.min for at in region.region] for region in anchor.reads)
    written = [at.min for at in anchor.writes[0].region]
    sizes = [int(one.dom.extent) for one in spatial]
    if len(sizes) != 4 or not len(data) == len(written) == 4 or list(anchor.iter_vars[:4]) != spatial:
        return None
    shape = extents(anchor.reads[0].source)
    if (shape[0], shape[3]) != (sizes[0], sizes[3]):
        return None  # such as several outputs of each channel
    taps = [step for step in reduced if int(step.dom.extent) > 1]
    for axis, one in enumerate(spatial):
        if sizes[axis] > 1 and not (_only_at(data, one, axis) and _only_at(written, one, axis)):
            return None
    if any(_uses(weight, one) for one in spatial[:3]) or not _only_at(weight, spatial[3], len(weight) - 1):
        return None
    if any(_uses([data[0], data[3]], step) or not _uses(weight, step) for step in taps):
        return None

    def reach(axis: int) -> int:
        steps = [step for step in taps if _uses([data[axis]], step)]
        return 1 + sum((int(step.dom.extent) - 1) * linear(data[axis], step)[0] for step in steps)

    images, rows, columns, channels = sizes
    return Windows(
        images=images,
        rows=rows,
        columns=columns,
        channels=channels,
        taps=math.prod(int(step.dom.extent) for step in taps),
        reach=(reach(1), reach(2)),
        stride=(linear(data[1], spatial[1])[0], linear(data[2], spatial[2])[0]),
    )


def depthwise_templates(task: Depthwise, target: Target, cores: int) -> list[DepthwiseTemplate]:
    """Templates that fit the registers, the most promising first."""
    if task.types[2] not in _SUMS:
        return []
    fused = target_instructions(target, "float32", "float32", "float32")[:1]
    every = [template for instruction in fused for template in _candidates(task, instruction)]
    return sorted(every, key=lambda template: cycles(task, template, cores))


def cycles(task: Depthwise, template: DepthwiseTemplate, cores: int) -> float:
    """Estimated cycles of a template: multiply-adds or loads of its register tiles, whichever take longer.

    The weights of a vector of channels stay in registers over a block of rows. If they and the sums take
    more than half of the registers, values move to the stack and back.
    """
    across = task.channels // template.channels
    lines, pixels = template.tile
    sums = lines * pixels * template.vectors
    loads = template.vectors * math.prod(
        (size - 1) * stride + reach
        for size, stride, reach in zip(template.tile, task.stride, task.reach, strict=True)
    )
    # A conversion takes as long as a load.
    loads *= 1 if task.types[0] == task.types[2] else 2
    crowded = max(1.0, (sums + task.taps * template.vectors) / (template.instruction.registers / 2))
    tile = max(task.taps * sums, loads) / PER_CYCLE * crowded + _TILE_START
    tiles = template.block / lines * task.columns / pixels
    blocks = math.ceil(task.images * task.rows / template.block / cores)
    return blocks * across * (tiles * tile + _BLOCK_START)


def _candidates(task: Depthwise, instruction: Instruction) -> Iterator[DepthwiseTemplate]:
    """Templates that fit the registers, whose tiles divide the image."""
    for vectors, ragged in panels(task.channels, instruction.lanes, MOST_VECTORS):
        for lines in divisors(task.rows, MOST_LINES):
            for pixels in divisors(task.columns, MOST_PIXELS):
                sums = lines * pixels * vectors
                if sums + vectors + 1 > instruction.registers or sums * task.taps > _MOST_UNROLLED:
                    continue
                for block in divisors(task.rows):
                    if block % lines == 0:
                        yield DepthwiseTemplate(instruction, block, (lines, pixels), vectors, ragged)


def _only_at(indices: Sequence[Any], loop: IterVar, axis: int) -> bool:
    """Whether the index of this axis, and no other, has the variable of a loop."""
    return [number for number, index in enumerate(indices) if _uses([index], loop)] == [axis]


def _uses(indices: Sequence[Any], loop: IterVar) -> bool:
    return loop.var in variables_of(indices)
