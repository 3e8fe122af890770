"""Tilings of a product on a GPU: tens by the architecture, ranked by a closed form (Bolt section 3.2.2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product as every
from typing import ClassVar, Protocol

from ...instruction_sets import Gpu

_BYTES = 2  # of float16 and bfloat16
PROLOGUE = 1500
"""Cycles to launch a block, fill its first stages and store its output."""
LAUNCH = 2500
"""Cycles from the end of a kernel to the start of the next one in a CUDA graph: over a microsecond."""
_RESIDENT = 4
"""Blocks that hold a row each on one processor at a time."""
_PARTS = (1, 2, 3, 4, 6, 8, 12)
"""Blocks that one sum is divided among."""


@dataclass(frozen=True)
class Tiling:
    """Parameters of a template."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int
    """Blocks of the depth in shared memory at a time."""
    parts: int = 1
    """Blocks that each sum is divided among; a second kernel adds these parts."""

    @property
    def sums_per_thread(self) -> float:
        """Float32 sums that a thread holds in registers."""
        return self.block_m * self.block_n / (32 * self.warps)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the stages."""
        return self.stages * (self.block_m + self.block_n) * self.block_k * _BYTES


class TiledProduct(Protocol):
    """A product as far as its tilings depend on it; `problem.Problem` says what the members are."""

    divisible: ClassVar[bool]

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def depth(self) -> int: ...

    def fits(self, tiling: Tiling) -> bool: ...

    def workspace(self, tiling: Tiling) -> tuple[int, ...] | None: ...

    def tilings(self, gpu: Gpu) -> Iterator[Tiling]: ...

    def cycles(self, tiling: Tiling, gpu: Gpu) -> float: ...


def candidates(problem: TiledProduct, gpu: Gpu) -> Iterator[Tiling]:
    """Tilings of a problem that are worth a look."""
    return problem.tilings(gpu)


def ranked(problem: TiledProduct, gpu: Gpu) -> list[Tiling]:
    """Candidates, the fastest by the closed form first; of equals, more stages and longer steps first."""

    def order(tiling: Tiling) -> tuple[float, int, int]:
        return cycles(problem, tiling, gpu), -tiling.stages, -tiling.block_k

    return sorted(candidates(problem, gpu), key=order)


def cycles(problem: TiledProduct, tiling: Tiling, gpu: Gpu) -> float:
    """Estimated cycles of a problem's kernels."""
    return problem.cycles(tiling, gpu)


def product_tilings(problem: TiledProduct, gpu: Gpu) -> Iterator[Tiling]:
    """Tilings of a product by Bolt's guidelines.

    Four or eight warps, whose sums fill at most half of the registers. Stages fit into shared memory. A block
    has less than twice the output's rows and columns, so that small problems have small blocks. Sums are
    divided where their blocks would leave processors idle, and no further than these are busy.
    """
    for block_m, block_n, block_k, warps, stages in every(
        (32, 64, 128, 256), (16, 32, 64, 128, 256), (32, 64), (4, 8), (2, 3, 4)
    ):
        tiling = Tiling(block_m, block_n, block_k, warps, stages)
        enough = 8 <= tiling.sums_per_thread <= 128
        small = block_m < 2 * max(problem.rows, 32) and block_n < 2 * max(problem.columns, 32)
        if not (enough and small and tiling.shared_bytes <= gpu.shared_bytes and problem.fits(tiling)):
            continue
        for parts in _PARTS if problem.divisible else (1,):
            busy = _blocks(problem, tiling) * parts <= gpu.processors
            if parts == 1 or (busy and parts * 2 * block_k <= problem.depth):
                yield replace(tiling, parts=parts)


def product_cycles(problem: TiledProduct, tiling: Tiling, gpu: Gpu) -> float:
    """Cycles of a product: waves of blocks, each with its multiply-adds or its loads, whichever take longer.

    Loads that fewer stages leave waiting add to the block's time: half of them with two stages. A kernel that
    adds parts reads all of them.
    """
    waves = math.ceil(_blocks(problem, tiling) * tiling.parts / gpu.processors)
    steps = math.ceil(math.ceil(problem.depth / tiling.block_k) / tiling.parts)
    multiplied = tiling.block_m * tiling.block_n * tiling.block_k / gpu.multiply_adds
    loaded = (tiling.block_m + tiling.block_n) * tiling.block_k * _BYTES / gpu.load_bytes
    step = max(multiplied, loaded) + min(multiplied, loaded) / tiling.stages
    first = waves * (steps * step + PROLOGUE)
    if problem.workspace(tiling) is None:
        return first
    written = 4 * tiling.parts * problem.rows * problem.columns / (gpu.processors * gpu.load_bytes)
    return first + LAUNCH + written + row_cycles(problem.rows, problem.columns, 4 * tiling.parts, gpu)


def row_cycles(rows: int, columns: int, value_bytes: int, gpu: Gpu) -> float:
    """Cycles of a kernel with a block for each row, of so many bytes a value that are read."""
    waves = math.ceil(rows / (gpu.processors * _RESIDENT))
    read = math.ceil(rows / gpu.processors) * columns * value_bytes / gpu.load_bytes
    return waves * PROLOGUE + read


def _blocks(problem: TiledProduct, tiling: Tiling) -> int:
    return math.ceil(problem.rows / tiling.block_m) * math.ceil(problem.columns / tiling.block_n)
