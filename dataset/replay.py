"""Traces as text, and back: a record's trace replayed on its task gives the program that was measured."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace

from .tvm_compat import trace_as_json


class RefusedError(Exception):
    """A trace gives no program; the text is the cause, such as the name of the postprocessor that refused."""


def trace_to_json(trace: Trace) -> str:
    """Canonical JSON of a trace without postprocessing and dead instructions."""
    return json.dumps(trace_as_json(trace.simplified(remove_postproc=True)), separators=(",", ":"))


def trace_content(trace: Trace) -> Any:
    """What `trace_to_json` writes, as plain Python values."""
    return json.loads(trace_to_json(trace))


def candidate_trace_json(candidate: ms.MeasureCandidate) -> str:
    """Canonical JSON of the trace that made a candidate; written once, since a candidate does not change."""
    return _finished_trace_json(candidate.sch.trace)


@lru_cache(maxsize=1024)  # the candidates of a round, which samplers and features ask for
def _finished_trace_json(trace: Trace) -> str:
    """Equal keys are the same TVM object, which the cache keeps alive."""
    return trace_to_json(trace)


def candidate_module_json(candidate: ms.MeasureCandidate) -> str:
    """TVM's JSON of a candidate's scheduled module, which is what a measuring worker builds."""
    return tvm.ir.save_json(candidate.sch.mod)


def replay(context: ms.TuneContext, trace: str | Any) -> ms.MeasureCandidate | None:
    """Applies a trace (its JSON text or object) and the postprocessors of `context` to its task.

    Returns None where the trace does not fit the task or a postprocessor refuses the program.
    """
    schedule = Schedule(context.mod, seed=1, debug_mask=0, error_render_level="none")
    try:
        content = json.loads(trace) if isinstance(trace, str) else trace
        check_decisions(content)
        Trace.apply_json_to_schedule(content, schedule)
        return postprocessed(context, schedule)
    except Exception:  # TVM raises ScheduleError, InternalError and others for a trace that does not fit
        return None


def check_decisions(trace: Any) -> None:
    """Raises ValueError for the JSON object of a trace whose decisions would crash the process in TVM."""
    instructions, decisions = trace
    for instruction, decision in decisions:
        if not 0 <= instruction < len(instructions):
            raise ValueError(
                f"a decision of instruction {instruction}, of which there are {len(instructions)}"
            )
        if isinstance(decision, list) and any(factor < 1 for factor in decision):
            raise ValueError(f"the tile sizes {decision}")


def instantiate(context: ms.TuneContext, trace: Trace, seed: int) -> ms.MeasureCandidate:
    """The program of a trace of the task; `seed` (at least 1) draws the decisions that the trace leaves open.

    Raises RefusedError.
    """
    schedule = Schedule(context.mod, seed=seed, debug_mask=0, error_render_level="none")
    try:
        trace.apply_to_schedule(schedule, remove_postproc=True)
    except Exception as error:  # see replay
        raise RefusedError("trace does not apply") from error
    return postprocessed(context, schedule)


def postprocessed(context: ms.TuneContext, schedule: Schedule) -> ms.MeasureCandidate:
    """The candidate that the postprocessors of `context` make of a schedule; raises RefusedError."""
    schedule.enter_postproc()
    for postprocessor in context.space_generator.postprocs:
        try:
            accepted = postprocessor.apply(schedule)
        except Exception:  # see replay
            accepted = False
        if not accepted:
            raise RefusedError(str(postprocessor).rpartition(".")[2].partition("(")[0])
    return ms.MeasureCandidate(
        schedule, ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
    )
