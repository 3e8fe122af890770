"""Modules of the pinned TVM: hashes, arguments, layouts of weights, passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.stmt import SBlock
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
from tvm.target import Target
from tvm.tirx import PrimFunc
from tvm.tirx.buffer import is_buffer_var
from tvm_ffi.serialization import from_json_graph_str

from ...errors import UserError


def workload_hash(mod: tvm.IRModule) -> str:
    """16 hex digits that identify a task: MetaSchedule's structural hash of its module."""
    return f"{tvm_ffi.structural_hash(mod) & 0xFFFFFFFFFFFFFFFF:016x}"


def module_from_json(text: str) -> tvm.IRModule:
    """Parses a module from JSON of this TVM.

    TVM's own `load_json` upgrades JSON of earlier versions first, in Python, which takes as long as a small
    program's lowering.
    """
    return from_json_graph_str(text)


def as_task_module(func: Any) -> tvm.IRModule:
    """Module with the PrimFunc as its function `main`, as MetaSchedule expects it."""
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def relax_bindings(func: relax.Function) -> Iterator[tuple[relax.Var, Any]]:
    """Variables of a Relax function with the expressions that compute them, in order."""
    for block in func.body.blocks:
        for binding in block.bindings:
            if isinstance(binding, relax.VarBinding):
                yield binding.var, binding.value


def called_function(value: Any) -> str | None:
    """Name of the TIR function that an expression calls with arrays alone; None for other expressions."""
    if not isinstance(value, relax.Call) or not value.op.same_as(_CALL_TIR) or len(value.args) != 2:
        return None
    return str(value.args[0].name_hint)


_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def bound_symbols(func: PrimFunc, call: relax.Call) -> dict[Any, Any]:
    """Extents and numbers of the caller that the symbolic variables of a TIR function stand for in a call.

    They are those of the arguments, and of the results for variables that no argument has.
    """
    given, results = list(call.args[1].fields), list(call.ty_args)
    if len(results) == 1 and isinstance(results[0], relax.TupleType):
        results = list(results[0].fields)
    found: dict[Any, Any] = {}
    for param, value in zip(func.params, [*given, *results], strict=True):
        if not is_buffer_var(param):
            found[param] = value
            continue
        shape = (value if isinstance(value, tvm.ir.Type) else value.ty).shape
        for extent, size in () if shape is None else zip(param.shape, shape, strict=True):
            if isinstance(extent, tirx.Var):
                found.setdefault(extent, size)
    return found


class NoEntryError(UserError, ValueError):
    """A module does not tell which of its functions is the task."""


_ENTRY = "tirx.is_entry_func"


def entry_function(mod: tvm.IRModule) -> PrimFunc:
    """The task's function, found as TVM finds it: the marked entry, else `main`, else the only PrimFunc.

    Raises NoEntryError.
    """
    functions = {var.name_hint: func for var, func in mod.functions_items() if isinstance(func, PrimFunc)}
    marked = [func for func in functions.values() if func.attrs is not None and func.attrs.get(_ENTRY)]
    found = marked[:1] or [functions[name] for name in ("main",) if name in functions]
    if not found and len(functions) == 1:
        found = list(functions.values())
    if not found:
        names = ", ".join(sorted(functions)) or "none"
        raise NoEntryError(
            f"a task is a module with one PrimFunc, and this module has these: {names}; pass one module for "
            "each function, or call the function of the task main"
        )
    return found[0]


def named_main(mod: tvm.IRModule) -> tvm.IRModule:
    """Module whose entry function is `main`, by its key and its symbol; `mod` itself if it is already."""
    func = entry_function(mod)
    symbol = func.attrs.get("global_symbol") if func.attrs is not None else None
    is_main = symbol == "main" and [var.name_hint for var in mod.get_global_vars()] == ["main"]
    return mod if is_main else as_task_module(func)


def argument_buffers(mod: tvm.IRModule, task_layout: bool = False) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each argument of the entry function, in order.

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
    return changes_layout(entry_function(mod).body)


def changes_layout(stmt: Any) -> bool:
    """Whether a statement has a layout change of weights."""
    found: list[SBlock] = []

    def visit(block: SBlock) -> None:
        if _LAYOUT_CHANGE in block.annotations:
            found.append(block)

    tvm_ffi.structural_walk(stmt, (SBlock, visit))
    return bool(found)


def without_layout_change(mod: tvm.IRModule) -> tvm.IRModule:
    """Module without the layout change, for weights that already have the chosen layout.

    Argument shapes are those of `argument_buffers(mod)`; they cannot be read off the result.
    """
    return RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod) if chooses_layout(mod) else mod
