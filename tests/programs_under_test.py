"""Small programs, and every way one can misbehave."""

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
    """The same function as `Doubled`, scheduled."""

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


@I.ir_module
class DoubledInPart:
    """Leaves the last value of `Doubled` out."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        for i in range(1023):
            with T.sblock("b"):
                v = T.axis.spatial(1024, i)
                b[v] = a[v] * T.float32(2)


@I.ir_module
class Tripled:
    """Wrong where `Doubled` is asked for."""

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
class Segfaults:
    """Writes to address 0."""

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
    """Runs far longer than any time-out."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.cast(T.call_extern("int32", "sleep", 30), "float32")


def job(module: tvm.IRModule, best_latency_s: float = math.inf, **settings) -> MeasureJob:
    """A job of one of these programs."""
    return MeasureJob(tvm.ir.save_json(module), best_latency_s, **settings)


def checked(module: tvm.IRModule, reference: tvm.IRModule = Doubled, **settings) -> MeasureJob:
    """A job whose outputs are compared with another program's."""
    return job(module, reference=tvm.ir.save_json(reference), **settings)
