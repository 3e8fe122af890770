"""Tensor cores of NVIDIA GPUs: intrinsics that TVM lacks, and rules that tile products for tensor cores.

TVM has intrinsics for float16 and int8 by WMMA (16x16x16) and for float16 by MMA (m16n8k8). Those for
bfloat16 are made here with TVM's own generators, with names of TVM's style, to which traces refer. The store
of MMA's sums to shared memory is our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import TensorIntrin
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.stmt import SBlock
from tvm.target import Target
from tvm.tirx import PrimFunc

from ..instruction_sets import TENSOR_CORES
from ..targets import traits
from ..types import data_type
from .modules import entry_function

WMMA, MMA = "wmma", "mma"
"""Ways to use tensor cores: CUDA's matrix fragments of 16x16x16, and PTX's m16n8k8."""

_FRAGMENTS = "m16n8k8."
"""Beginning of the memory scopes of MMA's fragments."""


def _product(operand: str, accumulator: str) -> str:
    """Name of WMMA's product of these types."""
    kind, out = data_type(operand).short, data_type(accumulator).short
    return f"wmma_sync_16x16x16_{kind}{kind}{out}"


MMA_PRODUCTS: Mapping[str, str] = {
    _product(one.operand, one.accumulator): one.accumulator for one in TENSOR_CORES if one.by_mma
}
"""Products of WMMA that MMA computes as well, and the type of their sums."""


def tensor_core_way(trace: str) -> str | None:
    """WMMA or MMA for the trace (JSON) of a program that uses tensor cores, else None."""
    return MMA if "mma_sync_m16n8k8_" in trace else WMMA if "wmma_sync_" in trace else None


def has_mma_fragments(mod: tvm.IRModule) -> bool:
    """Whether a scheduled module uses MMA, which TVM lowers after `load_tensor_intrinsics` alone."""
    found: list[SBlock] = []

    def visit(block: SBlock) -> None:
        if any(buffer.scope().startswith(_FRAGMENTS) for buffer in block.alloc_buffers):
            found.append(block)

    tvm_ffi.structural_walk(entry_function(mod).body, (SBlock, visit))
    return bool(found)


def tensor_core_rule(target: Target) -> ms.ScheduleRule | None:
    """MetaSchedule's rule that tiles products for WMMA; None if `target` has no such instructions.

    Its settings are those of MetaSchedule's own rule, which lacks bfloat16 and float32 sums of float16. Call
    `load_tensor_intrinsics` before, as the rule looks its intrinsics up.
    """
    types = [(one.operand, one.accumulator) for one in traits(target).tensor_cores]
    if not types:
        return None
    reuse = ms.schedule_rule.ReuseType
    return ms.schedule_rule.MultiLevelTilingTensorCore(
        intrin_groups=[_wmma(*of, transposed) for of in types for transposed in (True, False)],
        structure="SSSRRSRS",
        tile_binds=["blockIdx.y", "blockIdx.x", "threadIdx.y"],
        max_innermost_factor=4,
        vector_load_lens=[1, 2, 4, 8],
        reuse_read=reuse(req="must", levels=[4], scope="shared.dyn"),
        reuse_write=reuse(req="must", levels=[2], scope="shared.dyn"),
    )


def register_tensor_core_intrinsics() -> None:
    """Register the intrinsics of this module; `load_tensor_intrinsics` does it."""
    from tvm.s_tir.tensor_intrin import cuda

    types, scope = ("bfloat16", "float32"), "shared.dyn"
    for transposed in (False, True):
        group = _wmma(*types, transposed)
        _register(group["load_b"], cuda.get_wmma_load_intrin(16, 16, 16, types[0], scope, True, transposed))
        _register(group["compute"], cuda.get_wmma_sync_intrin(16, 16, 16, *types, transposed))
    _register(group["load_a"], cuda.get_wmma_load_intrin(16, 16, 16, types[0], scope, False, False))
    for matrix, is_b in (("A", False), ("B", True)):
        load = cuda.get_mma_load_intrin(32, 32, 8, types[0], scope, is_b, False)
        _register(f"mma_load_m16n8k8_bf16_{matrix}_shared_dyn", load)
    _register("mma_sync_m16n8k8_bf16bf16f32", cuda.get_mma_sync_intrin(16, 8, 8, *types, False))
    for accumulator in dict.fromkeys(MMA_PRODUCTS.values()):
        _register(mma_store_name(accumulator), _mma_store(accumulator))


def mma_store_name(accumulator: str) -> str:
    """Intrinsic that copies a 16x8 tile of an MMA accumulator to shared memory."""
    return f"mma_store_m16n8k8_{data_type(accumulator).short}_shared_dyn"


def _mma_store(accumulator: str) -> tuple[PrimFunc, PrimFunc]:
    """Lane l of a warp holds rows l / 4 and l / 4 + 8 of columns 2 (l mod 4) and the next one."""
    from tvm.script import tirx as T

    fragment, shared = "m16n8k8.matrixC", "shared.dyn"

    @T.prim_func(s_tir=True)
    def description(a: T.handle, c: T.handle) -> None:
        source = T.match_buffer(a, (16, 8), accumulator, align=64, offset_factor=1, scope=fragment)
        copy = T.match_buffer(c, (16, 8), accumulator, align=64, offset_factor=1, scope=shared)
        with T.sblock("root"):
            T.reads(source[0:16, 0:8])
            T.writes(copy[0:16, 0:8])
            for i, j in T.grid(16, 8):
                with T.sblock("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    copy[vi, vj] = source[vi, vj]

    @T.prim_func(s_tir=True)
    def implementation(a: T.handle, c: T.handle) -> None:
        s0 = T.int32()
        s1 = T.int32()
        source = T.match_buffer(a, (16, 8), accumulator, align=64, offset_factor=1, scope=fragment)
        copy = T.match_buffer(
            c, (16, 8), accumulator, align=64, offset_factor=1, scope=shared, strides=[s0, s1]
        )
        with T.sblock("root"):
            T.reads(source[0:16, 0:8])
            T.writes(copy[0:16, 0:8])
            for lane in T.thread_binding(0, 32, "threadIdx.x"):
                for part in range(2):  # not `half`, which is a type of CUDA's
                    for column in T.vectorized(2):
                        copy[part * 8 + lane // 4, lane % 4 * 2 + column] = source[
                            part * 8 + lane // 4, lane % 4 * 2 + column
                        ]

    return description, implementation


def _register(name: str, functions: tuple[Any, Any]) -> None:
    TensorIntrin.register(name, *functions, override=True)


def _wmma(operand: str, accumulator: str, transposed: bool) -> dict[str, str]:
    """Names of the intrinsics of a product; `transposed` is of the right matrix in shared memory."""
    kind, out = data_type(operand).short, data_type(accumulator).short
    turned = "_trans" if transposed else ""
    return {
        "init": f"wmma_fill_16x16x16_{out}",
        "load_a": f"wmma_load_16x16x16_{kind}_a_shared_dyn",
        "load_b": f"wmma_load_16x16x16_{kind}_b{turned}_shared_dyn",
        "compute": _product(operand, accumulator) + turned,
        "store": f"wmma_store_16x16x16_{out}_shared_dyn",
    }
