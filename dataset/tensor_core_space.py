"""Design spaces of a CUDA task: for tensor cores by WMMA and by MMA, and for plain threads.

MetaSchedule's rules have faults that are repaired here, in the traces that they make:

- In one list of rules, the first that tiles a block for tensor cores hides all others. Each way gets its own.
- MMA's rule stores accumulators straight to the output, and only for a plain copy. Here they pass through
  shared memory, as WMMA's do, so that any epilogue is computed on the way out. This also lets it pad.
- MMA's rule pads to 16 rows and 8 columns, and then asks for tiles of 32 by 32.
- Rows of shared memory of bfloat16 are not padded against bank conflicts, as those of float16 are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace
from tvm.target import Target

from .interruption import interrupts_deferred
from .tvm_compat import MMA, WMMA, mma_store_name, tensor_core_rule, tensor_core_way, trace_as_json

_SILENT = logging.getLogger("foretune.tensor_core_space")
_SILENT.setLevel(logging.CRITICAL)  # the rules warn of what is repaired here

_FRAGMENT, _SHARED = "m16n8k8.matrixC", "shared.dyn"
_STORE_VECTORS = [1, 2, 4, 8]
_TENSORIZE = "meta_schedule.auto_tensorize"

Step = list[Any]
"""Instruction of a trace as JSON: kind, inputs, attributes, outputs."""


def cuda_sketches(target: Target, rules: Sequence[ms.ScheduleRule]) -> Callable[[Schedule], list[Schedule]]:
    """Function from an unscheduled task to its sketches; `rules` are MetaSchedule's own for `target`."""
    plain = [rule for rule in rules if not isinstance(rule, ms.schedule_rule.MultiLevelTilingTensorCore)]
    wmma, mma = tensor_core_rule(target, WMMA), tensor_core_rule(target, MMA)

    def sketches(task: Schedule) -> list[Schedule]:
        found = _spaces(task.mod, target, plain)
        if wmma is None:
            return found
        by_wmma = [
            space for space in _spaces(task.mod, target, [plain[0], wmma, *plain[1:]]) if _way(space) == WMMA
        ]
        traces = [aligned(trace_as_json(space.trace)) for space in by_wmma]
        made = [_replayed(task.mod, trace) for trace in traces]
        if mma is not None and traces:
            made.append(_by_mma(task.mod, target, mma, traces[0]))
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


def _by_mma(mod: tvm.IRModule, target: Target, rule: ms.ScheduleRule, by_wmma: list[Any]) -> Schedule | None:
    """The sketch for MMA with the epilogue of one for WMMA; None if MMA's rule has none."""
    if _product_loops(by_wmma[0]) != 3:
        return None  # the rule knows no batches
    try:
        spaces = _spaces(mod, target, [rule])
    except Exception:  # as in `_replayed`: tiles of 32 by 32 do not divide the padded product
        return None
    for space in spaces:
        if _way(space) == MMA:
            return _replayed(mod, with_epilogue(trace_as_json(space.trace), by_wmma))
    return None


def aligned(trace: list[Any]) -> list[Any]:
    """The trace for WMMA with rows of shared memory apart in banks, as MetaSchedule has them for float16."""
    steps, decisions = trace
    if any(step[0] == "StorageAlign" for step in steps):
        return trace
    copies = [step[3][0] for step in steps if step[0] == "CacheRead" and step[2][1] == _SHARED]
    padding = [["StorageAlign", [copy], [0, -2, 32, 8], []] for copy in copies]
    at = _epilogue_start(steps)
    return [[*steps[:at], *padding, *steps[at:]], _moved(decisions, at, len(padding))]


def with_epilogue(trace: list[Any], by_wmma: list[Any]) -> list[Any]:
    """The trace of MMA's rule with accumulators stored by way of shared memory, then WMMA's epilogue.

    Both traces begin with the same names of the task's blocks.
    """
    steps, decisions = trace
    at = next(number for number, step in enumerate(steps) if step[0] == "WriteAt")
    product, reindexed = steps[at][1][1], steps[at + 1][1][0]
    threads = {step[2][0]: step[1][0] for step in steps[:at] if step[0] == "Bind"}
    store = _store(product, reindexed, threads["blockIdx.x"], threads["threadIdx.y"], _accumulator(steps))
    result = [*steps[:at], *store, *steps[at + 2 :]]
    decisions = _moved(decisions, at, len(store) - 2)
    decisions.append([at + next(i for i, step in enumerate(store) if step[0].startswith("Sample")), 0])
    other, other_decisions = by_wmma
    start = _epilogue_start(other)
    decisions += _moved([d for d in other_decisions if d[0] >= start], 0, len(result) - start)
    return [[*result, *_renamed(other[start:])], sorted(decisions)]


def _store(product: str, reindexed: str, block: str, warp: str, accumulator: str) -> list[Step]:
    """Instructions that store the accumulators of a product; `reindexed` writes the output."""
    vector = [_STORE_VECTORS, [1 / len(_STORE_VECTORS)] * len(_STORE_VECTORS)]
    return [
        ["CacheWrite", [product, []], [0, _SHARED], ["b_out"]],
        ["ReverseComputeAt", ["b_out", block], [1, -1], []],
        ["CacheWrite", [product, []], [0, _FRAGMENT], ["b_sums"]],
        ["ReverseComputeAt", ["b_sums", warp], [1, -1], []],
        ["ReverseComputeInline", [reindexed], [], []],
        ["GetLoops", ["b_sums"], [], ["l_s0", "l_s1", "l_s2", "l_row", "l_column"]],
        ["Split", ["l_column", "None", 8], [True, False], ["l_c0", "l_c1"]],
        ["Split", ["l_row", "None", 16], [True, False], ["l_r0", "l_r1"]],
        ["Reorder", ["l_c0", "l_r1", "l_c1"], [], []],
        ["Blockize", ["l_r1"], [1], ["b_tile"]],
        ["Annotate", ["b_tile", f'"{mma_store_name(accumulator)}"'], [_TENSORIZE], []],
        ["GetLoops", ["b_out"], [], ["l_o0", "l_o1", "l_o2", "l_o3"]],
        ["Fuse", ["l_o2", "l_o3"], [1], ["l_out"]],
        ["SampleCategorical", [], vector, ["v_out"]],
        ["Annotate", ["b_out", "v_out"], ["meta_schedule.cooperative_fetch"], []],
    ]


def _product_loops(steps: Sequence[Step]) -> int:
    """Loops around the first tile that is made for tensor cores: rows, columns, sum, and batches."""
    tile = next(step[3][0] for step in steps if step[0] == "Blockize")
    return next(len(step[3]) for step in steps if step[0] == "GetLoops" and step[1] == [tile])


def _accumulator(steps: Sequence[Step]) -> str:
    """Type of the sums, by the name of the intrinsic that computes."""
    name = next(str(step[1][1]) for step in steps if step[0] == "Annotate" and step[2] == [_TENSORIZE])
    return "float16" if name.strip('"').endswith("f16f16f16") else "float32"


def _epilogue_start(steps: Sequence[Step]) -> int:
    """Number of the first instruction that later rules add: they name the blocks of the task alone."""
    blocks = {step[3][0] for step in steps if step[0] == "GetSBlock"}
    at = len(steps)
    while at and (
        steps[at - 1][0] == "SampleCategorical"
        or (
            steps[at - 1][0] in ("ComputeInline", "ReverseComputeInline", "Annotate")
            and steps[at - 1][1][0] in blocks
        )
    ):
        at -= 1
    return at


def _moved(decisions: Sequence[Any], after: int, by: int) -> list[Any]:
    """Decisions whose instructions from number `after` on moved."""
    return [[number + by if number >= after else number, value] for number, value in decisions]


def _renamed(steps: Sequence[Step]) -> list[Step]:
    """Instructions of an epilogue whose variables have names of their own."""
    own = {name: f"{name}_epilogue" for step in steps for name in step[3]}
    return [
        [
            kind,
            [own.get(value, value) if isinstance(value, str) else value for value in inputs],
            attributes,
            [own[name] for name in outputs],
        ]
        for kind, inputs, attributes, outputs in steps
    ]
