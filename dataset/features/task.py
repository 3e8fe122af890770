"""Task vector: the features that identify a search space (One-Shot Tuner section 4.1.3, Figure 7).

They are computed from the TIR alone and thus exist for tasks of any origin: argument shapes, the loops of the
anchor block (the block with the most iterations), operations and memory traffic.
"""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm.s_tir.stmt import SBlock
from tvm.tirx import IterVar

from ...compiler.task import count_flops
from ...compiler.tvm_compat import argument_buffers, entry_function
from .vectors import MAX_ARGUMENTS, MAX_RANK, MAX_REDUCTION, MAX_SPATIAL


def task_features(mod: tvm.IRModule) -> NDArray[np.float32]:
    """Task vector, float32 [TASK_DIM]; extents, operations and bytes as log2(1 + x), absent entries 0.

    The output is the last argument and has fixed columns, regardless of the number of inputs.
    """
    arguments = argument_buffers(mod)
    *inputs, output = arguments
    shapes = np.zeros((MAX_ARGUMENTS, MAX_RANK), dtype=np.float64)
    for row, (shape, _) in enumerate(inputs[: MAX_ARGUMENTS - 1]):
        shapes[row, : len(shape[:MAX_RANK])] = shape[:MAX_RANK]
    shapes[-1, : len(output[0][:MAX_RANK])] = output[0][:MAX_RANK]

    blocks = _block_loops(mod)
    anchor = max(
        blocks, key=lambda loops: np.prod([extent for _, extent in loops], dtype=np.float64), default=[]
    )
    spatial = _fixed([extent for is_reduction, extent in anchor if not is_reduction], MAX_SPATIAL)
    reduction = _fixed([extent for is_reduction, extent in anchor if is_reduction], MAX_REDUCTION)

    flops = count_flops(mod)
    traffic = sum(np.prod(shape, dtype=np.float64) * np.dtype(dtype).itemsize for shape, dtype in arguments)
    scalars = [
        flops,
        traffic,
        flops / max(traffic, 1.0),
        len(inputs),
        len(blocks),
        sum(is_reduction for is_reduction, _ in anchor),
    ]
    return np.log2(1.0 + np.concatenate([shapes.ravel(), spatial, reduction, scalars])).astype(np.float32)


def _block_loops(mod: tvm.IRModule) -> list[list[tuple[bool, int]]]:
    """For each block: whether each iterator reduces, and its extent (1 if symbolic)."""
    blocks = []

    def visit(block: SBlock) -> None:
        loops = []
        for iterator in block.iter_vars:
            extent = getattr(iterator.dom.extent, "value", 1)
            loops.append((iterator.iter_type == IterVar.CommReduce, int(extent)))
        if loops:
            blocks.append(loops)

    tvm_ffi.structural_walk(entry_function(mod).body, (SBlock, visit))
    return blocks


def _fixed(extents: list[int], length: int) -> NDArray[np.float64]:
    padded = np.zeros(length)
    padded[: len(extents[:length])] = extents[:length]
    return padded
