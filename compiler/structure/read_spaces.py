"""Reads the sketch spaces of a task and target from MetaSchedule's design spaces; needs TVM."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace
from tvm.target import Target

from ..replay import trace_content
from ..targets import traits
from ..tvm_compat import design_spaces
from .limits import GpuLimits
from .read_sketch import read_sketch
from .space import SketchSpace
from .structure import TaskStructure

LOCATION_DRAWS = 24
"""Random candidates of a sketch, drawn to observe compute locations that no rule determines."""

_INLINED = -2


def read_spaces(
    context: ms.TuneContext, structure: TaskStructure, name: str, seed: int = 0
) -> list[SketchSpace]:
    """One space for each sketch with decisions; raises NoDesignSpaceError if there is no design space."""
    rng = np.random.default_rng(seed)
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for space in design_spaces(context, name):
        for trace in [trace_content(space.trace), *_location_traces(context, space.trace, structure, rng)]:
            # Simplifying a trace can change the instructions that follow a location: another sketch.
            found[json.dumps(trace[0])].append(trace)
    return [SketchSpace.from_traces(traces, structure) for traces in found.values() if traces[0][1]]


def gpu_limits(target: Target, code: int | None = None) -> GpuLimits | None:
    """Limits of a thread block of a CUDA target, None for a CPU; `code` is `GpuLimits.code`."""
    limits = traits(target).limits
    return None if limits is None else replace(limits, code=code)


def _location_traces(
    context: ms.TuneContext, trace: Trace, structure: TaskStructure, rng: np.random.Generator
) -> list[Any]:
    """Candidates of a sketch with observed compute locations; empty if it samples no location."""
    parsed = trace_content(trace)
    sketch, _ = read_sketch(parsed, structure)
    locations = [i for i, decision in enumerate(sketch.decisions) if decision.kind == "location"]
    if not locations:
        return []
    # Only whether the block's own inputs can be inlined is open (see `SketchSpace.canonical`). Ask for it.
    known = {sketch.decisions[number].instruction for _, number in sketch.producers}
    if len(known) == len(locations):
        asked = [[i, _INLINED if int(i) in known else value] for i, value in parsed[1]]
        schedule = _schedule(context, 1)
        Trace.apply_json_to_schedule([parsed[0], asked], schedule)
        return [trace_content(schedule.trace)]
    traces = []
    for _ in range(LOCATION_DRAWS):
        schedule = _schedule(context, int(rng.integers(1, 2**31 - 1)))
        try:
            Trace(trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
        except Exception:  # TVM raises various exceptions for a draw that is not legal
            continue
        traces.append(trace_content(schedule.trace))
    return traces


def _schedule(context: ms.TuneContext, seed: int) -> Schedule:
    return Schedule(context.mod, seed=seed, debug_mask=0, error_render_level="none")
