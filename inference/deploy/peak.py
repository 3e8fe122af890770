"""Arithmetic peak of this machine's cores, measured with a kernel of register-only multiply-adds."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import te
from tvm.s_tir.schedule import SBlockRV, Schedule
from tvm.target import Target

from ...compiler.targets import traits
from ...compiler.tvm_compat import as_task_module, target_cores
from ...dataset.hardware.peaks import best_time_s
from ...dataset.measure.worker.isolation import pinned_to_first_core

_TILES = {512: (14, 32), 256: (6, 16)}
"""Accumulator rows and columns by vector width in bits: as many as fit into the registers."""

_OTHER_TILE = 8, 8
_DEPTH, _PASSES = 128, 2000
"""Steps over operands that fit into the first cache, and passes over these operands."""


def fma_peak_gflops(target: Target) -> float:
    """Peak float32 GFLOP/s of all cores of a CPU target; a multiply-add counts as two operations.

    The kernel multiplies two small matrices repeatedly. Its accumulators stay in registers, and its
    operands in the first cache. The measurement lasts about 0.3 seconds, including compilation.
    """
    cores = target_cores(target)
    rows, columns = _TILES.get(traits(target).vector_bits or 0, _OTHER_TILE)
    kernel = tvm.compile(_kernel(cores, rows, columns).mod, target=target)["main"]
    shapes = (_DEPTH, rows), (_DEPTH, columns), (cores, rows, columns)
    tensors = [tvm.runtime.tensor(np.full(shape, 0.5, np.float32)) for shape in shapes]
    kernel(*tensors)  # starts TVM's threads, which would inherit the binding to a core
    flops = 2.0 * cores * rows * columns * _DEPTH * _PASSES
    with pinned_to_first_core():
        return flops / min(best_time_s(lambda: kernel(*tensors)) for _ in range(3)) / 1e9


def _kernel(cores: int, rows: int, columns: int) -> Schedule:
    left = te.placeholder((_DEPTH, rows), name="left")
    right = te.placeholder((_DEPTH, columns), name="right")
    passes, depth = te.reduce_axis((0, _PASSES), name="passes"), te.reduce_axis((0, _DEPTH), name="depth")
    product = te.compute(
        (cores, rows, columns),
        lambda core, i, j: te.sum(left[depth, i] * right[depth, j], axis=[passes, depth]),
        name="product",
    )
    schedule = Schedule(as_task_module(te.create_prim_func([left, right, product])))
    block = schedule.get_sblock("product")
    accumulators = schedule.cache_write(block, 0, "global")
    core, i, j, passes, depth = schedule.get_loops(block)
    schedule.reorder(core, passes, depth, i, j)
    schedule.reverse_compute_at(accumulators, core)
    schedule.parallel(core)
    _keep_in_registers(schedule, block)
    start = schedule.decompose_reduction(block, passes)
    for nest in (start, accumulators):
        _keep_in_registers(schedule, nest)
    return schedule


def _keep_in_registers(schedule: Schedule, block: SBlockRV) -> None:
    """Unrolls the rows of a block and vectorises its columns."""
    *_, rows, columns = schedule.get_loops(block)
    schedule.unroll(rows)
    schedule.vectorize(columns)
