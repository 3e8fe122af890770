"""CUDA kernels whose traffic can be worked out by hand. Each copies float32 values."""

from __future__ import annotations

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Coalesced:
    """64 threads: thread t copies a[t]."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("b"):
                v = T.axis.spatial(64, t)
                b[v] = a[v]


@I.ir_module
class Vectors:
    """32 threads: thread t copies a[4 t : 4 t + 4] at once."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((128,), "float32"), b: T.Buffer((128,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for lane in T.vectorized(4):
                with T.sblock("b"):
                    v = T.axis.spatial(128, t * 4 + lane)
                    b[v] = a[v]


@I.ir_module
class FiveLanes:
    """32 threads: thread t copies five values at once, for which CUDA has no type."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((160,), "float32"), b: T.Buffer((160,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            for lane in T.vectorized(5):
                with T.sblock("b"):
                    v = T.axis.spatial(160, t * 5 + lane)
                    b[v] = a[v]


@I.ir_module
class Strided:
    """32 threads: thread t copies a[16 t], 64 bytes apart."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((512,), "float32"), b: T.Buffer((32,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("b"):
                v = T.axis.spatial(32, t)
                b[v] = a[v * 16]


@I.ir_module
class Broadcast:
    """32 threads: all read a[5]."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "float32")):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("b"):
                v = T.axis.spatial(32, t)
                b[v] = a[5]


def transposed(row: int) -> tvm.IRModule:
    """32 threads transpose a 32 x 32 matrix by shared memory whose rows are `row` values apart, 32 to 63.

    Thread t stores column t of a, one value of each row at a time, and loads row t: the loads of one step are
    `row` words apart.
    """

    @I.ir_module
    class Transposed:
        @T.prim_func(s_tir=True)
        def main(a: T.Buffer((32, 32), "float32"), b: T.Buffer((32, 32), "float32")):
            with T.sblock("root"):
                shared = T.sblock_alloc_buffer((32, 32), "float32", scope="shared")
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    for i in range(32):
                        with T.sblock("fill"):
                            T.sblock_attr({"buffer_dim_align": [[0, 0, 32, row % 32]]})
                            vi = T.axis.spatial(32, i)
                            vt = T.axis.spatial(32, t)
                            shared[vi, vt] = a[vi, vt]
                    for i in range(32):
                        with T.sblock("drain"):
                            vi = T.axis.spatial(32, i)
                            vt = T.axis.spatial(32, t)
                            b[vi, vt] = shared[vt, vi]

    return Transposed


@I.ir_module
class Reversed:
    """64 threads reverse 64 values by shared memory, two warps: without a barrier, a race."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
        with T.sblock("root"):
            shared = T.sblock_alloc_buffer((64,), "float32", scope="shared")
            for t in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("fill"):
                    v = T.axis.spatial(64, t)
                    shared[v] = a[v]
                with T.sblock("drain"):
                    v = T.axis.spatial(64, t)
                    b[v] = shared[63 - v]


@I.ir_module
class Overrun:
    """64 threads: the last one reads a[64], which does not exist."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("b"):
                v = T.axis.spatial(64, t)
                b[v] = a[v + 1]


@I.ir_module
class Shared:
    """Two blocks write the same values."""

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "float32")):
        for _ in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("b"):
                    v = T.axis.spatial(32, t)
                    b[v] = a[v]


def pipelined(row: int, step: int, steps: int = 6) -> tvm.IRModule:
    """64 sums over the steps of a pipeline, which fetches four values a thread by an asynchronous copy.

    Step k fetches a[row * k + step * i] for output i.
    """
    size = row * (steps - 1) + step * 63 + 1

    @I.ir_module
    class Pipelined:
        @T.prim_func(s_tir=True)
        def main(a: T.Buffer((size,), "float32"), b: T.Buffer((64,), "float32")):
            for t in T.thread_binding(16, thread="threadIdx.x"):
                for j in range(4):
                    with T.sblock("zero"):
                        v = T.axis.spatial(64, t * 4 + j)
                        b[v] = T.float32(0)
                for k in T.serial(
                    steps,
                    annotations={
                        "software_pipeline_stage": [0, 2],
                        "software_pipeline_order": [0, 1],
                        "software_pipeline_async_stages": [0],
                    },
                ):
                    with T.sblock("step"):
                        shared = T.sblock_alloc_buffer((64,), "float32", scope="shared")
                        for lane in T.vectorized(4):
                            with T.sblock("fetch"):
                                v = T.axis.spatial(64, t * 4 + lane)
                                vk = T.axis.spatial(steps, k)
                                shared[v] = a[vk * row + v * step]
                        for j in range(4):
                            with T.sblock("add"):
                                v = T.axis.spatial(64, t * 4 + j)
                                b[v] = b[v] + shared[v]

    return Pipelined


def one_mma(depth: int, dtype: str) -> tvm.IRModule:
    """One m16n8k8 or m16n8k16 of a warp: [16, depth] x [depth, 8] -> float32 [16, 8].

    Lane l has rows l / 4 and l / 4 + 8 of the left matrix, and of each 8 columns 2 (l mod 4) and one more.
    Of the right matrix it has these rows of column l / 4, and of the sums what it has of the left matrix (PTX
    ISA, "Matrix Fragments for mma.m16n8k16").
    """
    steps = depth // 8

    @I.ir_module
    class Multiplied:
        @T.prim_func(s_tir=True)
        def main(
            left: T.Buffer((16, depth), dtype),
            right: T.Buffer((depth, 8), dtype),
            out: T.Buffer((16, 8), "float32"),
        ):
            for _ in T.thread_binding(1, thread="blockIdx.x"):
                for lane in T.thread_binding(32, thread="threadIdx.x"):
                    with T.sblock("product"):
                        T.reads(left[0:16, 0:depth], right[0:depth, 0:8])
                        T.writes(out[0:16, 0:8])
                        a = T.sblock_alloc_buffer((4 * steps,), dtype, scope="local")
                        b = T.sblock_alloc_buffer((2 * steps,), dtype, scope="local")
                        c = T.sblock_alloc_buffer((4,), "float32", scope="local")
                        for step, part, next_ in T.grid(steps, 2, 2):
                            a[step * 4 + part * 2 + next_] = left[
                                lane // 4 + part * 8, step * 8 + lane % 4 * 2 + next_
                            ]
                        for step, next_ in T.grid(steps, 2):
                            b[step * 2 + next_] = right[step * 8 + lane % 4 * 2 + next_, lane // 4]
                        for i in range(4):
                            c[i] = T.float32(0)
                        T.evaluate(
                            T.ptx_legacy.mma(
                                "m16n8k8" if depth == 8 else "m16n8k16",
                                "row",
                                "col",
                                dtype,
                                dtype,
                                "float32",
                                a.data,
                                0,
                                b.data,
                                0,
                                c.data,
                                0,
                                False,
                                dtype="float32",
                            )
                        )
                        for part, next_ in T.grid(2, 2):
                            out[lane // 4 + part * 8, lane % 4 * 2 + next_] = c[part * 2 + next_]

    return Multiplied
