"""Design spaces of a CUDA task: for tensor cores by WMMA and by MMA, and for plain threads.

MetaSchedule's rule for WMMA makes the sketches for WMMA, and `as_mma` makes sketches for MMA of their traces.
Differences from MetaSchedule's own rules:

- In one list of rules, the first that tiles a block for tensor cores hides all others. Here each way has
  sketches of its own, and threads without tensor cores too.
- MMA (m16n8k8) also accepts an epilogue that reads more than the sums, on which MetaSchedule's rule fails.
  Rows and columns must be multiples of 32; WMMA pads others.
- An epilogue that reads the sums more than once, such as GELU, is computed in the same kernel.
- Rows of bfloat16 in shared memory are padded against bank conflicts, as those of float16 are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace
from tvm.target import Target

from ..host.interruption import interrupts_deferred
from ..tvm_compat import (
    MMA_PRODUCTS,
    WMMA,
    load_tensor_intrinsics,
    mma_store_name,
    tensor_core_rule,
    tensor_core_way,
    trace_as_json,
)
from ..types import data_type

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


SHARED = "shared.dyn"
"""Memory scope of a thread block's copies."""

_FRAGMENTS = {"wmma.matrix_a": ("m16n8k8.matrixA", (8, 32)), "wmma.matrix_b": ("m16n8k8.matrixB", (32, 8))}
"""By scope of WMMA: the scope of MMA, and the tiles of a load, of the last axis first."""

_SUMS = "m16n8k8.matrixC"
_STORE_BYTES = 16
"""Bytes of sums that a thread stores at once, at most."""

_TENSORIZE, _FETCH = "meta_schedule.auto_tensorize", "meta_schedule.cooperative_fetch"

_INNER_STAGES = {"software_pipeline_stage": [0, 0, 1], "software_pipeline_order": [0, 1, 2]}
_OUTER_STAGES = {
    "software_pipeline_async_stages": [0],
    "software_pipeline_stage": [0, 0, 1, 2, 2],
    "software_pipeline_order": [0, 1, 3, 2, 4],
}
"""Pipelines over fragments and over copies: the products of one step run next to the copies of the next."""

Step = list[Any]
"""Instruction of a trace as JSON: kind, inputs, attributes, outputs."""


def suits_mma(trace: list[Any]) -> bool:
    """Whether a product has a type and an order of the right matrix for MMA, no batches and no padding.

    TVM lowers fragments of two dimensions, and a store that is moved to its block loses its bounds.
    """
    steps = trace[0]
    if any(step[0] == "PadEinsum" for step in steps):
        return False
    return _product(steps) in MMA_PRODUCTS and len(_loops(steps)) == 3


def as_mma(trace: list[Any]) -> list[Any]:
    """The trace for MMA of one for WMMA (one that `suits_mma`).

    Tiles are 16x8x8, and each warp loads fragments of 32x8 and 8x32. Copies to shared memory are asynchronous
    and run ahead of the products, in the stages that MetaSchedule's rule for MMA has.
    """
    steps, decisions = [list(step) for step in trace[0]], dict(trace[1])
    tile = next(number for number, step in enumerate(steps) if step[0] == "Blockize")
    product = steps[tile][3][0]
    store = next(number for number, step in enumerate(steps) if _is(step, "TransformLayout", product))
    threads = {step[2][0]: step[1][0] for step in steps[:store] if step[0] == "Bind"}
    stored = next(number for number, step in enumerate(steps) if step[2] == [_FETCH])
    reindexed = next(step[1][0] for step in steps[store:stored] if step[0] == "ReverseComputeInline")
    loops = _loops(steps)
    _split(steps[:tile], (8, 8, 16))  # the sum's loop, columns, rows
    for axis, inner in ((-3, 2), (-2, 4)):  # rows and columns of a warp in whole fragments of 32
        number = next(n for n, step in enumerate(steps) if _is(step, "SamplePerfectTile", loops[axis]))
        steps[number][0], steps[number][2] = "SamplePartitionedTile", [5, 3, inner]
        del decisions[number]
    copied, fragments = [], []
    for number, step in enumerate(steps):
        if step[0] == "CacheRead" and step[2][1] == SHARED:
            copied = steps[number + 1][1]
        elif step[0] == "CacheRead":
            scope, tiles = _FRAGMENTS[step[2][1]]
            step[2] = [step[2][0], scope]
            _split(steps[number:], tiles)
            fragments = steps[number + 1][1]
        elif step[0] == "Annotate" and step[2][0].startswith(_TENSORIZE):
            step[1] = [step[1][0], _mma_intrinsic(step[1][1])]
    accumulator = MMA_PRODUCTS[_product(trace[0])]
    own = _store(product, threads["blockIdx.x"], threads["threadIdx.y"], accumulator)
    start = epilogue_start(steps)
    inlined = [step for step in steps[start:] if step[0].endswith("Inline")]
    own[1:1] = [["ReverseComputeInline", [reindexed], [], []], *inlined]
    later = [step for step in steps[start:] if not step[0].endswith("Inline")]
    pipeline = [*_annotated(fragments[1], _INNER_STAGES), *_annotated(copied[1], _OUTER_STAGES)]
    result = [*steps[:store], *own, *steps[stored + 1 : start], *pipeline, *later]
    return [result, _renumbered(steps, decisions, result)]


def epilogue_start(steps: Sequence[Step]) -> int:
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


def _loops(steps: Sequence[Step]) -> list[str]:
    """Loops around the first tile, which is the product's: batches, rows, columns, sum."""
    tile = next(number for number, step in enumerate(steps) if step[0] == "Blockize")
    product = steps[tile][3][0]
    return next(list(step[3]) for step in steps[tile:] if _is(step, "GetLoops", product))


def _product(steps: Sequence[Step]) -> str:
    """Intrinsic that multiplies, the first that a trace names."""
    name = next(step[1][1] for step in steps if step[0] == "Annotate" and step[2] == [_TENSORIZE])
    return str(name).strip('"')


def _is(step: Step, kind: str, variable: str) -> bool:
    return step[0] == kind and step[1][0] == variable


def _split(steps: Sequence[Step], factors: Sequence[int]) -> None:
    """Gives the first splits into tiles other factors."""
    splits = [step for step in steps if step[0] == "Split" and step[1][1] == "None"]
    for step, factor in zip(splits, factors, strict=False):
        step[1] = [*step[1][:2], factor]


def _mma_intrinsic(name: str) -> str:
    """Intrinsic of MMA in place of one of WMMA, both in quotes."""
    for matrix in ("a", "b"):
        name = name.replace(f"_{matrix}_shared", f"_{matrix.upper()}_shared")
    return name.replace("wmma_fill", "mma_init").replace("wmma_", "mma_").replace("16x16x16", "m16n8k8")


def _annotated(loop: str, values: Mapping[str, list[int]]) -> list[Step]:
    return [["Annotate", [loop, value], [name], []] for name, value in values.items()]


def _renumbered(
    steps: Sequence[Step], decisions: Mapping[int, Any], result: Sequence[Step]
) -> list[list[Any]]:
    """Decisions by the numbers that their instructions have in the result; the others are left to chance."""
    numbers = {id(step): number for number, step in enumerate(result)}
    return [[numbers[id(steps[n])], value] for n, value in decisions.items() if id(steps[n]) in numbers]


def _store(product: str, block: str, warp: str, accumulator: str) -> list[Step]:
    """Instructions that store the sums of a product at its blocks' loop, by way of shared memory."""
    most = _STORE_BYTES // data_type(accumulator).bytes
    lanes = [1 << power for power in range(most.bit_length())]
    vector = [lanes, [1 / len(lanes)] * len(lanes)]
    return [
        ["CacheWrite", [product, []], [0, SHARED], ["b_out"]],
        ["ReverseComputeAt", ["b_out", block], [1, -1], []],
        ["CacheWrite", [product, []], [0, _SUMS], ["b_sums"]],
        ["ReverseComputeAt", ["b_sums", warp], [1, -1], []],
        ["GetLoops", ["b_sums"], [], ["l_s0", "l_s1", "l_s2", "l_row", "l_column"]],
        ["Split", ["l_column", "None", 8], [True, False], ["l_c0", "l_c1"]],
        ["Split", ["l_row", "None", 16], [True, False], ["l_r0", "l_r1"]],
        ["Reorder", ["l_c0", "l_r1", "l_c1"], [], []],
        ["Blockize", ["l_r1"], [1], ["b_tile"]],
        ["Annotate", ["b_tile", f'"{mma_store_name(accumulator)}"'], [_TENSORIZE], []],
        ["GetLoops", ["b_out"], [], ["l_o0", "l_o1", "l_o2", "l_o3"]],
        ["Fuse", ["l_o2", "l_o3"], [1], ["l_out"]],
        ["SampleCategorical", [], vector, ["v_out"]],
        ["Annotate", ["b_out", "v_out"], [_FETCH], []],
    ]
