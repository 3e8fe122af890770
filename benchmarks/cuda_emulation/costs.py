"""Costs of BShape and TShape beside the sectors and wavefronts that the first block of a program asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from foretune.dataset.drafting.read_structure import read_structure
from foretune.dataset.drafting.read_traces import SketchReader
from foretune.dataset.drafting.sketch import Sketch
from foretune.dataset.operators import BatchMatmul, Conv1d, Conv2d, Conv3d, Dense, OperatorSettings
from foretune.dataset.replay import candidate_trace_json
from foretune.inference.strategies.reuse.costs import block_line_requests, shared_requests
from foretune.inference.strategies.reuse.shapes import GPU_LINE_BYTES
from scipy.stats import spearmanr

from tests.support.cuda_emulation import EmulatedGpu
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


def tile_costs(sketch: Sketch, row: list[int]) -> tuple[float, float]:
    """Costs of one block: line requests (BShape), and shared requests of all its fetches (TShape).

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
    reduction = [axis for axis, reduces in enumerate(block.reduction) if reduces]
    factors = {axis: row[column : column + 5] for axis, column in first.items()}
    tile = [float(extent) for extent in block.extents]
    for axis in space:
        tile[axis] = math.prod(factors[axis][1:])
    lines = block_line_requests(block, [np.array([extent], np.float32) for extent in tile], GPU_LINE_BYTES)
    fetches = math.prod(factors[axis][0] for axis in reduction)
    fetched = [int(tile[axis]) // (factors[axis][0] if axis in reduction else 1) for axis in range(len(tile))]
    virtual, threads, inner = (
        np.array([[math.prod(factors[axis][part]) for axis in space]], dtype=np.int64)
        for part in (slice(1, 2), slice(2, 3), slice(3, 5))
    )
    shared = shared_requests(block, fetched, space, virtual, threads, inner)
    return float(lines[0]), float(shared[0]) * fetches


def of_task(gpu: EmulatedGpu, op: OperatorSettings, programs: int) -> list[dict[str, float]]:
    """Costs and counts of random programs of a task, one object each."""
    prepared = Prepared.of(op)
    reader = SketchReader(read_structure(prepared.task.mod))
    found = []
    for candidate in random_candidates(prepared.task, programs, seed=3):
        lines, shared = tile_costs(*reader.read(candidate_trace_json(candidate)))
        run = gpu.run(candidate.sch.mod, TARGET, prepared.inputs, trace=True)
        (kernel,) = run.kernels
        found.append(
            {
                "line_cost": lines,
                "sectors": kernel.global_loads.sectors,
                "shared_cost": shared,
                "wavefronts": kernel.shared_loads.wavefronts,
                "wavefronts_once": kernel.shared_loads_once.wavefronts,
            }
        )
    return found


def correlations(programs: list[dict[str, float]]) -> Mapping[str, Any]:
    """Spearman correlation of each cost with what it should count."""

    def spearman(cost: str, count: str) -> float:
        return float(spearmanr([p[cost] for p in programs], [p[count] for p in programs]).statistic)

    return {
        "programs": len(programs),
        "sectors": spearman("line_cost", "sectors"),
        "wavefronts_once": spearman("shared_cost", "wavefronts_once"),
        "wavefronts": spearman("shared_cost", "wavefronts"),
    }
