"""Costs of BShape and TShape against the sectors and wavefronts that a program's first block requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from foretune.compiler.operators import BatchMatmul, Conv1d, Conv2d, Conv3d, Dense, OperatorSettings
from foretune.compiler.replay import candidate_trace_json
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.read_traces import SketchReader
from foretune.compiler.structure.sketch import Sketch
from foretune.compiler.structure.structure import Access, Floats
from foretune.inference.eto.search.costs import block_line_requests, inputs, shared_requests
from foretune.inference.eto.search.shapes import GPU_LINE_BYTES
from scipy.stats import spearmanr

from tests.support.cuda_emulation import EmulatedGpu, NotBuiltError
from tests.support.cuda_programs import TARGET, Prepared, random_candidates

TASKS: Mapping[str, OperatorSettings] = {
    "dense 64x64x64": Dense(rows=64, in_features=64, out_features=64),
    "dense 96x32x128": Dense(rows=96, in_features=32, out_features=128),
    "batch_matmul 4x32x64x32": BatchMatmul(batch=4, rows=32, inner=64, columns=32),
    "conv1d 32 channels": Conv1d(batch=1, in_channels=32, length=32, out_channels=32, kernel=3, padding=1),
    "conv2d 3x3": Conv2d(
        batch=1, in_channels=16, height=8, width=8, out_channels=32, kernel=(3, 3), padding=(1, 1)
    ),
    "conv2d 1x1, channels last": Conv2d(
        batch=1, in_channels=64, height=8, width=8, out_channels=64, kernel=(1, 1), layout="NHWC"
    ),
    "conv3d 3x3x3": Conv3d(
        batch=1,
        in_channels=8,
        depth=4,
        height=8,
        width=8,
        out_channels=16,
        kernel=(3, 3, 3),
        padding=(1, 1, 1),
    ),
}


@dataclass(frozen=True)
class TileCosts:
    """Costs of one block of a program."""

    lines: float
    """BShape cost: line requests, as if the whole input was requested at once."""
    lines_by_fetch: float
    """Line requests of separate fetches: a run of a fetch that is shorter than a line needs one, too."""
    lines_unaligned: float
    """The same, with runs that begin at any offset if windows or odd rows cause this."""
    shared: float
    """TShape cost: shared-memory requests of all fetches."""
    blocks: int
    """Blocks of threads of the program."""
    threads: int
    """Threads of a block."""


def tile_costs(sketch: Sketch, row: list[int]) -> TileCosts:
    """Costs of one block of a program.

    Raises ValueError for a sketch that does not tile all loops of its block by SSSRRSRS.
    """
    block = sketch.block
    first: dict[int, int] = {}
    for atom in sketch.atoms:
        if atom.column >= 0:
            first[atom.axis] = min(first.get(atom.axis, atom.column), atom.column)
    if sketch.structure != "SSSRRSRS" or len(first) < len(block.extents):
        raise ValueError(f"{sketch.structure}: not tiled as ETO's costs expect")
    space = [axis for axis, reduces in enumerate(block.reduction) if not reduces]
    factors = {axis: row[column : column + 5] for axis, column in first.items()}
    whole = [
        extent if reduces else math.prod(factors[axis][1:])
        for axis, (extent, reduces) in enumerate(zip(block.extents, block.reduction, strict=True))
    ]
    steps = [factors[axis][0] if reduces else 1 for axis, reduces in enumerate(block.reduction)]
    fetches, fetched = math.prod(steps), [extent // step for extent, step in zip(whole, steps, strict=True)]
    virtual, threads, inner = (
        np.array([[math.prod(factors[axis][part]) for axis in space]], dtype=np.int64)
        for part in (slice(1, 2), slice(2, 3), slice(3, 5))
    )
    shared = shared_requests(block, fetched, space, virtual, threads, inner)
    return TileCosts(
        lines=float(block_line_requests(block, _arrays(whole), GPU_LINE_BYTES)[0]),
        lines_by_fetch=fetches * float(block_line_requests(block, _arrays(fetched), GPU_LINE_BYTES)[0]),
        lines_unaligned=fetches * sum(_unaligned_lines(read, fetched) for read in inputs(block)),
        shared=fetches * float(shared[0]),
        blocks=math.prod(factors[axis][0] for axis in space),
        threads=int(threads.prod()),
    )


def _arrays(tile: list[int]) -> list[Floats]:
    return [np.array([extent], np.float32) for extent in tile]


def _unaligned_lines(access: Access, tile: list[int]) -> float:
    """Lines of a tile's part of a buffer; for runs that begin at any offset, the mean over all offsets."""
    touched, run = (float(values[0]) for values in access.footprint(_arrays(tile)))
    window = sum(len(term.axes) for term in access.indices[-1] or ()) > 1
    if window or (run % GPU_LINE_BYTES and GPU_LINE_BYTES % run):
        return touched / run * (1 + (run - access.element_bytes) / GPU_LINE_BYTES)
    return touched / run * math.ceil(run / GPU_LINE_BYTES)


def of_task(gpu: EmulatedGpu, op: OperatorSettings, programs: int) -> list[dict[str, float]]:
    """Costs and counts of random programs of a task, one object for each program."""
    prepared = Prepared.of(op)
    reader = SketchReader(read_structure(prepared.task.mod))
    found = []
    for candidate in random_candidates(prepared.task, programs, seed=3):
        costs = tile_costs(*reader.read(candidate_trace_json(candidate)))
        try:
            (kernel,) = gpu.run(candidate.sch.mod, TARGET, prepared.inputs, trace=True).kernels
        except NotBuiltError:
            continue
        found.append(
            {
                **asdict(costs),
                "sectors": kernel.global_loads.sectors,
                "wavefronts": kernel.shared_loads.wavefronts,
                "wavefronts_once": kernel.shared_loads_once.wavefronts,
            }
        )
    return found


def correlations(programs: list[dict[str, float]]) -> Mapping[str, Any]:
    """Spearman correlation of each cost with the quantity that it should count."""

    def spearman(cost: str, count: str) -> float:
        return float(spearmanr([p[cost] for p in programs], [p[count] for p in programs]).statistic)

    return {
        "programs": len(programs),
        "sectors": spearman("lines", "sectors"),
        "sectors_by_fetch": spearman("lines_by_fetch", "sectors"),
        "sectors_unaligned": spearman("lines_unaligned", "sectors"),
        "wavefronts_once": spearman("shared", "wavefronts_once"),
        "wavefronts": spearman("shared", "wavefronts"),
    }
