"""Compatibility layer: code that depends on the TVM version, for the wheel pinned in pyproject.toml."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import tvm
import tvm_ffi
from tvm import te
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace, _ffi_api
from tvm.s_tir.stmt import SBlock
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features, llvm_get_cpu_features, llvm_get_system_cpu
from tvm.tirx import IndexMap, PrimFunc

from ..errors import UserError
from .interruption import interrupts_deferred


def available_cores() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# TVM takes half of the cores for hyper-threads and leaves them idle, unless the number is set before its
# first parallel program.
os.environ.setdefault("TVM_NUM_THREADS", str(available_cores()))

# MetaSchedule logs every step of a search; users need only the warnings.
_SEARCH_LOG = logging.getLogger("foretune.metaschedule")
_SEARCH_LOG.setLevel(logging.WARNING)


class UnknownTargetError(UserError, ValueError):
    """The target is not supported by this TVM."""


class NoDesignSpaceError(UserError, ValueError):
    """MetaSchedule has no tunable schedule for the task."""


@contextmanager
def _stack_without_source() -> Iterator[None]:
    """Make `inspect.stack` skip the source context, which TVM's decorators do not use."""

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        frames = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            frames.append(
                inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
            )
            frame = frame.f_back
        return frames

    original = inspect.stack
    inspect.stack = stack
    try:
        yield
    finally:
        inspect.stack = original


@cache
def load_tensor_intrinsics() -> None:
    """Import TVM's tensor intrinsics, which tune contexts need.

    Each of their decorators calls `inspect.stack`, which reads source files and takes 20-37 s in total.
    Without source context, the import takes 2 s.
    """
    with _stack_without_source():
        import tvm.s_tir.tensor_intrin  # noqa: F401


def load_cpu_intrinsics() -> None:
    """Import only CPU intrinsics, in a process that tunes only for CPUs; saves 2 s.

    The package's `__init__` imports the intrinsics of all devices, and those of CUDA take nearly all of the
    time. Here it does not run, and the modules of CPUs are imported directly.
    """
    name = "tvm.s_tir.tensor_intrin"
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None:
        return
    sys.modules[name] = importlib.util.module_from_spec(spec)
    with _stack_without_source():
        for device in ("x86", "arm_cpu", "riscv_cpu"):
            importlib.import_module(f"{name}.{device}")


def parse_target(spec: str | Mapping[str, Any] | Target) -> Target:
    """Parse `llvm`, `cuda`, a TVM tag such as `nvidia/nvidia-a100`, a JSON object or a mapping into a target.

    `llvm` alone means this machine's CPU with its core count, `cuda` alone the device that TVM detects.
    Raises UnknownTargetError.
    """
    if isinstance(spec, Target):
        return spec
    try:
        if isinstance(spec, str) and spec.lstrip().startswith("{"):
            spec = json.loads(spec)
        if spec == "llvm":
            spec = {"kind": "llvm", "mcpu": str(llvm_get_system_cpu()), "num-cores": available_cores()}
        elif spec == "cuda":
            if not tvm.cuda().exist:
                raise UnknownTargetError(
                    "target=cuda: no CUDA device here; name one, as in target=nvidia/nvidia-a100, to only "
                    "generate code, or use target=llvm"
                )
            return Target.from_device(tvm.cuda())
        return Target(dict(spec) if isinstance(spec, Mapping) else spec)
    except UnknownTargetError:
        raise
    except Exception as error:  # TVM reports bad targets as ValueError, TypeError or InternalError
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise UnknownTargetError(
            f"target={spec!r}: not supported by TVM {tvm.__version__} ({reason}); use llvm, cuda, a "
            'tag such as nvidia/nvidia-a100, or a JSON object such as {"kind": "llvm", "mcpu": "znver3", '
            '"num-cores": 2}'
        ) from error


def target_cores(target: Target) -> int:
    """Number of CPU cores that programs of a target use: its num-cores, else all cores of this process."""
    return int(target.attrs.get("num-cores", available_cores()))


_VECTOR_FEATURES = (("avx512f", 512), ("avx", 256), ("sse2", 128))


def target_vectors(target: Target) -> tuple[int | None, bool]:
    """Widest vectors of a target's generated code in bits, and whether it uses fused multiply-add.

    The width is None on CPUs other than x86, where it is not known. TVM's `llvm_get_vector_width` returns 512
    for every x86.
    """
    bits = next((bits for name, bits in _VECTOR_FEATURES if llvm_cpu_has_features([name], target)), None)
    return bits, bits is None or bool(llvm_cpu_has_features(["fma"], target))


_INSTRUCTION_SETS = re.compile(
    r"(avx|amx|s?sse|fma|f16c|bmi|lzcnt|popcnt|movbe|gfni|neon|dotprod|fullfp16|bf16|i8mm|sve|lse)[\w.\-]*"
)
"""Features of a CPU that generated code uses; others are for the operating system, or are hints."""


def missing_instruction_sets(target: Target) -> list[str]:
    """Instruction sets that generated code of a CPU target may use and this machine's CPU lacks.

    Code that uses one ends the process. LLVM asks the CPU itself, which sees what a virtual machine hides.
    """
    here = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return sorted(
        name
        for name in llvm_get_cpu_features(target)
        if _INSTRUCTION_SETS.fullmatch(name) and not int(here.get(name, 1))
    )


_SHARE_ALL_CORES = -3
"""TVM's affinity mode in which all threads of a pool may use all given cores."""


def configure_thread_pool(threads: int, cores: Sequence[int]) -> int:
    """Gives the calling thread's pool `threads` threads, all of which may run on any of `cores`.

    Makes the pool where there is none yet. A pool never grows; returns the threads that it uses.
    """
    count = tvm_ffi.get_global_func("runtime.NumThreads")
    with _environment(TVM_NUM_THREADS=str(threads), TVM_BIND_THREADS="1"):
        count()  # makes the pool
        tvm_ffi.get_global_func("runtime.config_threadpool")(
            _SHARE_ALL_CORES, threads, [str(core) for core in cores]
        )
    return int(count())


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Environment variables that TVM reads within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def target_to_json(target: Target) -> str:
    """Canonical JSON of a target, as in records; `parse_target` reads it."""
    return json.dumps(json.loads(str(target)), sort_keys=True)


def workload_hash(mod: tvm.IRModule) -> str:
    """16 hex digits that identify a task: MetaSchedule's structural hash of its module."""
    return f"{tvm_ffi.structural_hash(mod) & 0xFFFFFFFFFFFFFFFF:016x}"


def as_task_module(func: Any) -> tvm.IRModule:
    """Module with the PrimFunc as its function `main`, as MetaSchedule expects it."""
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def argument_buffers(mod: tvm.IRModule, task_layout: bool = False) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each argument of `main`, in order.

    Weights whose layout the program chooses have the chosen layout, or with `task_layout` that of the task.
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
    """Scheduled module for CUDA as TVM's pipeline hands it to the pass that makes copies asynchronous."""
    host = target if target.host else Target(target, host=Target("llvm"))
    found: list[tvm.IRModule] = []

    @pass_instrument
    class Keep:
        def run_before_pass(self, seen: tvm.IRModule, info: Any) -> None:
            if info.name == "s_tir.InjectPTXAsyncCopy":
                found.append(seen)

    with target, tvm.transform.PassContext(config=CUDA_PASSES, instruments=[Keep()]):
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


def make_tune_context(
    mod: tvm.IRModule,
    target: Target,
    *,
    seed: int,
    strategy: Any = "evolutionary",
    space: Any = "post-order-apply",
    name: str = "task",
    threads: int = 1,
    rejected: Counter[str] | None = None,
) -> ms.TuneContext:
    """Create a tune context that logs only warnings.

    Replay and features use `threads` threads. Only a single thread makes a search reproducible, as the order
    in which several threads draw candidates varies. If `rejected` is given, a search counts its invalid
    candidates there by cause.
    """
    load_tensor_intrinsics()
    if space == "post-order-apply" and target.kind.name == "llvm":
        # Rules for CPUs with VNNI tile loops for an intrinsic that does not match the weights of networks.
        space = ms.space_generator.PostOrderApply(None, *["llvm"] * 3)
    with interrupts_deferred():
        return ms.TuneContext(
            mod=mod,
            target=target,
            space_generator=space,
            search_strategy=strategy,
            task_name=name,
            rand_state=seed + 1,  # MetaSchedule draws a random state for 0 and negative values
            num_threads=threads,
            logger=_SEARCH_LOG if rejected is None else counting_logger(rejected),
        ).clone()


def stock_space(target: Target) -> ms.SpaceGenerator:
    """MetaSchedule's space generator with its default rules for a target."""
    rows = te.placeholder((1,), name="rows")
    doubled = te.compute((1,), lambda i: rows[i] * 2.0, name="doubled")
    mod = as_task_module(te.create_prim_func([rows, doubled]))
    return make_tune_context(mod, target, seed=0).space_generator


_REJECTIONS = re.compile(
    r"(?:(Trace replay) failures|Postproc #\d+ \[[\w.]*?(\w+)(?:\(.*?\))?\]): (\d+) failure"
)


def counting_logger(rejected: Counter[str]) -> logging.Logger:
    """Logger that counts rejected candidates from MetaSchedule's summaries, their only source.

    While a search draws its first population, each summary repeats the counts of the one before.
    """
    before: Counter[str] = Counter()

    def count(message: logging.LogRecord) -> bool:
        nonlocal before
        text = message.getMessage()
        found: Counter[str] = Counter()
        for replaying, postprocessor, failures in _REJECTIONS.findall(text):
            found["trace does not apply" if replaying else postprocessor] += int(failures)
        repeats = text.startswith("Sample-Init-Population")
        rejected.update(found - before if repeats else +found)
        before = found if repeats else Counter()
        return message.levelno >= logging.WARNING

    logger = logging.Logger(_SEARCH_LOG.name, logging.INFO)
    logger.parent = _SEARCH_LOG
    logger.addFilter(count)
    return logger


_array_item, _array_size = (
    tvm_ffi.get_global_func("ffi.ArrayGetItem"),
    tvm_ffi.get_global_func("ffi.ArraySize"),
)


def trace_as_json(trace: Trace) -> Any:
    """Trace as JSON values: the result of `Trace.as_json` in a third of the time.

    A search serialises thousands of traces, and TVM's iterators check every index.
    """
    return _plain(_ffi_api.TraceAsJSON(trace, False))


def _plain(value: Any) -> Any:
    if isinstance(value, tvm_ffi.Array):
        return [_plain(_array_item(value, index)) for index in range(_array_size(value))]
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tvm_ffi.Map):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, IndexMap):
        return tvm.ir.save_json(value)
    return value.value  # a constant


def mutate(mutator: ms.Mutator, trace: Trace, seed: int) -> Trace | None:
    """Neighbour of a trace, determined by `seed`; None if the mutator finds no change."""
    return ms._ffi_api.MutatorApply(mutator, trace, seed)


def design_spaces(context: ms.TuneContext, name: str) -> list[Schedule]:
    """Design spaces of a task; raises NoDesignSpaceError if they have no decision to sample."""
    with interrupts_deferred():
        spaces = list(context.generate_design_space())
    if not any(space.trace.decisions for space in spaces):
        raise NoDesignSpaceError(
            f"task={name}: MetaSchedule has no tunable decision for this task; leave it out of tuning to run "
            "it with TVM's default schedule"
        )
    return spaces
