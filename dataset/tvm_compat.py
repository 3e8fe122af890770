"""Everything that changes between TVM versions, written for the wheel that pyproject.toml pins."""

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
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace, _ffi_api
from tvm.s_tir.stmt import SBlock
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features, llvm_get_system_cpu
from tvm.tirx import IndexMap, PrimFunc

from ..errors import UserError
from .interruption import interrupts_deferred


def available_cores() -> int:
    """Number of CPU cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# TVM takes half of the cores it sees for hyper-threads and leaves them idle, unless it is told a number
# before its first parallel program.
os.environ.setdefault("TVM_NUM_THREADS", str(available_cores()))

# MetaSchedule tells every step of its search; a user wants to hear of what went wrong.
_SEARCH_LOG = logging.getLogger("foretune.metaschedule")
_SEARCH_LOG.setLevel(logging.WARNING)


class UnknownTargetError(UserError, ValueError):
    """The target is none that this TVM can generate code for."""


class NoDesignSpaceError(UserError, ValueError):
    """MetaSchedule has no schedule to sample for the task."""


@contextmanager
def _stack_without_source() -> Iterator[None]:
    """Makes `inspect.stack` skip source context, which TVM's decorators never read."""

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
    """Imports TVM's tensor intrinsics, which every tune context needs.

    Each of their decorators calls `inspect.stack`, which reads source files: 20-37 s in all. Without source
    context the same import takes 2 s.
    """
    with _stack_without_source():
        import tvm.s_tir.tensor_intrin  # noqa: F401


def load_cpu_intrinsics() -> None:
    """In a process that tunes for CPUs alone: has `load_tensor_intrinsics` import no others, 2 s less work.

    The package's `__init__` imports those of every device, of which CUDA's take nearly all of the time. It is
    not run here, and the modules of CPUs are imported by themselves.
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
    """Turns `llvm`, `cuda`, a TVM tag such as `nvidia/nvidia-a100`, a JSON object or a mapping into a target.

    A bare `llvm` becomes this machine's CPU with its core count; a bare `cuda` the device that TVM detects.
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
                    "target=cuda: no CUDA device here; name one, such as target=nvidia/nvidia-a100, to "
                    "generate code only, or use target=llvm"
                )
            return Target.from_device(tvm.cuda())
        return Target(dict(spec) if isinstance(spec, Mapping) else spec)
    except UnknownTargetError:
        raise
    except Exception as error:  # TVM reports bad targets as ValueError, TypeError or InternalError
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise UnknownTargetError(
            f"target={spec!r}: not a target of TVM {tvm.__version__} ({reason}); use llvm, cuda, a "
            'tag such as nvidia/nvidia-a100, or a JSON object such as {"kind": "llvm", "mcpu": "znver3", '
            '"num-cores": 2}'
        ) from error


def target_cores(target: Target) -> int:
    """Number of CPU cores that programs of a target use: what it says, or else all of this process."""
    return int(target.attrs.get("num-cores", available_cores()))


_VECTOR_FEATURES = (("avx512f", 512), ("avx", 256), ("sse2", 128))


def target_vectors(target: Target) -> tuple[int | None, bool]:
    """Widest vectors, in bits, of a target's generated code, and whether it fuses multiply and add.

    None where that is not known: on other CPUs than x86. TVM's own `llvm_get_vector_width` says 512 for every
    x86.
    """
    bits = next((bits for name, bits in _VECTOR_FEATURES if llvm_cpu_has_features([name], target)), None)
    return bits, bits is None or bool(llvm_cpu_has_features(["fma"], target))


def target_to_json(target: Target) -> str:
    """Canonical JSON of a target: what records carry and `parse_target` reads back."""
    return json.dumps(json.loads(str(target)), sort_keys=True)


def workload_hash(mod: tvm.IRModule) -> str:
    """16 hex digits that name a task: MetaSchedule's structural hash of its module."""
    return f"{tvm_ffi.structural_hash(mod) & 0xFFFFFFFFFFFFFFFF:016x}"


def as_task_module(func: Any) -> tvm.IRModule:
    """A PrimFunc as the module with one function `main` that MetaSchedule tunes."""
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


def argument_buffers(mod: tvm.IRModule, as_given: bool = False) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each argument of `main`, in order.

    Weights whose layout the program chooses have that one, or with `as_given` the task's.
    """
    buffers = []
    for arg in ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=not as_given):
        buffers.append((tuple(int(extent) for extent in arg.shape), str(arg.dtype)))
    return buffers


@cache
def keep_layout_of_clips() -> None:
    """Tells TVM that a clip, or a leaky ReLU, computes the same in any layout, as it knows of a ReLU."""
    follows = tvm.ir.Op.get("relax.nn.relu").get_attr("FRelaxInferLayout")
    for name in ("relax.clip", "relax.nn.leakyrelu"):
        if tvm.ir.Op.get(name).get_attr("FRelaxInferLayout") is None:
            tvm.ir.register_op_attr(name, "FRelaxInferLayout", follows)


_LAYOUT_CHANGE = "meta_schedule.layout_rewrite_preproc"
LAYOUT_FREE = "layout_free_buffers"
"""Attribute of a PrimFunc: indices of the arguments whose layout its schedule may choose."""


def layout_free(func: PrimFunc) -> frozenset[int]:
    """Arguments, constants where the function is called, whose layout a schedule may choose."""
    indices = func.attrs.get(LAYOUT_FREE, ()) if func.attrs is not None else ()
    return frozenset(int(index) for index in indices)


def with_layout_free(func: PrimFunc, indices: Sequence[int]) -> PrimFunc:
    """The function with these arguments as `layout_free`; none is the function as it was."""
    return func.with_attr(LAYOUT_FREE, list(indices)) if indices else func.without_attr(LAYOUT_FREE)


def chooses_layout(mod: tvm.IRModule) -> bool:
    """Whether a scheduled module begins by bringing weights into another layout."""
    found: list[SBlock] = []

    def visit(block: SBlock) -> None:
        if _LAYOUT_CHANGE in block.annotations:
            found.append(block)

    tvm_ffi.structural_walk(mod["main"].body, (SBlock, visit))
    return bool(found)


def without_layout_change(mod: tvm.IRModule) -> tvm.IRModule:
    """The module for weights that are in the layout of its choice already.

    Argument shapes are those of `argument_buffers(mod)`, which cannot read them off the result.
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
    refused: Counter[str] | None = None,
) -> ms.TuneContext:
    """A tune context that logs warnings only.

    Replay and features take `threads` threads. With more than one, which thread draws which candidate is left
    to chance, so that only a single thread repeats a search exactly. Where `refused` is given, a search
    counts in it the candidates that were no valid program, by cause.
    """
    load_tensor_intrinsics()
    with interrupts_deferred():
        return ms.TuneContext(
            mod=mod,
            target=target,
            space_generator=space,
            search_strategy=strategy,
            task_name=name,
            rand_state=seed + 1,  # MetaSchedule treats 0 and negative states as "draw one"
            num_threads=threads,
            logger=_SEARCH_LOG if refused is None else counting_logger(refused),
        ).clone()


_REFUSALS = re.compile(
    r"(?:(Trace replay) failures|Postproc #\d+ \[[\w.]*?(\w+)(?:\(.*?\))?\]): (\d+) failure"
)


def counting_logger(refused: Counter[str]) -> logging.Logger:
    """Adds up the refused candidates of MetaSchedule's summaries, which it keeps nowhere but in its log."""

    def count(message: logging.LogRecord) -> bool:
        for replaying, postprocessor, failures in _REFUSALS.findall(message.getMessage()):
            if int(failures):
                refused["trace does not apply" if replaying else postprocessor] += int(failures)
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
    """A trace as the values that JSON knows: what `Trace.as_json` gives, for a third of the time.

    A search writes thousands of traces, and TVM's iterators check every index.
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
    return value.value  # an immediate


def mutate(mutator: ms.Mutator, trace: Trace, seed: int) -> Trace | None:
    """A neighbour of a trace, the same for the same `seed`; None where there is nothing to change."""
    return ms._ffi_api.MutatorApply(mutator, trace, seed)


def design_spaces(context: ms.TuneContext, name: str) -> list[Schedule]:
    """Design spaces of a task; raises NoDesignSpaceError where nothing can be sampled."""
    with interrupts_deferred():
        spaces = list(context.generate_design_space())
    if not any(space.trace.decisions for space in spaces):
        raise NoDesignSpaceError(
            f"task={name}: MetaSchedule has no tunable decision for it; leave it out of tuning and it runs "
            "with TVM's default schedule"
        )
    return spaces
