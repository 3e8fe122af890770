"""Programs of templates: the schedule of a template on a task, and the traces of the most promising ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeAlias

import tvm
from tvm.s_tir.schedule import Schedule, ScheduleError
from tvm.target import Target

from ...hardware import Hardware
from ...replay import trace_to_json
from ...targets import is_cpu, require_instructions, target_instructions
from ...tvm_compat import load_cpu_intrinsics, target_cores
from .attention.attention_schedule import AttentionTemplate, apply_attention, is_attention
from .chains.chain import Chain, read_chain
from .chains.chain_schedule import apply_chain
from .chains.chain_template import ChainTemplate, chain_templates
from .choice import ranked
from .contraction import Contraction, read_contraction
from .depthwise import Depthwise, DepthwiseTemplate, depthwise_templates, read_depthwise
from .depthwise_schedule import apply_depthwise
from .elementwise import Elementwise, ElementwiseTemplate, elementwise_templates, read_elementwise
from .elementwise_schedule import apply_elementwise
from .overflow import check_accumulator
from .profile.tile_profile import TileProfiler
from .template import Template
from .tile_schedule import apply_tiles
from .vector_schedule import apply_vectors
from .winograd import Winograd, WinogradTemplate, read_winograd, winograd_templates
from .winograd_schedule import apply_winograd

_LOG = logging.getLogger(__name__)

AnyTemplate: TypeAlias = (
    Template | WinogradTemplate | ChainTemplate | DepthwiseTemplate | ElementwiseTemplate | AttentionTemplate
)
"""Template of any kind of task."""


def template_traces(
    mod: tvm.IRModule,
    target: Target,
    hardware: Hardware | None,
    count: int,
    profiler: TileProfiler | None = None,
    margin: float | None = None,
) -> list[str]:
    """Traces of up to `count` templates of a task, the most promising first; empty if none fits.

    With a profiler, templates that are predicted to take over 1 + `margin` times as long as the first are
    left out. Raises AccumulatorOverflowError for a task whose 8-bit products may overflow their sums.
    """
    programs = template_programs(mod, target, hardware, profiler=profiler, margin=margin)
    return [trace_to_json(sch.trace) for _, sch in islice(programs, count)]


def template_programs(
    mod: tvm.IRModule,
    target: Target,
    hardware: Hardware | None,
    require: bool = False,
    profiler: TileProfiler | None = None,
    margin: float | None = None,
) -> Iterator[tuple[AnyTemplate, Schedule]]:
    """Yields templates of a task with their programs, the most promising first; see `template_traces`.

    A convolution by Winograd's algorithm, a chain of products, a depthwise convolution, attention and a task
    without sums have templates of their own.

    Raises AccumulatorOverflowError. With `require`, raises MissingInstructionError for a contraction of data
    types that the target has no instruction for.
    """
    if not is_cpu(target):
        return
    limit = None
    for template, make, estimate in _choices(mod, target, hardware, require, profiler):
        if limit is not None and estimate > limit:
            return
        try:
            program = make()
        except ScheduleError:  # such as loops of a form that the template does not know
            continue
        except Exception as error:  # TVM raises InternalError and others; the task has other programs
            reason = str(error).strip().partition("\n")[0]
            _LOG.warning("left out %s, which fails on a task: %s: %s", template, type(error).__name__, reason)
            continue
        if limit is None and estimate and margin is not None:
            limit = (1 + margin) * estimate
        yield template, program


def _choices(
    mod: tvm.IRModule,
    target: Target,
    hardware: Hardware | None,
    require: bool,
    profiler: TileProfiler | None,
) -> Iterator[tuple[AnyTemplate, Callable[[], Schedule], float]]:
    """Templates, the function that makes the program of each, and estimated seconds, 0 without a profile."""
    cores = target_cores(target)
    if (winograd := read_winograd(mod)) is not None:
        fused = target_instructions(target, *winograd.types)
        for choice in winograd_templates(winograd, fused, hardware, cores):
            yield choice, partial(scheduled_winograd, mod, winograd, choice), 0.0
    elif (chain := read_chain(mod)) is not None:
        found = target_instructions(target, *chain.types)
        for fused_template in chain_templates(chain, found, hardware, cores):
            yield fused_template, partial(scheduled_chain, mod, chain, fused_template), 0.0
    elif is_attention(mod):
        yield AttentionTemplate(), partial(scheduled_attention, mod), 0.0
    elif (depthwise := read_depthwise(mod)) is not None:
        for across in depthwise_templates(depthwise, target, cores):
            yield across, partial(scheduled_depthwise, mod, depthwise, across), 0.0
    elif (elementwise := read_elementwise(mod)) is not None:
        for order in elementwise_templates(elementwise):
            yield order, partial(scheduled_elementwise, mod, elementwise, order, cores), 0.0
    elif (task := read_contraction(mod)) is not None:
        instructions = (require_instructions if require else target_instructions)(target, *task.types)
        if instructions:
            check_accumulator(task)
        profile = profiler.profile(instructions) if profiler is not None and instructions else None
        for template, estimate in ranked(task, instructions, hardware, cores, profile):
            yield template, partial(scheduled, mod, task, template, target), estimate if profile else 0.0


def scheduled_winograd(mod: tvm.IRModule, task: Winograd, template: WinogradTemplate) -> Schedule:
    """Schedule of `main` by a template of Winograd's algorithm; its trace is an ordinary one."""
    load_cpu_intrinsics()
    sch = _unscheduled(mod)
    apply_winograd(sch, task, template)
    return sch


def scheduled_chain(mod: tvm.IRModule, chain: Chain, template: ChainTemplate) -> Schedule:
    """Schedule of `main` by a template of chains, with an ordinary trace. Raises TVM's ScheduleError."""
    load_cpu_intrinsics()
    sch = _unscheduled(mod)
    apply_chain(sch, chain, template)
    return sch


def scheduled_depthwise(mod: tvm.IRModule, task: Depthwise, template: DepthwiseTemplate) -> Schedule:
    """Schedule of `main` by a template of depthwise convolutions; its trace is an ordinary one."""
    sch = _unscheduled(mod)
    apply_depthwise(sch, task, template)
    return sch


def scheduled_attention(mod: tvm.IRModule) -> Schedule:
    """Schedule of `main`, a kernel of attention; its trace is an ordinary one."""
    sch = _unscheduled(mod)
    apply_attention(sch)
    return sch


def scheduled_elementwise(
    mod: tvm.IRModule, task: Elementwise, template: ElementwiseTemplate, cores: int
) -> Schedule:
    """Schedule of `main` by a template of tasks without sums, as an ordinary trace. Raises ScheduleError."""
    sch = _unscheduled(mod)
    apply_elementwise(sch, task, template, cores)
    return sch


def scheduled(mod: tvm.IRModule, task: Contraction, template: Template, target: Target) -> Schedule:
    """Schedule of `main` by a template; its trace is an ordinary one. Raises TVM's ScheduleError."""
    load_cpu_intrinsics()
    sch = _unscheduled(mod)
    apply = apply_tiles if template.instruction.tiles else apply_vectors
    apply(sch, task, template, target_cores(target))
    return sch


def _unscheduled(mod: tvm.IRModule) -> Schedule:
    """Schedule without a step, which renders no errors: templates that do not fit raise many."""
    return Schedule(mod, seed=1, debug_mask=0, error_render_level="none")
