"""Spaces of a task for a target, from MetaSchedule's design spaces: needs TVM, once a task and target."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace

from ..replay import trace_to_json
from ..tvm_compat import design_spaces
from .space import SketchSpace
from .structure import TaskStructure

LOCATION_DRAWS = 24
"""Random candidates of a sketch with compute locations, drawn to see which locations there are."""


def read_spaces(
    context: ms.TuneContext, structure: TaskStructure, name: str, seed: int = 0
) -> list[SketchSpace]:
    """One space a sketch that draws something; raises NoDesignSpaceError where there is none.

    A location that leads to a sketch of other instructions when simplified does not belong to its space.
    """
    rng = np.random.default_rng(seed)
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for space in design_spaces(context, name):
        found_here = [_parsed(space.trace)]
        if any(kind == "SampleComputeLocation" for kind, *_ in found_here[0][0]):
            for _ in range(LOCATION_DRAWS):
                schedule = Schedule(
                    context.mod, seed=int(rng.integers(1, 2**31 - 1)), debug_mask=0, error_render_level="none"
                )
                try:
                    Trace(space.trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
                except Exception:  # TVM raises several kinds for a draw that does not fit
                    continue
                found_here.append(_parsed(schedule.trace))
        for trace in found_here:
            found[json.dumps(trace[0])].append(trace)
    return [SketchSpace.observed(traces, structure) for traces in found.values() if traces[0][1]]


def _parsed(trace: Trace) -> Any:
    return json.loads(trace_to_json(trace))
