"""MetaSchedule of the pinned TVM: contexts, design spaces, traces, mutations."""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Any

import tvm
import tvm_ffi
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace, _ffi_api
from tvm.target import Target
from tvm.tirx import IndexMap

from ...errors import UserError
from ..host.interruption import interrupts_deferred
from .intrinsics import load_tensor_intrinsics
from .modules import as_task_module

# MetaSchedule logs every step of a search; users need only the warnings.
_SEARCH_LOG = logging.getLogger("foretune.metaschedule")
_SEARCH_LOG.setLevel(logging.WARNING)


class NoDesignSpaceError(UserError, ValueError):
    """MetaSchedule has no tunable schedule for the task."""


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
