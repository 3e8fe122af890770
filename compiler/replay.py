"""Serialisation and replay of traces: a record's trace, replayed on its task, gives the measured program."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Schedule, Trace

from .templates.cpu.intrinsics.registry import register_named
from .tvm_compat import trace_as_json

NOT_APPLICABLE = "trace does not apply"
"""Cause of a rejected trace that does not fit the task."""


class RejectedError(Exception):
    """A trace gives no valid program; the message is the cause, such as the rejecting postprocessor."""


def trace_to_json(trace: Trace) -> str:
    """Canonical JSON of a trace, without postprocessing and dead instructions."""
    return json.dumps(trace_as_json(trace.simplified(remove_postproc=True)), separators=(",", ":"))


def trace_content(trace: Trace) -> Any:
    """Content of `trace_to_json` as Python values."""
    return json.loads(trace_to_json(trace))


def without_postprocessing(trace: Any) -> Any:
    """A trace (JSON object) up to where MetaSchedule's postprocessing begins."""
    instructions, decisions = trace
    end = next(
        (number for number, (kind, *_) in enumerate(instructions) if kind == "EnterPostproc"),
        len(instructions),
    )
    return [instructions[:end], [decision for decision in decisions if decision[0] < end]]


def candidate_trace_json(candidate: ms.MeasureCandidate) -> str:
    """Canonical JSON of a candidate's trace; cached, as candidates do not change."""
    return _finished_trace_json(candidate.sch.trace)


@lru_cache(maxsize=1024)  # samplers and features ask for the candidates of a round
def _finished_trace_json(trace: Trace) -> str:
    """JSON of a finished trace; equal keys are the same TVM object, which the cache keeps alive."""
    return trace_to_json(trace)


def candidate_module_json(candidate: ms.MeasureCandidate) -> str:
    """TVM's JSON of a candidate's scheduled module, which workers build."""
    return tvm.ir.save_json(candidate.sch.mod)


def replay(context: ms.TuneContext, trace: str | Any) -> ms.MeasureCandidate | None:
    """Apply a trace (JSON text or object) and the postprocessors of `context` to its task.

    Returns None if the trace does not fit the task or a postprocessor rejects the program.
    """
    try:
        return replay_or_reject(context, trace)
    except RejectedError:
        return None


def replay_or_reject(context: ms.TuneContext, trace: str | Any) -> ms.MeasureCandidate:
    """`replay` that raises RejectedError with the cause instead of returning None."""
    schedule = Schedule(context.mod, seed=1, debug_mask=0, error_render_level="none")
    try:
        content = json.loads(trace) if isinstance(trace, str) else trace
        check_decisions(content)
        register_named(_intrinsics(content))
        Trace.apply_json_to_schedule(content, schedule)
        return apply_postprocessors(context, schedule)
    except RejectedError:
        raise
    except (
        Exception
    ) as error:  # TVM raises ScheduleError, InternalError and others for traces that do not fit
        raise RejectedError(NOT_APPLICABLE) from error


def _intrinsics(trace: Any) -> list[str]:
    """Names of the tensor intrinsics of a trace (JSON object)."""
    return [str(attributes[0]) for kind, _, attributes, _ in trace[0] if kind == "Tensorize"]


def check_decisions(trace: Any) -> None:
    """Raise ValueError for a trace (JSON object) with decisions that would crash TVM."""
    instructions, decisions = trace
    for instruction, decision in decisions:
        if not 0 <= instruction < len(instructions):
            raise ValueError(
                f"decision for instruction {instruction}, but the trace has only {len(instructions)}"
            )
        if isinstance(decision, list) and any(factor < 1 for factor in decision):
            raise ValueError(f"tile sizes {decision}: must be at least 1")


def instantiate(context: ms.TuneContext, trace: Trace, seed: int) -> ms.MeasureCandidate:
    """Program of a task's trace; `seed` (at least 1) draws the decisions that the trace leaves open.

    Raises RejectedError.
    """
    schedule = Schedule(context.mod, seed=seed, debug_mask=0, error_render_level="none")
    try:
        trace.apply_to_schedule(schedule, remove_postproc=True)
    except Exception as error:  # as in `replay_or_reject`
        raise RejectedError(NOT_APPLICABLE) from error
    return apply_postprocessors(context, schedule)


def apply_postprocessors(context: ms.TuneContext, schedule: Schedule) -> ms.MeasureCandidate:
    """Candidate after the postprocessors of `context`; raises RejectedError."""
    schedule.enter_postproc()
    for postprocessor in context.space_generator.postprocs:
        try:
            accepted = postprocessor.apply(schedule)
        except Exception:  # as in `replay_or_reject`
            accepted = False
        if not accepted:
            raise RejectedError(str(postprocessor).rpartition(".")[2].partition("(")[0])
    return ms.MeasureCandidate(
        schedule, ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
    )
