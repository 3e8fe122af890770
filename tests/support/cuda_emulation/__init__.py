"""CUDA programs of TVM, executed on a CPU.

TVM's CUDA text is compiled by g++ with headers that stand in place of CUDA's (`native/`), and each CUDA
thread is a fiber. Barriers, warp shuffles, asynchronous copies, vector types, tensor cores (WMMA, `ldmatrix`
and `mma.sync` of 16-bit floats) and `__dp4a` are emulated. A tracer reports races, accesses out of bounds and
what the first block asks of the memory system.

    with EmulatedGpu(cache) as gpu:
        execution = gpu.run(module, target, inputs, trace=True)

The device exists in a process of its own, because TVM has no way to take a device back: tests that skip
without a GPU go on skipping. Nothing here tells how fast a program is on a device.
"""

from .compiler import unavailable_reason
from .gpu import EmulatedGpu, Execution, NotBuiltError, Order, Removal
from .report import KernelReport, Traffic

__all__ = [
    "EmulatedGpu",
    "Execution",
    "KernelReport",
    "NotBuiltError",
    "Order",
    "Removal",
    "Traffic",
    "unavailable_reason",
]
