"""Design spaces of a CUDA task: for tensor cores by WMMA and by MMA, and for plain threads.

MetaSchedule's rule for WMMA makes the sketches for WMMA, and `mma_sketch` those for MMA of their traces. What
differs from MetaSchedule's own rules:

- In one list of rules, the first that tiles a block for tensor cores hides all others. Here each way has
  sketches of its own, and threads without tensor cores too.
- An epilogue that reads the sums more than once, such as GELU, is computed in the same kernel.
- Rows of bfloat16 in shared memory are padded against bank conflicts, as those of float16 are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace
from tvm.target import Target

from ..host.interruption import interrupts_deferred
from ..tvm_compat import WMMA, load_tensor_intrinsics, tensor_core_rule, tensor_core_way, trace_as_json
from .mma_sketch import SHARED, as_mma, epilogue_start, suits_mma

_SILENT = logging.getLogger("foretune.tensor_core_space")
_SILENT.setLevel(logging.CRITICAL)  # the rules warn of flaws that are repaired here


def cuda_sketches(target: Target, rules: Sequence[ms.ScheduleRule]) -> Callable[[Schedule], list[Schedule]]:
    """Function from an unscheduled task to its sketches; `rules` are MetaSchedule's own for `target`."""
    plain = [rule for rule in rules if not isinstance(rule, ms.schedule_rule.MultiLevelTilingTensorCore)]
    load_tensor_intrinsics()
    wmma = tensor_core_rule(target)

    def sketches(task: Schedule) -> list[Schedule]:
        found = _spaces(task.mod, target, plain)
        if wmma is None:
            return found
        by_wmma = [
            space for space in _spaces(task.mod, target, [plain[0], wmma, *plain[1:]]) if _way(space) == WMMA
        ]
        traces = [aligned(_with_inlined_epilogue(task.mod, trace_as_json(space.trace))) for space in by_wmma]
        made = [_replayed(task.mod, trace) for trace in traces]
        made += [_replayed(task.mod, as_mma(trace)) for trace in traces if suits_mma(trace)]
        return [*filter(None, made), *found]

    return sketches


def _way(space: Schedule) -> str | None:
    return tensor_core_way(str(space.trace))


def _spaces(mod: tvm.IRModule, target: Target, rules: Sequence[ms.ScheduleRule]) -> list[Schedule]:
    generator = ms.space_generator.PostOrderApply(sch_rules=list(rules), postprocs=[], mutator_probs={})
    with interrupts_deferred():
        context = ms.TuneContext(
            mod=mod, target=target, space_generator=generator, rand_state=1, num_threads=1, logger=_SILENT
        )
        return list(context.clone().generate_design_space())


def _replayed(mod: tvm.IRModule, trace: list[Any]) -> Schedule | None:
    """Schedule of a trace (JSON); None if it does not apply to the task."""
    schedule = Schedule(mod, seed=1, debug_mask=0, error_render_level="none")
    try:
        Trace.apply_json_to_schedule(trace, schedule)
    except Exception:  # TVM raises various exceptions for a trace that does not fit
        return None
    return schedule


def _with_inlined_epilogue(mod: tvm.IRModule, trace: list[Any]) -> list[Any]:
    """The trace with an epilogue inlined that MetaSchedule left to a kernel of its own, as it does with GELU.

    The trace itself where there is none, or none that can be inlined.
    """
    steps, decisions = trace
    blocks = {step[3][0] for step in steps if step[0] == "GetSBlock"}
    tile = next(number for number, step in enumerate(steps) if step[0] == "Blockize")
    own = [n for n, step in enumerate(steps) if n > tile and step[0] == "GetLoops" and step[1][0] in blocks]
    if not own:
        return trace
    tail, last = own[0], steps[own[0]][1][0]
    inlined = ["ReverseComputeInline", [last], [], []]
    fused = [[*steps[:tail], inlined], [of for of in decisions if of[0] < tail]]
    return trace if _replayed(mod, fused) is None else fused


def aligned(trace: list[Any]) -> list[Any]:
    """The trace for WMMA with rows of shared memory apart in banks, as MetaSchedule has them for float16."""
    steps, decisions = trace
    if any(step[0] == "StorageAlign" for step in steps):
        return trace
    copies = [step[3][0] for step in steps if step[0] == "CacheRead" and step[2][1] == SHARED]
    padding = [["StorageAlign", [copy], [0, -2, 32, 8], []] for copy in copies]
    at = epilogue_start(steps)
    return [[*steps[:at], *padding, *steps[at:]], _moved(decisions, at, len(padding))]


def _moved(decisions: Sequence[Any], after: int, by: int) -> list[Any]:
    """Decisions whose instructions from number `after` on moved."""
    return [[number + by if number >= after else number, value] for number, value in decisions]
