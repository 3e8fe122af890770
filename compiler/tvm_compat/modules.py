"""Modules of the pinned TVM: hashes, arguments, layouts of weights, passes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.stmt import SBlock
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
from tvm.target import Target
from tvm.tirx import PrimFunc


def workload_hash(mod: tvm.IRModule) -> str:
    """16 hex digits that identify a task: MetaSchedule's structural hash of its module."""
    return f"{tvm_ffi.structural_hash(mod) & 0xFFFFFFFFFFFFFFFF:016x}"


def as_task_module(func: Any) -> tvm.IRModule:
    """Module with the PrimFunc as its function `main`, as MetaSchedule expects it."""
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def argument_buffers(mod: tvm.IRModule, task_layout: bool = False) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each argument of `main`, in order.

    Weights whose layout the program chooses have the chosen layout, or with `task_layout` the task's layout.
    """
    buffers = []
    for arg in ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=not task_layout):
        buffers.append((tuple(int(extent) for extent in arg.shape), str(arg.dtype)))
    return buffers


@cache
def register_clip_layouts() -> None:
    """Register that clip and leaky ReLU work in any layout, as TVM knows of ReLU."""
    follows = tvm.ir.Op.get("relax.nn.relu").get_attr("FRelaxInferLayout")
    for name in ("relax.clip", "relax.nn.leakyrelu"):
        if tvm.ir.Op.get(name).get_attr("FRelaxInferLayout") is None:
            tvm.ir.register_op_attr(name, "FRelaxInferLayout", follows)


_LAYOUT_CHANGE = "meta_schedule.layout_rewrite_preproc"
LAYOUT_FREE = "layout_free_buffers"
"""Attribute of a PrimFunc: indices of the arguments whose layout its schedule may choose."""


def vectorised(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """Scheduled GPU module after the passes of TVM's pipeline up to software pipelines and vector loops.

    Loops are not unrolled yet, which keeps this at some milliseconds.
    """
    transform, lower = tvm.s_tir.transform, tvm.tirx.transform
    host = target if target.host else Target(target, host=Target("llvm"))
    with target:
        return tvm.transform.Sequential(
            [
                lower.BindTarget(host),
                transform.CanonicalizeLoop(),
                transform.LowerCrossThreadReduction(),
                transform.LowerInitBlock(),
                transform.PlanAndUpdateBufferAllocationLocation(),
                transform.ConvertBlocksToOpaque(),
                transform.LiftThreadBinding(),
                transform.ManifestSharedMemoryLocalStage(),
                transform.CompactBufferAllocation(),
                transform.LowerAutoCopy(),
                transform.UnifyThreadBinding(),
                transform.LowerMatchBuffer(),
                transform.StmtSimplify(),
                transform.InjectPermutedLayout(),
                transform.AnnotateIrregularLoop(),
                transform.InjectSoftwarePipeline(),
                transform.TransformMmaBufferLayout(),
                transform.LowerOpaqueBlock(),
                lower.FlattenBuffer(),
                lower.NarrowDataType(32),
                transform.LoopPartition(),
                lower.VectorizeLoop(),
            ]
        )(mod)


CUDA_PASSES = {
    # Without it, software-pipelined programs wait for asynchronous copies that never start.
    "tirx.use_async_copy": True,
    # With storage rewrite, most tensor-core programs that accumulate in a wider type do not compile.
    "tirx.disable_storage_rewrite": True,
}
"""Options with which programs for CUDA are compiled."""


IF_THEN_ELSE = "prim.if_then_else"
"""Name of the operation that evaluates one of two values."""


def before_async_copies(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """Scheduled module for CUDA as TVM's pipeline hands it to the pass that makes copies asynchronous.

    Common subexpressions are not moved: a variable in their place hides whether an address is aligned.
    """
    host = target if target.host else Target(target, host=Target("llvm"))
    found: list[tvm.IRModule] = []

    @pass_instrument
    class Keep:
        def run_before_pass(self, seen: tvm.IRModule, info: Any) -> None:
            if info.name == "s_tir.InjectPTXAsyncCopy":
                found.append(seen)

    plain = {**CUDA_PASSES, "tirx.disable_cse_tir": True}
    with target, tvm.transform.PassContext(config=plain, instruments=[Keep()]):
        pipeline, _, _ = tvm.tirx.get_default_tir_pipeline(target)
        pipeline(tvm.tirx.transform.BindTarget(host)(mod))
    return found[0]


def layout_free(func: PrimFunc) -> frozenset[int]:
    """Indices of the arguments whose layout a schedule may choose; they are constants at the call."""
    indices = func.attrs.get(LAYOUT_FREE, ()) if func.attrs is not None else ()
    return frozenset(int(index) for index in indices)


def with_layout_free(func: PrimFunc, indices: Sequence[int]) -> PrimFunc:
    """Function with these indices as its `layout_free` arguments."""
    return func.with_attr(LAYOUT_FREE, list(indices)) if indices else func.without_attr(LAYOUT_FREE)


def has_blocks(func: PrimFunc) -> bool:
    """Whether a function has blocks to schedule. TVM's scatter, sort and cumulative sum are plain loops."""
    found: list[SBlock] = []
    tvm_ffi.structural_walk(func.body, (SBlock, found.append))
    return len(found) > 1 or any(block.iter_vars for block in found)  # one alone is the root


def chooses_layout(mod: tvm.IRModule) -> bool:
    """Whether a scheduled module starts with a layout change of weights."""
    found: list[SBlock] = []

    def visit(block: SBlock) -> None:
        if _LAYOUT_CHANGE in block.annotations:
            found.append(block)

    tvm_ffi.structural_walk(mod["main"].body, (SBlock, visit))
    return bool(found)


def without_layout_change(mod: tvm.IRModule) -> tvm.IRModule:
    """Module without the layout change, for weights that already have the chosen layout.

    Argument shapes are those of `argument_buffers(mod)`; they cannot be read off the result.
    """
    return RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod) if chooses_layout(mod) else mod
