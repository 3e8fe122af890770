"""Features B, T and M of a program, and their ranges given a parent's program (ETO, section 3).

On a GPU the features are the same as in the paper: thread blocks, threads of all blocks, and shared memory of
all blocks. The paper does not cover CPUs. The CPU features are an extension of ours: counterparts of the GPU
features in MetaSchedule's SSRSRS tiling. `COUNTERPARTS` lists the candidates, and `CpuFeatures` contains the
default choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.limits import shared_bytes
from ....compiler.structure.nest import Nest
from ....compiler.structure.parallelism import accumulated_outputs, bound_extent, parallel_iterations
from ...reuse.conditions import Operator

Feature: TypeAlias = Callable[[Nest], NDArray[np.floating]]
"""Value of a feature for each candidate of a nest, [n]."""

TOLERANCE = 1e-6
"""Relative tolerance of range checks, which allows for rounding errors of features."""


@dataclass(frozen=True)
class Interval:
    """Closed interval of feature values."""

    low: float
    high: float

    @classmethod
    def around(cls, *ends: float) -> Interval:
        """Interval between two ends in either order."""
        return cls(min(ends), max(ends))

    def scaled(self, factor: float) -> Interval:
        """Interval with both ends times a positive factor."""
        return Interval(self.low * factor, self.high * factor)

    def contains(self, values: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Whether each value lies inside, within `TOLERANCE`; bool of the same shape."""
        inside: NDArray[np.bool_] = (values >= self.low * (1 - TOLERANCE)) & (
            values <= self.high * (1 + TOLERANCE)
        )
        return inside


@dataclass(frozen=True)
class FeatureRanges:
    """Ranges of r_B, r_T and r_M, the ratios of a child's fast programs to its parent's (equations 1-3)."""

    blocks: Interval
    """[r1, r2] of B, with r1 = |𝕀(rℒ_β)| / |𝕀(rℒ_α)| and r2 = |𝕀(ℒ_α)| / |𝕀(ℒ_β)|."""
    threads: Interval
    """[1, r2] of T."""
    shared: Interval
    """[1, r2] of M."""

    @classmethod
    def of(cls, parent: Operator, child: Operator) -> FeatureRanges:
        """Ranges for a child α and its parent β.

        Section 3 prints r1 without the r of rℒ; line 3 of Algorithm 1 and Example 3 contain it. If r2 < 1,
        the ends are swapped, as in Example 3.
        """
        r1 = parent.reduction_iterations / child.reduction_iterations
        r2 = child.iterations / parent.iterations
        return cls(Interval.around(r1, r2), Interval.around(1.0, r2), Interval.around(1.0, r2))


@dataclass(frozen=True)
class ProgramFeatures:
    """B, T and M of candidates, each float64 [n]."""

    blocks: NDArray[np.float64]
    """B: thread blocks."""
    threads: NDArray[np.float64]
    """T: threads of all blocks."""
    shared: NDArray[np.float64]
    """M: bytes of shared memory of all blocks. Section 3 uses the total amount and Example 3 counts elements;
    the ratios are equal."""

    def within(self, parent: ProgramFeatures, ranges: FeatureRanges) -> NDArray[np.bool_]:
        """Candidates with all three features in their ranges, given the one program of `parent`; bool [n]."""
        return (
            ranges.blocks.scaled(float(parent.blocks[0])).contains(self.blocks)
            & ranges.threads.scaled(float(parent.threads[0])).contains(self.threads)
            & ranges.shared.scaled(float(parent.shared[0])).contains(self.shared)
        )


def has_threads(nest: Nest) -> bool:
    """Whether loops of the nest are bound to GPU threads."""
    return any(atom.thread for atom in nest.sketch.atoms)


def program_features(nest: Nest, cpu: CpuFeatures | None = None) -> ProgramFeatures:
    """Features of candidates of a tiled sketch: the paper's on a GPU, `cpu` (None: the default) on a CPU.

    Threads that a sketch binds outside of a tiled nest are ignored; see `eto.search.simplified`.
    """
    if has_threads(nest):
        blocks = bound_extent(nest, "blockIdx.x")
        return _features(blocks, blocks * bound_extent(nest, "threadIdx.x"), blocks * shared_bytes(nest))
    cpu = cpu or CpuFeatures()
    return _features(
        COUNTERPARTS["blocks"][cpu.blocks](nest),
        COUNTERPARTS["threads"][cpu.threads](nest),
        COUNTERPARTS["shared"][cpu.shared](nest),
    )


def _features(*columns: NDArray[np.floating]) -> ProgramFeatures:
    return ProgramFeatures(*(column.astype(np.float64) for column in columns))


@dataclass(frozen=True)
class CpuFeatures:
    """Choice of the CPU counterparts, by their names in `COUNTERPARTS`.

    On the records of `data/cpu` the default beats chance by the largest margin, two pairs in a hundred. Other
    datasets do not even confirm this margin (docs/results/eto.md): the ranges predict little on a CPU.
    """

    blocks: str = "chunks"
    threads: str = "register_tiles"
    shared: str = "step_bytes"


def first_reduction_band(nest: Nest) -> tuple[int, int]:
    """Levels outside and inside of the outermost band of reduction loops; both 0 without a reduction."""
    sketch = nest.sketch
    reduces = [sketch.block.reduction[atom.axis] for atom in sketch.atoms]
    if True not in reduces:
        return 0, 0
    start = end = reduces.index(True)
    while end < len(reduces) and reduces[end] and sketch.atoms[end].band == sketch.atoms[start].band:
        end += 1
    return start, end


def read_bytes(nest: Nest, level: int) -> NDArray[np.floating]:
    """Bytes of all inputs that the tile inside a level reads; [n]."""
    block = nest.sketch.block
    written = {write.buffer for write in block.writes}
    footprints = [nest.footprint(read)[0][level] for read in block.reads if read.buffer not in written]
    total: NDArray[np.floating] = np.sum(footprints, axis=0) if footprints else np.ones(len(nest))
    return total


def _outer_tiles(nest: Nest) -> NDArray[np.floating]:
    """Iterations of the outermost band of space loops."""
    band = nest.sketch.atoms[0].band
    reduction = nest.sketch.block.reduction
    return nest.product([a.band == band and not reduction[a.axis] for a in nest.sketch.atoms])


def _space(nest: Nest) -> float:
    block = nest.sketch.block
    return float(np.prod([e for e, r in zip(block.extents, block.reduction, strict=True) if not r]))


def _register_tiles(nest: Nest) -> NDArray[np.floating]:
    return _space(nest) / np.maximum(accumulated_outputs(nest), 1)


def _vectors(nest: Nest) -> NDArray[np.floating]:
    return _space(nest) / nest.lanes()


def _step_bytes(nest: Nest) -> NDArray[np.floating]:
    """Bytes read in one step of the outer reduction, for all tiles around it."""
    outside, inside = first_reduction_band(nest)
    return nest.outer[outside] * read_bytes(nest, inside)


def _tile_bytes(nest: Nest) -> NDArray[np.floating]:
    """Bytes read over the whole reduction, for all tiles around it."""
    outside, _ = first_reduction_band(nest)
    return nest.outer[outside] * read_bytes(nest, outside)


COUNTERPARTS: Mapping[str, Mapping[str, Feature]] = {
    "blocks": {"chunks": parallel_iterations, "outer_tiles": _outer_tiles},
    "threads": {"register_tiles": _register_tiles, "vectors": _vectors},
    "shared": {"step_bytes": _step_bytes, "tile_bytes": _tile_bytes},
}
"""Candidate counterparts of B, T and M on a CPU, by name. `benchmarks.reuse_ranges` compares them.

    blocks: chunks that MetaSchedule runs in parallel; iterations of the outermost band S0.
    threads: tiles of outputs that the innermost reduction keeps in registers; vectors of outputs.
    shared: bytes that must stay in a cache, for all tiles outside the reduction: the bytes of one step of its
        outer band, or of the whole reduction.
"""
