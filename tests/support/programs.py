"""Small programs, correct ones and one for each way to fail."""

from __future__ import annotations

import math

import tvm
from foretune.dataset.measure import MeasureJob
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Doubled:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        for i in range(1024):
            with T.sblock("b"):
                v = T.axis.spatial(1024, i)
                b[v] = a[v] * T.float32(2)


@I.ir_module
class DoubledInTiles:
    """`Doubled` with a tiled loop."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        for i, j in T.grid(16, 64):
            with T.sblock("b"):
                v = T.axis.spatial(1024, i * 64 + j)
                b[v] = a[v] * T.float32(2)


@I.ir_module
class DoubledOnCuda:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(128, thread="threadIdx.x"):
                with T.sblock("b"):
                    v = T.axis.spatial(1024, i * 128 + j)
                    b[v] = a[v] * T.float32(2)


def doubled_on_cuda(blocks: int) -> tvm.IRModule:
    """`DoubledOnCuda` for `blocks` times 1024 elements, each thread with 8."""

    @I.ir_module
    class Doubled:
        @T.prim_func(s_tir=True)
        def main(a: T.Buffer((blocks * 1024,), "float32"), b: T.Buffer((blocks * 1024,), "float32")):
            for i in T.thread_binding(blocks, thread="blockIdx.x"):
                for k in range(8):
                    for j in T.thread_binding(128, thread="threadIdx.x"):
                        with T.sblock("b"):
                            v = T.axis.spatial(blocks * 1024, i * 1024 + k * 128 + j)
                            b[v] = a[v] * T.float32(2)

    return Doubled


@I.ir_module
class DoubledInPart:
    """`Doubled` without its last element."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        for i in range(1023):
            with T.sblock("b"):
                v = T.axis.spatial(1024, i)
                b[v] = a[v] * T.float32(2)


@I.ir_module
class Tripled:
    """Wrong output where `Doubled` is expected."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        for i in range(1024):
            with T.sblock("b"):
                v = T.axis.spatial(1024, i)
                b[v] = a[v] * T.float32(3)


@I.ir_module
class Aborts:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.call_extern("float32", "abort")


@I.ir_module
class KillsItself:
    """End the process as a lack of memory does."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.cast(T.call_extern("int32", "raise", 9), "float32")


@I.ir_module
class Segfaults:
    """Write to address 0."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.cast(
                    T.call_extern("int64", "memset", T.int64(0), T.int32(1), T.int64(64)), "float32"
                )


@I.ir_module
class Sleeps:
    """Run far longer than any time-out."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.cast(T.call_extern("int32", "sleep", 30), "float32")


def job(module: tvm.IRModule, best_latency_s: float = math.inf, **settings) -> MeasureJob:
    """Measurement job of one of these programs."""
    return MeasureJob(tvm.ir.save_json(module), best_latency_s, **settings)


def checked(module: tvm.IRModule, reference: tvm.IRModule = Doubled, **settings) -> MeasureJob:
    """Job whose outputs are compared with those of `reference`."""
    return job(module, reference=tvm.ir.save_json(reference), **settings)
