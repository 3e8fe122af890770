"""Tilings of a product on a GPU: tens by the architecture, ranked by a closed form (Bolt section 3.2.2)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as every
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.target import Target

    from .problem import Problem

_BYTES = 2  # of float16 and bfloat16
_PROLOGUE = 1500
"""Cycles to launch a block, fill its first stages and store its output."""


@dataclass(frozen=True)
class Gpu:
    """Facts of an architecture that the rules know; rates are of NVIDIA's white papers, not measured."""

    capability: int
    """80 for sm_80."""
    processors: int
    """Streaming multiprocessors of the largest shipped device: A100, H100 SXM."""
    shared_bytes: int
    """Shared memory that a block may have."""
    multiply_adds: int
    """Of float16 in tensor cores, a cycle and multiprocessor."""
    load_bytes: float
    """From the second-level cache, a cycle and multiprocessor."""


GPUS: Mapping[int, Gpu] = {
    80: Gpu(80, 108, 163 * 1024, 1024, 47.0),
    90: Gpu(90, 132, 227 * 1024, 2048, 42.0),
}
"""GPUs by compute capability."""


def gpu_of(target: Target) -> Gpu | None:
    """Rules for a target, None where it has no templates.

    Kernels for sm_90 use what no later GPU runs; GPUs without rules of their own run those for sm_80.
    """
    if target.kind.name != "cuda":
        return None
    capability = int(re.sub(r"\D", "", str(target.attrs.get("arch", ""))) or 0)
    known = capability if capability in GPUS else min(GPUS)
    return GPUS[known] if capability >= known else None


@dataclass(frozen=True)
class Tiling:
    """Parameters of a template."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int
    """Blocks of the depth in shared memory at a time."""

    @property
    def sums_per_thread(self) -> float:
        """Float32 sums that a thread holds in registers."""
        return self.block_m * self.block_n / (32 * self.warps)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the stages."""
        return self.stages * (self.block_m + self.block_n) * self.block_k * _BYTES


def candidates(problem: Problem, gpu: Gpu) -> Iterator[Tiling]:
    """Tilings by Bolt's guidelines.

    Four or eight warps, whose sums fill at most half of the registers. Stages fit into shared memory. A block
    has less than twice the output's rows and columns, so that small problems have small blocks.
    """
    for block_m, block_n, block_k, warps, stages in every(
        (32, 64, 128, 256), (16, 32, 64, 128, 256), (32, 64), (4, 8), (2, 3, 4)
    ):
        tiling = Tiling(block_m, block_n, block_k, warps, stages)
        enough = 8 <= tiling.sums_per_thread <= 128
        small = block_m < 2 * max(problem.rows, 32) and block_n < 2 * max(problem.columns, 32)
        if enough and small and tiling.shared_bytes <= gpu.shared_bytes and problem.fits(tiling):
            yield tiling


def ranked(problem: Problem, gpu: Gpu) -> list[Tiling]:
    """Candidates, the fastest by the closed form first."""
    return sorted(candidates(problem, gpu), key=lambda tiling: (cycles(problem, tiling, gpu), -tiling.stages))


def cycles(problem: Problem, tiling: Tiling, gpu: Gpu) -> float:
    """Estimated cycles: waves of blocks, each with its multiply-adds or its loads, whichever take longer.

    Loads that fewer stages leave waiting add to the block's time: half of them with two stages.
    """
    blocks = math.ceil(problem.rows / tiling.block_m) * math.ceil(problem.columns / tiling.block_n)
    waves = math.ceil(blocks / gpu.processors)
    steps = math.ceil(problem.depth / tiling.block_k)
    multiplied = tiling.block_m * tiling.block_n * tiling.block_k / gpu.multiply_adds
    loaded = (tiling.block_m + tiling.block_n) * tiling.block_k * _BYTES / gpu.load_bytes
    step = max(multiplied, loaded) + min(multiplied, loaded) / tiling.stages
    return waves * (steps * step + _PROLOGUE)
