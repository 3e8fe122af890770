"""Reading of a task as a convolution by Winograd's algorithm, and the templates worth trying for it.

Such a task is what `networks.winograd_function` builds; its blocks are known by their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest

import tvm
import tvm_ffi
from tvm.s_tir.stmt import SBlock

from ...hardware import Hardware
from ...instruction_sets import Instruction
from ...operators.shared.tir import extents
from .prediction import busy_cycles
from .template import divisors

DATA_PAD, COLUMNS, DATA_TRANSFORM = "data_pad", "data_columns", "data_transform"
PRODUCT, OUTPUT_ROWS, OUTPUT_TRANSFORM = "winograd_product", "output_rows", "output_transform"
OUTPUT = "conv2d_winograd"
"""Names of the blocks of the algorithm, in order; steps of an epilogue follow."""

_STAGES = (COLUMNS, DATA_TRANSFORM, PRODUCT, OUTPUT_ROWS, OUTPUT_TRANSFORM, OUTPUT)

MOST_ROWS, MOST_VECTORS = 14, 4
"""Tiles and vectors of channels of a register tile."""

_MOVE_BYTES = 16
"""Bytes a cycle from beyond the second cache."""


@dataclass(frozen=True)
class Winograd:
    """A convolution by Winograd's algorithm with `tile` x `tile` outputs a tile."""

    tile: int
    tiles: tuple[int, int, int]
    """Images, rows and columns of tiles."""
    in_channels: int
    out_channels: int
    padded: bool
    """Whether a block pads the data."""
    steps: tuple[str, ...]
    """Blocks of the epilogue in order, element-wise; the last one writes the output."""
    types: tuple[str, str, str] = ("float32", "float32", "float32")
    """Data types of transformed data and weight, and of the sums."""

    @cached_property
    def products(self) -> int:
        """Products of matrices: elements of a tile of data."""
        return (self.tile + 2) ** 2

    @property
    def last(self) -> str:
        """Block that writes the output."""
        return self.steps[-1] if self.steps else OUTPUT


@dataclass(frozen=True)
class WinogradTemplate:
    """Parameters of one schedule."""

    instruction: Instruction
    block: tuple[int, int] | None
    """Rows and columns of tiles that are computed together, from the data to the outputs, so that what is
    between stays in cache; None computes one stage of all tiles after the other."""
    row_tile: tuple[int, int]
    """Rows and columns of tiles in registers."""
    vectors: int
    """Vectors of output channels in registers for each tile."""
    unroll: int
    """Steps over the input channels in a row without a branch."""


def read_winograd(mod: tvm.IRModule) -> Winograd | None:
    """The convolution that `main` computes by Winograd's algorithm; None for another task."""
    blocks: list[SBlock] = []
    tvm_ffi.structural_walk(mod["main"].body, (SBlock, blocks.append))
    found = {block.name_hint: block for block in blocks if block.iter_vars}
    if not found.keys() >= set(_STAGES) or len(found) != sum(bool(block.iter_vars) for block in blocks):
        return None
    data, output = (extents(found[name].writes[0].source) for name in (DATA_TRANSFORM, OUTPUT_TRANSFORM))
    names, product = list(found), found[PRODUCT]
    operands = [region.source.dtype for region in product.reads]
    steps = tuple(names[names.index(OUTPUT) + 1 :])
    if any(
        extents(found[name].writes[0].source) != extents(found[OUTPUT].writes[0].source) for name in steps
    ):
        return None
    images, rows, columns, tile, _, out_channels = output
    return Winograd(
        tile=tile,
        tiles=(images, rows, columns),
        in_channels=data[-1],
        out_channels=out_channels,
        padded=DATA_PAD in found,
        steps=steps,
        types=(str(operands[0]), str(operands[1]), str(product.writes[0].source.dtype)),
    )


def winograd_templates(
    task: Winograd, instructions: Sequence[Instruction], hardware: Hardware | None, cores: int
) -> list[WinogradTemplate]:
    """Templates, the most promising first: in turn of those in blocks and of those stage by stage.

    The closed form is no judge between the two, whose data the caches hold differently.
    """
    cache = hardware.l2_bytes if hardware is not None else 1 << 20
    vectors = [instruction for instruction in instructions if not instruction.tiles]
    every = [template for instruction in vectors[:1] for template in _candidates(task, instruction)]
    every.sort(key=lambda template: cycles(task, template, cache, cores))
    kinds = [[t for t in every if (t.block is None) == staged] for staged in (False, True)]
    kinds.sort(key=lambda kind: cycles(task, kind[0], cache, cores) if kind else math.inf)
    return [template for template in chain(*zip_longest(*kinds)) if template is not None]


def cycles(task: Winograd, template: WinogradTemplate, cache_bytes: int, cores: int) -> float:
    """Estimated cycles of a template: multiply-adds, and memory traffic beyond the second cache."""
    images, rows, columns = task.tiles
    height, width = template.block or (rows, columns)
    across, along = template.row_tile
    sums = across * along * template.vectors
    panels = task.out_channels / template.instruction.lanes / template.vectors
    register_tiles = task.products * panels * math.ceil(height / across) * math.ceil(width / along)
    step = template.instruction.step
    busy = busy_cycles(template.instruction, task.in_channels / step, across * along, template.vectors)
    computed = register_tiles * (busy + sums)
    weight = 4 / step * task.products * task.in_channels * task.out_channels
    between = 4 * task.products * height * width * (task.in_channels / step + task.out_channels)
    moved = 2 * between if between > cache_bytes else 0
    if template.block is None:
        return (images * (computed + moved / _MOVE_BYTES) + weight / _MOVE_BYTES) / cores
    blocks = images * (rows // height) * (columns // width)
    # A weight that fits the cache is read once, a larger one for each block.
    turns = math.ceil(blocks / cores)
    read = weight * (turns if weight > cache_bytes / 2 else 1)
    return turns * (computed + moved / _MOVE_BYTES) + read / _MOVE_BYTES


def _candidates(task: Winograd, instruction: Instruction) -> Iterator[WinogradTemplate]:
    """Templates that fit the registers; none where channels are no whole vectors."""
    lanes = instruction.lanes
    if task.in_channels % lanes or task.out_channels % lanes or task.types != instruction.types:
        return
    _, rows, columns = task.tiles
    parts = [part for part in divisors(columns) if part == columns or part >= MOST_ROWS // 2]
    blocks = [None, *((row, part) for row in divisors(rows) for part in parts)]
    unroll = 4 if task.in_channels // instruction.step % 4 == 0 else 1
    for vectors in range(1, MOST_VECTORS + 1):
        if task.out_channels // lanes % vectors:
            continue
        most = min(instruction.most_rows(vectors), MOST_ROWS)
        for block in blocks:
            height, width = block or (rows, columns)
            along = max(part for part in divisors(width) if part <= most)
            across = max(part for part in divisors(height) if part * along <= most) if along == width else 1
            yield WinogradTemplate(instruction, block, (across, along), vectors, unroll)
