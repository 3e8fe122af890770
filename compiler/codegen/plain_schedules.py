"""Plain schedules for functions that run a few times: vectors and threads, without a search.

TVM's loops without a schedule sum one element at a time on one core. A plain schedule takes milliseconds to
find. LLVM does not optimise the code either, which would take longer than the runs.
"""

from __future__ import annotations

from collections.abc import Collection

import tvm
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import IntImm, IterVar, PrimFunc

from ..tvm_compat import has_blocks


def plainly_scheduled(mod: tvm.IRModule, names: Collection[str] | None = None) -> tvm.IRModule:
    """The module with a plain schedule for each function that has blocks; others stay unchanged.

    `names` limits this to the functions of these names.
    """
    changed = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, PrimFunc) and has_blocks(func) and (names is None or var.name_hint in names):
            changed[var] = _scheduled(func)
    return changed


def _scheduled(func: PrimFunc) -> PrimFunc:
    try:
        schedule = Schedule(tvm.IRModule({"main": func}))
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            _schedule_block(schedule, block)
    except Exception:  # a rare form of blocks, which runs as it is
        return func
    return schedule.mod["main"].with_attr("tirx.is_scheduled", True)


def _schedule_block(schedule: Schedule, block: object) -> None:
    """Sums run outside the last axis of the output, which fills vectors; other axes run in parallel."""
    axes, loops = schedule.get(block).iter_vars, schedule.get_loops(block)
    if len(axes) != len(loops):
        return
    sums = [loop for axis, loop in zip(axes, loops, strict=True) if axis.iter_type == IterVar.CommReduce]
    own = [loop for axis, loop in zip(axes, loops, strict=True) if axis.iter_type == IterVar.DataPar]
    if len(sums) + len(own) < len(axes) or len(own) < 2:
        return
    *outer, last = own
    if sums:
        schedule.reorder(*outer, *sums, last)
    schedule.parallel(schedule.fuse(*outer))
    extent = schedule.get(last).extent
    fixed = int(extent) if isinstance(extent, IntImm) else 1  # LLVM makes vectors of a symbolic extent
    if lanes := next((lanes for lanes in _LANES if fixed % lanes == 0), None):
        _, vector = schedule.split(last, [None, lanes])
        schedule.vectorize(vector)
    if sums:
        schedule.decompose_reduction(block, sums[0])


_LANES = (32, 16, 8, 4)
"""Elements of a vector, which divide the last axis of the output."""


def compiled_plainly(mod: tvm.IRModule, target: Target) -> tvm.runtime.Executable:
    """Executable of a lowered network with plain schedules, for a CPU. Raises what TVM raises.

    Checks of the arguments in each function are left out: LLVM would spend most of its time on them.
    """
    config = {"tirx.disable_assert": True}
    with tvm.transform.PassContext(opt_level=3, config=config, disabled_pass=["FuseOps", "FuseTIR"]):
        return tvm.compile(plainly_scheduled(mod), target=unoptimised(target))


def unoptimised(target: Target) -> Target:
    """The CPU target with code that LLVM does not optimise, which it generates fastest."""
    names = ("mcpu", "mtriple", "mattr", "num-cores")
    same = {name: target.attrs[name] for name in names if name in target.attrs}
    return Target({"kind": "llvm", "opt-level": 0, **same})
